"""What flows between the layers: requests, payloads, control messages and errors. No I/O and no models."""
