"""The released checkpoint layout: the name and shape of every tensor, and the part of the model that it belongs to.

Computed from the configuration alone, so that a checkpoint can be checked before any of it is read and no module need
exist to know what a stage loads.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from voice_omni.models.qwen3_omni.config import (
    AudioConfig,
    Code2WavConfig,
    DenseConfig,
    MoeConfig,
    OmniConfig,
    TalkerConfig,
    ThinkerConfig,
    VisionConfig,
)

Shape = tuple[int, ...]
Tensors = Iterator[tuple[str, Shape]]


class Part(Enum):
    """What one stage loads. The value is the prefix of the part's tensor names; the longest prefix that fits counts."""

    AUDIO_ENCODER = "thinker.audio_tower."
    IMAGE_ENCODER = "thinker.visual."
    THINKER = "thinker."
    TALKER = "talker."
    CODE_PREDICTOR = "talker.code_predictor."
    CODE2WAV = "code2wav."


THINKER_EMBEDDING = "thinker.model.embed_tokens.weight"
"""The thinker's; the talker's stage reads it too, to turn the token ids of an answer into rows."""


def part_of(name: str) -> Part | None:
    """The part that a tensor belongs to; None if no part has a prefix of its name."""
    owners = [part for part in Part if name.startswith(part.value)]
    return max(owners, key=lambda part: len(part.value), default=None)


def layout(config: OmniConfig, part: Part) -> dict[str, Shape]:
    """Full name to shape of each tensor of a part; empty for a part that the checkpoint does not have."""
    return {part.value + name: shape for name, shape in _tensors(config, part)}


def _tensors(config: OmniConfig, part: Part) -> Tensors:
    match part:
        case Part.AUDIO_ENCODER:
            yield from _audio(config.thinker.audio)
        case Part.IMAGE_ENCODER:
            yield from _vision(config.thinker.vision)
        case Part.THINKER:
            yield from _thinker(config.thinker)
        case Part.TALKER if config.talker is not None:
            yield from _talker(config.talker)
        case Part.CODE_PREDICTOR if config.talker is not None:
            yield from _code_predictor(config.talker.code_predictor)
        case Part.CODE2WAV if config.code2wav is not None:
            yield from _code2wav(config.code2wav)


def _affine(name: str, *weight: int) -> Tensors:
    """A weight ``[outputs, ...]`` and its bias ``[outputs]``."""
    yield f"{name}.weight", weight
    yield f"{name}.bias", weight[:1]


def _audio(config: AudioConfig) -> Tensors:
    width, channels, inner = config.d_model, config.downsample_hidden_size, config.encoder_ffn_dim
    bands = config.num_mel_bins
    for index in range(3):
        yield from _affine(f"conv2d{index + 1}", channels, channels if index else 1, 3, 3)
        bands = (bands + 1) // 2
    yield "conv_out.weight", (width, channels * bands)
    for index in range(config.encoder_layers):
        layer = f"layers.{index}"
        for projection in ("q_proj", "k_proj", "v_proj", "out_proj"):
            yield from _affine(f"{layer}.self_attn.{projection}", width, width)
        yield from _affine(f"{layer}.self_attn_layer_norm", width)
        yield from _affine(f"{layer}.fc1", inner, width)
        yield from _affine(f"{layer}.fc2", width, inner)
        yield from _affine(f"{layer}.final_layer_norm", width)
    yield from _affine("ln_post", width)
    yield from _affine("proj1", width, width)
    yield from _affine("proj2", config.output_dim, width)


def _vision(config: VisionConfig) -> Tensors:
    width, inner, patch = config.hidden_size, config.intermediate_size, config.patch_size
    merged = width * config.spatial_merge_size**2
    yield from _affine("patch_embed.proj", width, config.in_channels, config.temporal_patch_size, patch, patch)
    yield "pos_embed.weight", (config.num_position_embeddings, width)
    for index in range(config.depth):
        block = f"blocks.{index}"
        yield from _affine(f"{block}.norm1", width)
        yield from _affine(f"{block}.norm2", width)
        yield from _affine(f"{block}.attn.qkv", 3 * width, width)
        yield from _affine(f"{block}.attn.proj", width, width)
        yield from _affine(f"{block}.mlp.linear_fc1", inner, width)
        yield from _affine(f"{block}.mlp.linear_fc2", width, inner)
    mergers = [("merger", width)]
    mergers += [(f"merger_list.{index}", merged) for index in range(len(config.deepstack_visual_indexes))]
    for merger, normed in mergers:
        yield from _affine(f"{merger}.ln_q", normed)
        yield from _affine(f"{merger}.mlp.0", merged, merged)
        yield from _affine(f"{merger}.mlp.2", config.out_hidden_size, merged)


def _thinker(config: ThinkerConfig) -> Tensors:
    text = config.text
    yield "model.embed_tokens.weight", (text.vocab_size, text.hidden_size)
    yield from _moe(text)
    yield "lm_head.weight", (text.vocab_size, text.hidden_size)


def _talker(config: TalkerConfig) -> Tensors:
    text = config.text
    for projection in ("text_projection", "hidden_projection"):
        # The projections' inner width is the thinker's own.
        yield from _affine(f"{projection}.linear_fc1", config.thinker_hidden_size, config.thinker_hidden_size)
        yield from _affine(f"{projection}.linear_fc2", text.hidden_size, config.thinker_hidden_size)
    yield "model.codec_embedding.weight", (text.vocab_size, text.hidden_size)
    yield from _moe(text)
    yield "codec_head.weight", (text.vocab_size, text.hidden_size)


