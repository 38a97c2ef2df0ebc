"""SGLang's own scheduler behind the engine seam. No other package imports ``sglang``."""
