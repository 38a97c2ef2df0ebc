"""Typed configuration of a Qwen3-Omni checkpoint, read from its ``config.json``.

Every value that changes a result must stand in the file: the defaults of other libraries' configuration classes are not
those of the released checkpoint. Names are those of the file. Fields that nothing here reads are ignored.
"""

from __future__ import annotations

import json
import re
from math import prod
from pathlib import Path
from typing import Any, Final

import msgspec

from voice_omni.proto.errors import OmniError

CODEC_SAMPLE_RATE: Final = 24_000
"""Of the waveform; the file does not state it."""

_ROPE_FIELDS: Final = ("rope_theta", "rope_scaling", "rope_parameters")


class Rope(msgspec.Struct, frozen=True, kw_only=True):
    """Rotary embedding. ``mrope_section``: how many frequencies follow time, height and width; None for one axis.

    With sections the axes are interleaved over the frequencies (T H W T H W ... T T).
    """

    theta: float
    mrope_section: tuple[int, int, int] | None = None


class AudioConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The audio tower. ``n_window``: half a convolution chunk, ``n_window_infer``: an attention window, both in mel
    frames (100 in a second)."""

    num_mel_bins: int
    encoder_layers: int
    encoder_attention_heads: int
    encoder_ffn_dim: int
    d_model: int
    output_dim: int
    downsample_hidden_size: int
    n_window: int
    n_window_infer: int
    activation_function: str = "gelu"
    scale_embedding: bool = False


class VisionConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The vision tower. ``deepstack_visual_indexes``: the blocks whose outputs join the thinker's first layers."""

    depth: int
    hidden_size: int
    hidden_act: str
    intermediate_size: int
    num_heads: int
    in_channels: int
    patch_size: int
    spatial_merge_size: int
    temporal_patch_size: int
    out_hidden_size: int
    num_position_embeddings: int
    deepstack_visual_indexes: tuple[int, ...]


class MoeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A decoder of mixture-of-experts layers; ``shared_expert_intermediate_size`` 0 means no shared expert."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    moe_intermediate_size: int
    num_experts: int
    num_experts_per_tok: int
    norm_topk_prob: bool
    rms_norm_eps: float
    max_position_embeddings: int
    rope: Rope
    shared_expert_intermediate_size: int = 0
    hidden_act: str = "silu"
    attention_bias: bool = False
    decoder_sparse_step: int = 1
    mlp_only_layers: tuple[int, ...] = ()
    tie_word_embeddings: bool = False


class DenseConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The code predictor's decoder."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    num_code_groups: int
    rms_norm_eps: float
    rope: Rope
    hidden_act: str = "silu"
    attention_bias: bool = False
    tie_word_embeddings: bool = False


class ThinkerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``position_id_per_seconds``: positions of the time axis that a second of video takes, one for each audio row."""

    audio: AudioConfig = msgspec.field(name="audio_config")
    vision: VisionConfig = msgspec.field(name="vision_config")
    text: MoeConfig = msgspec.field(name="text_config")
    audio_token_id: int
    image_token_id: int
    video_token_id: int
    audio_start_token_id: int
    audio_end_token_id: int
    vision_start_token_id: int
    vision_end_token_id: int
    position_id_per_seconds: int


class TalkerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``accept_hidden_layer``: the number of thinker layers whose output rows the talker reads at media positions."""

    text: MoeConfig = msgspec.field(name="text_config")
    code_predictor: DenseConfig = msgspec.field(name="code_predictor_config")
    num_code_groups: int
    thinker_hidden_size: int
    accept_hidden_layer: int
    codec_pad_id: int
    codec_bos_id: int
    codec_eos_token_id: int
    codec_nothink_id: int
    codec_think_bos_id: int
    codec_think_eos_id: int
    speaker_id: dict[str, int]


class Code2WavConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``sliding_window``: frames that a frame attends to, itself included."""

    codebook_size: int
    num_quantizers: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    sliding_window: int
    rms_norm_eps: float
    upsample_rates: tuple[int, ...]
    upsampling_ratios: tuple[int, ...]
    decoder_dim: int
    rope: Rope
    hidden_act: str = "silu"
    attention_bias: bool = False

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_attention_heads

    @property
    def frame_samples(self) -> int:
        """Samples at :data:`CODEC_SAMPLE_RATE` that a codec frame becomes: the hop, 1920 as released."""
        return prod(self.upsampling_ratios) * prod(self.upsample_rates)


class OmniConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A whole checkpoint. ``talker`` and ``code2wav`` are None for one that only writes."""

    thinker: ThinkerConfig = msgspec.field(name="thinker_config")
    talker: TalkerConfig | None = msgspec.field(name="talker_config", default=None)
    code2wav: Code2WavConfig | None = msgspec.field(name="code2wav_config", default=None)
    im_start_token_id: int
    im_end_token_id: int
    tts_pad_token_id: int
    tts_bos_token_id: int
    tts_eos_token_id: int
    system_token_id: int
    user_token_id: int
    assistant_token_id: int

    @property
    def frame_s(self) -> float:
        """How long a codec frame is heard, 0.08 seconds as released; 0 for a checkpoint that only writes."""
        return 0.0 if self.code2wav is None else self.code2wav.frame_samples / CODEC_SAMPLE_RATE


def load_config(folder: Path) -> OmniConfig:
    """Read ``config.json`` of a checkpoint's folder. Raises what :func:`parse_config` does."""
    file = folder / "config.json"
    try:
        raw = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise OmniError("weights_corrupt", f"{file}: {error}", param="config.json") from error
    return parse_config(raw)


