"""The three schedulers: they choose a batch, own the streams' state and hand the work down to a model runner."""
