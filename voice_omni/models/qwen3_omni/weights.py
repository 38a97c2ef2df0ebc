"""The released checkpoint. Another of the same model is used by giving its ``source``: ``hf:ORG/REPO`` or a folder."""

from __future__ import annotations

from voice_omni.weights.declaration import Weights

QWEN3_OMNI_30B = Weights(
    name="qwen3-omni-30b-a3b-instruct",
    source="hf:Qwen/Qwen3-Omni-30B-A3B-Instruct",
    files=("*.json", "*.safetensors", "merges.txt"),
    size=70_530_000_000,
    licence="Apache-2.0",
    description="Qwen3-Omni-30B-A3B-Instruct: hears, sees, writes and speaks",
)

WEIGHTS = (QWEN3_OMNI_30B,)
