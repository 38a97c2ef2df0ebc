"""Stock clients, unmodified, against a real server: which of them can do what."""
