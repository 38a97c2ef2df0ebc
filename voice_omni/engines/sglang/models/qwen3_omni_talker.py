"""Qwen3-Omni's talker: a mixture-of-experts decoder over codec frames, with its code predictor in the decode step.

The layers are SGLang's. A decode step reads what the step before it wrote and the row's next condition from the row's
slot, draws the first code from the backbone's hidden row, lets the code predictor write the others, and leaves the sum
of their rows in the slot: all in one CUDA graph. So a frame is known as soon as its first code is, and what SGLang
samples afterwards has one candidate, the code that has been drawn.

A prefill only leaves its KV, and what is sampled from it means nothing: the last row of the prompt is read by the first
decode step. See :class:`~voice_omni.engines.sglang.fed_row.FedRow`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import torch
from sglang.srt.layers.layernorm import RMSNorm
from sglang.srt.layers.logits_processor import LogitsProcessorOutput
from sglang.srt.layers.moe.fused_moe_triton.layer import FusedMoE
from sglang.srt.layers.vocab_parallel_embedding import VocabParallelEmbedding
from sglang.srt.model_executor.forward_batch_info import ForwardBatch
from sglang.srt.model_loader.weight_utils import default_weight_loader
from sglang.srt.models.qwen2_moe import Qwen2MoeSparseMoeBlock
from sglang.srt.models.qwen3_moe import Qwen3MoeAttention
from sglang.srt.runtime_context import get_server_args, get_stream
from torch import nn
from torch.nn import functional

from voice_omni.engines.sglang.frames.head import FrameHead, Parts, TorchHead
from voice_omni.engines.sglang.frames.predictor import CodePredictor, Shape
from voice_omni.engines.sglang.frames.slots import Slots
from voice_omni.engines.sglang.models.given import given_rows

_TALKER: Final = "talker."
_PREDICTOR: Final = "code_predictor."
_JOINED: Final = (
    ("qkv_proj", "q_proj", "q"),
    ("qkv_proj", "k_proj", "k"),
    ("qkv_proj", "v_proj", "v"),
    ("gate_up_proj", "gate_proj", 0),
    ("gate_up_proj", "up_proj", 1),
)


class _Experts(Qwen2MoeSparseMoeBlock):  # type: ignore[misc]
    """The kernel that SGLang adds the shared expert with exists for CUDA alone."""

    def forward(self, hidden: torch.Tensor, forward_batch: ForwardBatch) -> torch.Tensor:
        computed: torch.Tensor
        if hidden.is_cuda:
            computed = super().forward(hidden, forward_batch)
        else:
            computed = self._forward_shared_experts(hidden) + self._forward_router_experts(hidden)
        return computed


class _Layer(nn.Module):
    def __init__(self, config: Any, number: int, quantisation: Any, prefix: str, stream: Any) -> None:
        super().__init__()
        self.self_attn = Qwen3MoeAttention(
            hidden_size=config.hidden_size,
            num_heads=config.num_attention_heads,
            num_kv_heads=config.num_key_value_heads,
            layer_id=number,
            rope_theta=config.rope_parameters["rope_theta"],
            rope_scaling=config.rope_parameters,
            max_position_embeddings=config.max_position_embeddings,
            head_dim=config.head_dim,
            rms_norm_eps=config.rms_norm_eps,
            attention_bias=config.attention_bias,
            config=config,
            quant_config=quantisation,
            prefix=f"{prefix}.self_attn",
            alt_stream=stream,
        )
        self.mlp = _Experts(number, config, quantisation, stream, f"{prefix}.mlp")
        self.input_layernorm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(
        self, positions: torch.Tensor, hidden: torch.Tensor, residual: torch.Tensor | None, batch: ForwardBatch
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if residual is None:
            hidden, residual = self.input_layernorm(hidden), hidden
        else:
            hidden, residual = self.input_layernorm(hidden, residual)
        hidden = self.self_attn(positions, hidden, batch)
        hidden, residual = self.post_attention_layernorm(hidden, residual)
        return self.mlp(hidden, batch), residual


class _Backbone(nn.Module):
    """``input_embeds`` ``[n, width]`` to hidden rows after the final norm; SGLang captures its calls in prefill
    graphs, with these arguments."""

    def __init__(self, config: Any, quantisation: Any) -> None:
        super().__init__()
        self.codec_embedding = VocabParallelEmbedding(config.vocab_size, config.hidden_size)
        stream = get_stream("alt") if torch.get_default_device().type == "cuda" else None
        self.layers = nn.ModuleList(
            _Layer(config, number, quantisation, f"model.layers.{number}", stream)
            for number in range(config.num_hidden_layers)
        )
        self.norm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(
        self,
        input_ids: torch.Tensor,
        positions: torch.Tensor,
        forward_batch: ForwardBatch,
        input_embeds: torch.Tensor,
    ) -> torch.Tensor:
        hidden, residual = input_embeds, None
        for layer in self.layers:
            hidden, residual = layer(positions, hidden, residual, forward_batch)
        normed: torch.Tensor = self.norm(hidden, residual)[0]
        return normed


class VoiceOmniQwen3OmniTalker(nn.Module):
    """``config``: as :func:`voice_omni.models.qwen3_omni.talker_export.talker_config` makes it."""

    suppressed: torch.Tensor

    def __init__(self, config: Any, quant_config: Any = None, prefix: str = "") -> None:
        super().__init__()
        self.config = config
        self.is_mrope_enabled = "mrope_section" in config.rope_parameters
        shape = Shape.of(config.code_predictor_config)
        self.model = _Backbone(config, quant_config)
        self.codec_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.code_predictor = CodePredictor(shape)
        self.register_buffer("suppressed", _mask(config.vocab_size, config.suppressed_codes), persistent=False)
        # One slot more than there are rows: nobody's.
        rows = get_server_args().max_running_requests
        self.slots = Slots(rows + 1, config.hidden_size, config.vocab_size, shape.books)
        residual = config.residual_sampling
        table = self.model.codec_embedding.weight
        self._head = _head(
            Parts(self.slots, self.code_predictor, table, self.suppressed, residual["top_k"], residual["top_p"])
        )

    @torch.no_grad()
    def forward(
        self, input_ids: torch.Tensor, positions: torch.Tensor, forward_batch: ForwardBatch
    ) -> LogitsProcessorOutput:
        if self.is_mrope_enabled:
            positions = forward_batch.mrope_positions
        if not forward_batch.forward_mode.is_decode():
            rows = self._prompt(input_ids, forward_batch)
            self.model(input_ids, positions, forward_batch, rows)
            return LogitsProcessorOutput(rows.new_zeros((forward_batch.batch_size, self.config.vocab_size)).float())
        at = forward_batch.req_pool_indices
        hidden = self.model(input_ids, positions, forward_batch, self.slots.inputs(at))
        logits = self.codec_head(hidden).float()
        frames, rows = self._head.write(at, hidden, logits)
        self.slots.advance(at, frames, rows)
        return LogitsProcessorOutput(torch.zeros_like(logits).scatter_(1, frames[:, :1], 1.0))

    def embed(self, frames: torch.Tensor) -> torch.Tensor:
        """What is read of whole frames, int64 ``[n, codebooks]``, without conditions: ``[n, width]``."""
        first = functional.embedding(frames[:, 0], self.model.codec_embedding.weight)
        return torch.cat((first[None], self.code_predictor.embed(frames[:, 1:]))).sum(0)

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Takes the talker's own tensors out of all. Raises ``KeyError`` for one that it has no place for."""
        places: dict[str, Any] = dict(self.named_parameters())
        experts = FusedMoE.make_expert_params_mapping("gate_proj", "down_proj", "up_proj", self.config.num_experts)
        by_expert = {ours: (theirs, expert, kind) for theirs, ours, expert, kind in experts}
        for full_name, values in weights:
            if not full_name.startswith(_TALKER):
                continue
            name = full_name.removeprefix(_TALKER)
            if name.startswith(("text_projection.", "hidden_projection.")):
                # They make the rows of the prompt, which come from outside.
                continue
            if name.startswith(_PREDICTOR):
                self.code_predictor.load(name.removeprefix(_PREDICTOR), values)
            elif ".mlp.experts." in name:
                block, _, rest = name.partition("experts.")
                theirs, expert, kind = by_expert[f"experts.{rest.rpartition('.')[0]}."]
                name = f"{block}{theirs}weight"
                place = places[name]
                place.weight_loader(place, values, name, shard_id=kind, expert_id=expert)
            else:
                self._load(places, name, values)

    def _load(self, places: dict[str, Any], name: str, values: torch.Tensor) -> None:
        for joined, part, number in _JOINED:
            if f".{part}." in name:
                place = places[name.replace(part, joined)]
                place.weight_loader(place, values, number)
                return
        place = places[name]
        getattr(place, "weight_loader", default_weight_loader)(place, values)

    def _prompt(self, input_ids: torch.Tensor, batch: ForwardBatch) -> torch.Tensor:
        """The rows of the positions that are prefilled: those that were given, and tokens' own between them."""
        rows: torch.Tensor = self.model.codec_embedding(input_ids.clamp(0, self.config.vocab_size - 1))
        for places, given in given_rows(batch):
            rows[places] = given.to(rows.dtype)
        return rows


def _head(parts: Parts) -> FrameHead:
    if parts.table.is_cuda:
        # Triton cannot be imported everywhere.
        from voice_omni.engines.sglang.frames.fused import FusedHead

        return FusedHead(parts)
    return TorchHead(parts)


def _mask(size: int, suppressed: Iterable[int]) -> torch.Tensor:
    mask = torch.zeros(size, dtype=torch.float32)
    mask[torch.tensor(sorted(suppressed), dtype=torch.int64)] = -torch.inf
    return mask


EntryClass = VoiceOmniQwen3OmniTalker
