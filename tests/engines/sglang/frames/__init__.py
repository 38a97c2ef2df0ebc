"""Frame heads."""
