"""Every published figure, one command each: ``python -m benchmarks.NAME`` prints a table."""
