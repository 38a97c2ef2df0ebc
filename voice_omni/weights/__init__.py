"""Where model weights come from: declared as data, fetched once, checked by SHA-256, kept in one cache."""

from voice_omni.weights.declaration import Weights
from voice_omni.weights.store import derived, fetch

__all__ = ["Weights", "derived", "fetch"]