def parse_config(raw: dict[str, Any]) -> OmniConfig:
    """The configuration in a ``config.json``, in either spelling of the rotary parameters.

    Raises :class:`OmniError`: ``weights_corrupt`` (a field is missing or has another type) or ``unsupported_model``
    (a valid file of a model that this package does not implement). ``param`` is the field's path.
    """
    if raw.get("model_type") != "qwen3_omni_moe":
        raise _unsupported("model_type", raw.get("model_type"), "qwen3_omni_moe")
    if raw.get("enable_audio_output", True) is False:
        raw = {name: value for name, value in raw.items() if name not in ("talker_config", "code2wav_config")}
    try:
        config = msgspec.convert(_unified(raw, ""), OmniConfig, strict=False)
    except msgspec.ValidationError as error:
        raise OmniError("weights_corrupt", f"config.json: {error}", param=_field(str(error))) from error
    _check(config)
    return config


def _field(message: str) -> str:
    """The path of the field that a validation message is about; it names a missing one beside its parent's path."""
    names = re.findall(r"missing required field `(\w+)`", message)
    return ".".join(re.findall(r"`\$\.([\w.]+)`", message) + names)


def _unified(value: dict[str, Any], path: str) -> dict[str, Any]:
    """A copy without null fields and with one spelling of what different writers spell differently.

    The released file has ``rope_theta`` beside ``rope_scaling``, newer writers put both into ``rope_parameters``: here
    they become ``rope``. Some write ``num_local_experts`` for ``num_experts``.
    """
    unified: dict[str, Any] = {}
    if (experts := value.get("num_local_experts")) is not None:
        unified["num_experts"] = experts
    for name, field in value.items():
        if name in _ROPE_FIELDS or field is None:
            continue
        unified[name] = _unified(field, f"{path}{name}.") if isinstance(field, dict) else field
    parameters = {**(value.get("rope_scaling") or {}), **(value.get("rope_parameters") or {})}
    theta = parameters.get("rope_theta", value.get("rope_theta"))
    if theta is not None:
        kind = parameters.get("rope_type", parameters.get("type", "default"))
        # The vision tower's two-axis embedding has a fixed base and one layout: nothing of it is configurable.
        if kind not in ("default", "mrope", "axial"):
            raise _unsupported(f"{path}rope_type", kind, "default")
        if parameters.get("mrope_section") and not (
            parameters.get("interleaved", parameters.get("mrope_interleaved", True))
        ):
            raise _unsupported(f"{path}interleaved", False, "True")
        unified["rope"] = {"theta": theta, "mrope_section": parameters.get("mrope_section")}
    return unified


def _check(config: OmniConfig) -> None:
    """What a file may say but this package does not implement, and what would contradict itself."""
    thinker, audio, vision = config.thinker, config.thinker.audio, config.thinker.vision
    expected: list[tuple[str, object, object]] = [
        ("thinker_config.audio_config.activation_function", audio.activation_function, "gelu"),
        ("thinker_config.audio_config.scale_embedding", audio.scale_embedding, False),
        ("thinker_config.audio_config.output_dim", audio.output_dim, thinker.text.hidden_size),
        ("thinker_config.audio_config.n_window", audio.n_window, 50),
        ("thinker_config.audio_config.n_window_infer", audio.n_window_infer % 100, 0),
        ("thinker_config.vision_config.hidden_act", vision.hidden_act, "gelu_pytorch_tanh"),
        ("thinker_config.vision_config.out_hidden_size", vision.out_hidden_size, thinker.text.hidden_size),
    ]
    decoders: list[tuple[str, MoeConfig | DenseConfig]] = [("thinker_config.text_config", thinker.text)]
    if config.talker is not None:
        talker = config.talker
        decoders.append(("talker_config.text_config", talker.text))
        decoders.append(("talker_config.code_predictor_config", talker.code_predictor))
        groups = talker.code_predictor.num_code_groups
        expected += [
            ("talker_config.thinker_hidden_size", talker.thinker_hidden_size, thinker.text.hidden_size),
            ("talker_config.code_predictor_config.num_code_groups", groups, talker.num_code_groups),
        ]
    for path, decoder in decoders:
        expected += [
            (f"{path}.hidden_act", decoder.hidden_act, "silu"),
            (f"{path}.attention_bias", decoder.attention_bias, False),
            (f"{path}.tie_word_embeddings", decoder.tie_word_embeddings, False),
        ]
        if isinstance(decoder, MoeConfig):
            expected += [
                (f"{path}.decoder_sparse_step", decoder.decoder_sparse_step, 1),
                (f"{path}.mlp_only_layers", decoder.mlp_only_layers, ()),
            ]
        if sections := decoder.rope.mrope_section:
            expected.append((f"{path}.rope_parameters.mrope_section", sum(sections), decoder.head_dim // 2))
    if config.code2wav is not None:
        codec = config.code2wav
        expected += [
            ("code2wav_config.hidden_act", codec.hidden_act, "silu"),
            ("code2wav_config.attention_bias", codec.attention_bias, False),
            ("code2wav_config.num_key_value_heads", codec.num_key_value_heads, codec.num_attention_heads),
        ]
    for path, value, supported in expected:
        if value != supported:
            raise _unsupported(path, value, supported)


def _unsupported(path: str, value: object, supported: object) -> OmniError:
    return OmniError(
        "unsupported_model", f"config.json: {path} is {value!r}, this package needs {supported!r}", param=path
    )
