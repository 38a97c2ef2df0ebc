"""How many bytes of weights a step has to read, and so how long it takes at least on a device of a known bandwidth.

At the batch sizes of conversations a step is bound by reading weights. Of a mixture of experts it reads those that any
of its rows is sent to: with random weights, whose routers choose evenly, ``experts * (1 - (1 - chosen / experts) **
rows)`` of them. What is read beside (KV, activations) is left out, so a floor is a little low.
"""

from __future__ import annotations

from math import prod

from voice_omni.models.qwen3_omni.config import DenseConfig, MoeConfig, OmniConfig
from voice_omni.models.qwen3_omni.layout import Part, layout

_BYTES = 2
"""Of a weight in bfloat16."""


def _attention(config: MoeConfig | DenseConfig) -> int:
    heads = 2 * config.num_attention_heads + 2 * config.num_key_value_heads
    return config.hidden_size * config.head_dim * heads


def moe_step(config: MoeConfig, rows: int) -> float:
    """Bytes of a decoder's step over ``rows`` positions, with the head of the vocabulary and without the embedding."""
    width, experts = config.hidden_size, config.num_experts
    touched = experts * (1 - (1 - config.num_experts_per_tok / experts) ** rows)
    shared = config.shared_expert_intermediate_size
    always = _attention(config) + experts * width + (3 * shared + 1 if shared else 0) * width
    layer = always + touched * 3 * width * config.moe_intermediate_size
    return _BYTES * (config.num_hidden_layers * layer + config.vocab_size * width)


def predictor_frame(config: DenseConfig) -> float:
    """Bytes of the code predictor for one frame of each row: its layers are read once for each residual codebook."""
    layers = config.num_hidden_layers * (_attention(config) + 3 * config.hidden_size * config.intermediate_size)
    return _BYTES * (config.num_code_groups - 1) * (layers + config.vocab_size * config.hidden_size)


def part_bytes(config: OmniConfig, part: Part, *, without: str = "embedding") -> float:
    """Bytes of all of a part's weights but those whose name has ``without``, of which few rows are read."""
    return _BYTES * sum(prod(shape) for name, shape in layout(config, part).items() if without not in name)


def frame_bytes(config: OmniConfig, rows: int, tokens_per_frame: float) -> float:
    """Of all stages for the next frame of each of ``rows`` answers, whose text has so many tokens for each frame.

    The vocoder is counted once: it may decode all answers together, and less often than every frame.
    """
    if config.talker is None:
        raise ValueError("the model does not speak")
    thinker = tokens_per_frame * moe_step(config.thinker.text, rows)
    talker = moe_step(config.talker.text, rows) + predictor_frame(config.talker.code_predictor)
    return thinker + talker + part_bytes(config, Part.CODE2WAV)


def first_sound_bytes(config: OmniConfig, tail: int) -> float:
    """Of all stages between the commit and the first frame of one answer: ``tail`` positions are left to prefill."""
    if config.talker is None:
        raise ValueError("the model does not speak")
    encoder = part_bytes(config, Part.AUDIO_ENCODER)
    frame = predictor_frame(config.talker.code_predictor) + part_bytes(config, Part.CODE2WAV)
    return encoder + moe_step(config.thinker.text, tail) + moe_step(config.talker.text, tail) + frame
