"""The interfaces that a model package implements, one per kind of scheduler."""
