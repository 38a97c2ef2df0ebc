"""What runs a backbone and owns batching and the KV cache. Each engine is one module or package here."""
