"""The client layer: a validated request in, typed reply events out. Knows the coordinator, not the model."""
