"""The transformers modules that the torch engine runs, with a checkpoint's weights.

The thinker and the talker are mixture-of-experts decoders whose files hold each expert's matrices apart, while the
modules hold those of all experts of a layer in one tensor, gate above up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import nn
from transformers import (
    Qwen3OmniMoeTalkerCodePredictorModel,
    Qwen3OmniMoeTalkerModel,
    Qwen3OmniMoeThinkerTextModel,
)
from transformers.models.qwen3_omni_moe.configuration_qwen3_omni_moe import (
    Qwen3OmniMoeTalkerCodePredictorConfig,
    Qwen3OmniMoeTalkerTextConfig,
    Qwen3OmniMoeTextConfig,
)

from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
from voice_omni.models.qwen3_omni.config import DenseConfig, MoeConfig, OmniConfig, Rope, TalkerConfig
from voice_omni.models.qwen3_omni.layout import THINKER_EMBEDDING, Part
from voice_omni.proto.errors import OmniError

_EXPERT: Final = re.compile(r"(.*\.experts)\.(\d+)\.(gate|up|down)_proj\.weight")


@dataclass(frozen=True, slots=True)
class ThinkerModules:
    """``decoder``: token ids or rows ``[1, n, width]`` to hidden rows; ``head``: a hidden row to ``[vocabulary]``."""

    config: OmniConfig
    decoder: Any
    head: nn.Linear


@dataclass(frozen=True, slots=True)
class TalkerTables:
    """What the talker's prompt is made with. ``thinker_embedding``: ``[vocabulary, thinker width]``, of the thinker,
    in the host's memory: it is read once."""

    config: OmniConfig
    talker: TalkerConfig
    codec_embedding: nn.Embedding
    text_projection: nn.Module
    hidden_projection: nn.Module
    thinker_embedding: torch.Tensor


@dataclass(frozen=True, slots=True)
class TalkerModules(TalkerTables):
    """The whole talker. ``predictor_heads``: one for each codebook but the first."""

    decoder: Any
    head: nn.Linear
    predictor: Any
    predictor_heads: nn.ModuleList


class Projection(nn.Module):
    """From the thinker's width to the talker's: two affine layers around a SiLU."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear_fc1 = nn.Linear(inputs, inputs)
        self.linear_fc2 = nn.Linear(inputs, outputs)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        projected: torch.Tensor = self.linear_fc2(nn.functional.silu(self.linear_fc1(rows)))
        return projected


def load_thinker(
    checkpoint: Checkpoint, *, device: torch.device | str = "cpu", dtype: torch.dtype | None = None
) -> ThinkerModules:
    """The text model of a checkpoint. ``dtype`` None keeps the file's own. Raises what the checkpoint does."""
    text = checkpoint.config.thinker.text
    tensors = dict(_fused(text.num_experts, checkpoint.tensors(Part.THINKER, device=device, dtype=dtype)))
    head = _linear(tensors.pop("lm_head.weight"))
    decoder = _loaded(lambda: Qwen3OmniMoeThinkerTextModel(_text_config(text)), _below("model.", tensors), device)
    return ThinkerModules(checkpoint.config, decoder, head)


def load_talker_tables(
    checkpoint: Checkpoint, *, device: torch.device | str = "cpu", dtype: torch.dtype | None = None
) -> TalkerTables:
    """As :func:`load_talker`, without what computes frames."""
    config = _talker_of(checkpoint)

    def tensor(name: str) -> torch.Tensor:
        return checkpoint.tensor(f"{Part.TALKER.value}{name}", device=device, dtype=dtype)

    def projection(name: str) -> Any:
        weights = [f"{layer}.{kind}" for layer in ("linear_fc1", "linear_fc2") for kind in ("weight", "bias")]
        return _loaded(lambda: _projection(config), {each: tensor(f"{name}.{each}") for each in weights}, device)

    return TalkerTables(
        checkpoint.config,
        config,
        _embedding(tensor("model.codec_embedding.weight")),
        projection("text_projection"),
        projection("hidden_projection"),
        checkpoint.tensor(THINKER_EMBEDDING, dtype=dtype),
    )