def _code_predictor(config: DenseConfig) -> Tensors:
    """Code 0 comes from the talker, so there is one table and one head less than there are groups."""
    for index in range(config.num_code_groups - 1):
        yield f"model.codec_embedding.{index}.weight", (config.vocab_size, config.hidden_size)
        yield f"lm_head.{index}.weight", (config.vocab_size, config.hidden_size)
    for index in range(config.num_hidden_layers):
        layer = f"model.layers.{index}"
        yield from _attention(layer, config)
        yield from _gated(f"{layer}.mlp", config.hidden_size, config.intermediate_size)
    yield "model.norm.weight", (config.hidden_size,)


def _moe(config: MoeConfig) -> Tensors:
    width = config.hidden_size
    for index in range(config.num_hidden_layers):
        layer = f"model.layers.{index}"
        yield from _attention(layer, config)
        yield f"{layer}.mlp.gate.weight", (config.num_experts, width)
        for expert in range(config.num_experts):
            yield from _gated(f"{layer}.mlp.experts.{expert}", width, config.moe_intermediate_size)
        if shared := config.shared_expert_intermediate_size:
            yield from _gated(f"{layer}.mlp.shared_expert", width, shared)
            yield f"{layer}.mlp.shared_expert_gate.weight", (1, width)
    yield "model.norm.weight", (width,)


def _attention(layer: str, config: MoeConfig | DenseConfig) -> Tensors:
    width, head = config.hidden_size, config.head_dim
    queries, keys = config.num_attention_heads * head, config.num_key_value_heads * head
    yield f"{layer}.input_layernorm.weight", (width,)
    yield f"{layer}.post_attention_layernorm.weight", (width,)
    yield f"{layer}.self_attn.q_proj.weight", (queries, width)
    yield f"{layer}.self_attn.k_proj.weight", (keys, width)
    yield f"{layer}.self_attn.v_proj.weight", (keys, width)
    yield f"{layer}.self_attn.o_proj.weight", (width, queries)
    yield f"{layer}.self_attn.q_norm.weight", (head,)
    yield f"{layer}.self_attn.k_norm.weight", (head,)


def _gated(name: str, width: int, inner: int) -> Tensors:
    yield f"{name}.gate_proj.weight", (inner, width)
    yield f"{name}.up_proj.weight", (inner, width)
    yield f"{name}.down_proj.weight", (width, inner)


def _code2wav(config: Code2WavConfig) -> Tensors:
    width = config.hidden_size
    yield "code_embedding.weight", (config.codebook_size * config.num_quantizers, width)
    for index in range(config.num_hidden_layers):
        layer = f"pre_transformer.layers.{index}"
        for projection in ("q_proj", "k_proj", "v_proj", "o_proj"):
            yield f"{layer}.self_attn.{projection}.weight", (width, width)
        yield from _gated(f"{layer}.mlp", width, config.intermediate_size)
        for scale in ("input_layernorm.weight", "post_attention_layernorm.weight"):
            yield f"{layer}.{scale}", (width,)
        for scale in ("self_attn_layer_scale.scale", "mlp_layer_scale.scale"):
            yield f"{layer}.{scale}", (width,)
    yield "pre_transformer.norm.weight", (width,)
    for index, ratio in enumerate(config.upsampling_ratios):
        # The weight of a transposed convolution is [inputs, outputs, kernel].
        yield f"upsample.{index}.0.conv.weight", (width, width, ratio)
        yield f"upsample.{index}.0.conv.bias", (width,)
        block = f"upsample.{index}.1"
        yield from _affine(f"{block}.dwconv.conv", width, 1, 7)
        yield from _affine(f"{block}.norm", width)
        yield from _affine(f"{block}.pwconv1", 4 * width, width)
        yield from _affine(f"{block}.pwconv2", width, 4 * width)
        yield f"{block}.gamma", (width,)
    yield from _wave_decoder(config)


def _wave_decoder(config: Code2WavConfig) -> Tensors:
    blocks = len(config.upsample_rates)
    yield from _affine("decoder.0.conv", config.decoder_dim, config.hidden_size, 7)
    for index, rate in enumerate(config.upsample_rates):
        inputs, outputs = config.decoder_dim // 2**index, config.decoder_dim // 2 ** (index + 1)
        block = f"decoder.{index + 1}.block"
        yield from _snake(f"{block}.0", inputs)
        yield f"{block}.1.conv.weight", (inputs, outputs, 2 * rate)
        yield f"{block}.1.conv.bias", (outputs,)
        for unit in (2, 3, 4):
            yield from _snake(f"{block}.{unit}.act1", outputs)
            yield from _affine(f"{block}.{unit}.conv1.conv", outputs, outputs, 7)
            yield from _snake(f"{block}.{unit}.act2", outputs)
            yield from _affine(f"{block}.{unit}.conv2.conv", outputs, outputs, 1)
    last = config.decoder_dim // 2**blocks
    yield from _snake(f"decoder.{blocks + 1}", last)
    yield from _affine(f"decoder.{blocks + 2}.conv", 1, last, 7)


def _snake(name: str, channels: int) -> Tensors:
    yield f"{name}.alpha", (channels,)
    yield f"{name}.beta", (channels,)
