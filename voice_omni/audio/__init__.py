"""Sound as arrays: formats, rates and timing. Pure functions and small classes, no I/O."""