def load_talker(
    checkpoint: Checkpoint, *, device: torch.device | str = "cpu", dtype: torch.dtype | None = None
) -> TalkerModules:
    """The talker with its code predictor and the thinker's embedding table. As :func:`load_thinker`; raises
    :class:`OmniError` ``unsupported_model`` for a checkpoint without a talker."""
    config = _talker_of(checkpoint)
    text, predictor = config.text, config.code_predictor
    tensors = dict(_fused(text.num_experts, checkpoint.tensors(Part.TALKER, device=device, dtype=dtype)))
    residual = dict(checkpoint.tensors(Part.CODE_PREDICTOR, device=device, dtype=dtype))

    decoder = _loaded(lambda: Qwen3OmniMoeTalkerModel(_talker_config(text)), _below("model.", tensors), device)
    return TalkerModules(
        checkpoint.config,
        config,
        decoder.codec_embedding,
        _loaded(lambda: _projection(config), _below("text_projection.", tensors), device),
        _loaded(lambda: _projection(config), _below("hidden_projection.", tensors), device),
        checkpoint.tensor(THINKER_EMBEDDING, dtype=dtype),
        decoder,
        _linear(tensors["codec_head.weight"]),
        _loaded(
            lambda: Qwen3OmniMoeTalkerCodePredictorModel(_predictor_config(predictor)),
            _below("model.", residual),
            device,
        ),
        nn.ModuleList(_linear(residual[f"lm_head.{number}.weight"]) for number in range(predictor.num_code_groups - 1)),
    )


def _talker_of(checkpoint: Checkpoint) -> TalkerConfig:
    config = checkpoint.config.talker
    if config is None:
        raise OmniError("unsupported_model", f"{checkpoint.folder} has no talker", param="talker_config")
    return config


def _projection(config: TalkerConfig) -> nn.Module:
    return Projection(config.thinker_hidden_size, config.text.hidden_size)


def _loaded(build: Callable[[], Any], tensors: dict[str, torch.Tensor], device: torch.device | str) -> Any:
    """A module with these weights, which are never initialised first, and with tables that are computed as usual."""
    with torch.device("meta"):
        module = build()
    if hasattr(module, "rotary_emb"):
        module.rotary_emb = type(module.rotary_emb)(config=module.config).to(device)
    module.load_state_dict(tensors, strict=True, assign=True)
    return module.requires_grad_(False).eval()


def _fused(experts: int, tensors: Iterable[tuple[str, torch.Tensor]]) -> Iterable[tuple[str, torch.Tensor]]:
    """Expert matrices joined as the modules hold them; everything else as it is. Each pair may come more than once,
    with the same tensor."""
    joined: dict[str, torch.Tensor] = {}
    for name, tensor in tensors:
        match = _EXPERT.fullmatch(name)
        if match is None:
            yield name, tensor
            continue
        block, expert, kind = match[1], int(match[2]), match[3]
        rows, columns = tensor.shape
        target = f"{block}.down_proj" if kind == "down" else f"{block}.gate_up_proj"
        if target not in joined:
            joined[target] = tensor.new_empty((experts, rows if kind == "down" else 2 * rows, columns))
        place = slice(rows, None) if kind == "up" else slice(rows)
        joined[target][expert, place] = tensor
    yield from joined.items()


def _below(prefix: str, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _linear(weight: torch.Tensor) -> nn.Linear:
    head = nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
    head.load_state_dict({"weight": weight}, assign=True)
    return head.requires_grad_(False)


def _embedding(weight: torch.Tensor) -> nn.Embedding:
    table = nn.Embedding(weight.shape[0], weight.shape[1], device="meta")
    table.load_state_dict({"weight": weight}, assign=True)
    return table.requires_grad_(False)


def _rope(rope: Rope) -> dict[str, Any]:
    parameters: dict[str, Any] = {"rope_type": "default", "rope_theta": rope.theta}
    if rope.mrope_section is not None:
        parameters |= {"mrope_section": list(rope.mrope_section), "interleaved": True, "mrope_interleaved": True}
    return parameters


def _decoder(config: MoeConfig | DenseConfig) -> dict[str, Any]:
    return {
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.num_hidden_layers,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
        "hidden_act": config.hidden_act,
        "rms_norm_eps": config.rms_norm_eps,
        "attention_bias": config.attention_bias,
        "rope_parameters": _rope(config.rope),
    }


def _experts(config: MoeConfig) -> dict[str, Any]:
    return {
        **_decoder(config),
        "max_position_embeddings": config.max_position_embeddings,
        "moe_intermediate_size": config.moe_intermediate_size,
        "num_experts": config.num_experts,
        "num_experts_per_tok": config.num_experts_per_tok,
        "norm_topk_prob": config.norm_topk_prob,
        "decoder_sparse_step": config.decoder_sparse_step,
        "mlp_only_layers": list(config.mlp_only_layers),
    }


def _text_config(config: MoeConfig) -> Qwen3OmniMoeTextConfig:
    return Qwen3OmniMoeTextConfig(**_experts(config))


def _talker_config(config: MoeConfig) -> Qwen3OmniMoeTalkerTextConfig:
    shared = config.shared_expert_intermediate_size
    return Qwen3OmniMoeTalkerTextConfig(**_experts(config), shared_expert_intermediate_size=shared)


def _predictor_config(config: DenseConfig) -> Qwen3OmniMoeTalkerCodePredictorConfig:
    return Qwen3OmniMoeTalkerCodePredictorConfig(
        **_decoder(config), intermediate_size=config.intermediate_size, num_code_groups=config.num_code_groups
    )
