"""Makes a Llama's activations easy to quantise: SmoothQuant (https://arxiv.org/abs/2211.10438), in numpy.

With int8 activations a few large channels take the whole range and the others lose theirs. Dividing each channel by a
factor, where it is made, and multiplying the weights that read it with the same factor changes nothing in exact
arithmetic and spreads the range. The factors come from a short calibration text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from voice_omni.models.starter.think_weights import Checkpoint, LlamaShape, Weights

_STRENGTH: Final = 0.5
"""How much of the difficulty moves from the activations to the weights, 0 to 1."""
_TINY: Final = 1e-5

ATTENTION_INPUT: Final = "self_attn.q_proj"
ATTENTION_OUTPUT: Final = "self_attn.o_proj"
FEED_FORWARD_INPUT: Final = "mlp.gate_proj"
FEED_FORWARD_OUTPUT: Final = "mlp.down_proj"

Peaks = dict[str, Weights]
"""The largest magnitude of each input channel of a linear layer, float32 ``[in]``, by the layer's name."""


def smooth(checkpoint: Checkpoint, tokens: Sequence[int]) -> Checkpoint:
    """The same function with smoother activations. ``tokens``: a typical prompt with answers, a hundred or so."""
    peaks = activation_peaks(checkpoint, tokens)
    tensors = dict(checkpoint.tensors)
    for layer in range(checkpoint.shape.layers):
        _smooth_layer(tensors, peaks, checkpoint.shape, f"model.layers.{layer}.")
    return replace(checkpoint, tensors=tensors)


def activation_peaks(checkpoint: Checkpoint, tokens: Sequence[int]) -> Peaks:
    """Run the model over ``tokens`` in float32 and note what its linear layers are given."""
    shape, tensors = checkpoint.shape, checkpoint.tensors
    peaks: Peaks = {}

    def linear(name: str, inputs: Weights) -> Weights:
        peaks[name] = np.abs(inputs).max(axis=0)
        return np.asarray(inputs @ tensors[f"{name}.weight"].T, np.float32)

    hidden = tensors["model.embed_tokens.weight"][list(tokens)]
    for layer in range(shape.layers):
        at = f"model.layers.{layer}."
        inputs = _rms_norm(hidden, tensors[f"{at}input_layernorm.weight"], shape.norm_epsilon)
        query, key, value = (linear(f"{at}self_attn.{part}_proj", inputs) for part in "qkv")
        hidden = hidden + linear(f"{at}{ATTENTION_OUTPUT}", _attend(query, key, value, shape))
        inputs = _rms_norm(hidden, tensors[f"{at}post_attention_layernorm.weight"], shape.norm_epsilon)
        gate, up = linear(f"{at}{FEED_FORWARD_INPUT}", inputs), linear(f"{at}mlp.up_proj", inputs)
        hidden = hidden + linear(f"{at}{FEED_FORWARD_OUTPUT}", _silu(gate) * up)
    return peaks


def _silu(gate: Weights) -> Weights:
    return np.asarray(gate / (1.0 + np.exp(-gate)), np.float32)


def _rms_norm(hidden: Weights, gamma: Weights, epsilon: float) -> Weights:
    return np.asarray(hidden / np.sqrt(np.mean(hidden**2, axis=-1, keepdims=True) + epsilon) * gamma, np.float32)


def _attend(query: Weights, key: Weights, value: Weights, shape: LlamaShape) -> Weights:
    """Causal attention with rotary embeddings over a whole sequence; ``[tokens, heads * head_dim]``."""
    length, groups = len(query), shape.heads // shape.kv_heads
    queries = _rotate(query.reshape(length, shape.heads, -1), shape.rope_base)
    keys = np.repeat(_rotate(key.reshape(length, shape.kv_heads, -1), shape.rope_base), groups, axis=1)
    values = np.repeat(value.reshape(length, shape.kv_heads, -1), groups, axis=1)
    scores = np.einsum("qhd,khd->hqk", queries, keys) / np.sqrt(shape.head_dim)
    scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.asarray(np.einsum("hqk,khd->qhd", weights, values).reshape(length, -1), np.float32)


def _rotate(heads: Weights, base: float) -> Weights:
    half = heads.shape[-1] // 2
    angles = np.arange(len(heads))[:, None, None] * base ** (-np.arange(half) / half)
    first, second = heads[..., :half], heads[..., half:]
    cos, sin = np.cos(angles), np.sin(angles)
    return np.asarray(np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1), np.float32)


def _smooth_layer(tensors: dict[str, Weights], peaks: Peaks, shape: LlamaShape, at: str) -> None:
    for norm, source, readers in (
        ("input_layernorm", ATTENTION_INPUT, ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
        ("post_attention_layernorm", FEED_FORWARD_INPUT, ("mlp.gate_proj", "mlp.up_proj")),
    ):
        names = [f"{at}{reader}.weight" for reader in readers]
        factors = _factors(peaks[at + source], np.max([np.abs(tensors[name]).max(axis=0) for name in names], axis=0))
        tensors[f"{at}{norm}.weight"] = tensors[f"{at}{norm}.weight"] / factors
        for name in names:
            tensors[name] = tensors[name] * factors

    down, up = f"{at}{FEED_FORWARD_OUTPUT}.weight", f"{at}mlp.up_proj.weight"
    factors = _factors(peaks[at + FEED_FORWARD_OUTPUT], np.abs(tensors[down]).max(axis=0))
    tensors[down], tensors[up] = tensors[down] * factors, tensors[up] / factors[:, None]

    # Heads that share their values share the factors, too.
    out, value = f"{at}{ATTENTION_OUTPUT}.weight", f"{at}self_attn.v_proj.weight"
    grouped = (shape.kv_heads, shape.heads // shape.kv_heads, shape.head_dim)
    peak = peaks[at + ATTENTION_OUTPUT].reshape(grouped).max(axis=1)
    weight = np.abs(tensors[out]).max(axis=0).reshape(grouped).max(axis=1)
    shared = _factors(peak.ravel(), weight.ravel())
    spread = np.broadcast_to(shared.reshape(shape.kv_heads, 1, shape.head_dim), grouped).ravel()
    tensors[out], tensors[value] = tensors[out] * spread, tensors[value] / shared[:, None]


def _factors(activations: Weights, weights: Weights) -> Weights:
    """By how much each channel shrinks; their geometric mean is 1."""
    factors = np.maximum(activations, _TINY) ** _STRENGTH / np.maximum(weights, _TINY) ** (1.0 - _STRENGTH)
    return np.asarray(factors / np.exp(np.mean(np.log(factors))), np.float32)
