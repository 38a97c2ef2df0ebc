"""SGLang's Qwen3-Omni thinker without its towers, whose decoder layer ``hidden_layer`` leaves its rows behind.

The rows lie in a pool with one place for each place of the KV pool, written where the same positions' KV is written. So
they are there for as long as their KV is: a position that is found in the radix cache has its row, one that is evicted
loses it, and sessions stay as far apart as their KV does. Prefills write, decode steps do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

import torch
from sglang.srt.model_executor.cuda_graph_config import Backend
from sglang.srt.model_executor.forward_batch_info import ForwardBatch
from sglang.srt.models.qwen3_omni_moe import Qwen3OmniMoeThinkerForConditionalGeneration

from voice_omni.engines.sglang.compat import layer_rows, prefill_graphs
from voice_omni.engines.sglang.models.given import given_rows
from voice_omni.proto.errors import OmniError

THINKER: Final = "thinker."
TOWERS: Final = ("audio_tower.", "visual.")


class Qwen3OmniThinker(Qwen3OmniMoeThinkerForConditionalGeneration):  # type: ignore[misc]
    """``hidden_rows``: ``[places of the KV pool, width]`` in the model's dtype: what layer ``hidden_layer - 1`` of the
    configuration gives, before a deepstack row is added to it. None before :meth:`keep_rows`, and without such a layer.

    Media come as embeddings that have been computed elsewhere, so the checkpoint's towers are not loaded.
    """

    hidden_rows: torch.Tensor | None = None

    def __init__(self, config: Any, quant_config: Any = None, prefix: str = "") -> None:
        # SGLang reads this under another name than the checkpoint's, and would split a picture's rotary positions
        # otherwise than the model was trained with.
        config.thinker_config.text_config.rope_parameters["mrope_interleaved"] = True
        super().__init__(config.thinker_config, quant_config, prefix)
        del self.visual, self.audio_tower
        self._kept_layer: int | None = getattr(config, "hidden_layer", None)
        layers = self.model.layers
        if self._kept_layer is not None:
            if not 0 < self._kept_layer < len(layers):
                raise OmniError("unsupported_model", f"layer {self._kept_layer} is read of {len(layers)}")
            layers[self._kept_layer - 1].register_forward_hook(self._keep)
        self._deepstack: torch.Tensor | None = None
        prefill = prefill_graphs()
        if prefill.backend in (Backend.BREAKABLE, Backend.FULL) and prefill.bs:
            self.feed_prefill_graphs(max(prefill.bs))

    def keep_rows(self, places: int) -> None:
        """Make the pool. Before graphs are captured: they write to it."""
        if self._kept_layer is not None:
            shape = places, self.config.hidden_size
            self.hidden_rows = torch.zeros(shape, dtype=self._weight.dtype, device=self._weight.device)

    def feed_prefill_graphs(self, positions: int) -> None:
        """Make the place where graphs of at most so many positions find their deepstack rows.

        A prefill graph of SGLang's holds the decoder's layers, and replays them on other embeddings but without the
        deepstack rows that the decoder is called with.
        """
        shape = self.num_deepstack_embeddings, positions, self.config.hidden_size
        self._deepstack = torch.zeros(shape, dtype=self._weight.dtype, device=self._weight.device)
        self.model.register_forward_pre_hook(self._show_deepstack, with_kwargs=True)
        for number, rows in enumerate(self._deepstack):
            self.model.layers[number + 1].register_forward_pre_hook(partial(_deepen, rows), with_kwargs=True)

    @torch.no_grad()
    def forward(
        self,
        input_ids: torch.Tensor,
        positions: torch.Tensor,
        forward_batch: ForwardBatch,
        get_embedding: bool = False,
        pp_proxy_tensors: Any = None,
    ) -> Any:
        if forward_batch.forward_mode.is_extend():
            input_ids = input_ids.clamp(max=self.config.vocab_size - 1)
        embeddings: torch.Tensor = self.model.embed_tokens(input_ids)
        deepstack: torch.Tensor | None = None
        for places, given in given_rows(forward_batch):
            rows = given.to(embeddings.dtype)
            embeddings[places] = rows[:, : self.config.hidden_size]
            if rows.shape[1] > self.config.hidden_size:
                if deepstack is None:
                    width = self.num_deepstack_embeddings * self.config.hidden_size
                    deepstack = embeddings.new_zeros((len(embeddings), width))
                deepstack[places] = rows[:, self.config.hidden_size :]
        if forward_batch.input_embeds is not None:
            embeddings = forward_batch.input_embeds.copy_(embeddings)
        hidden = self.model(
            input_ids=None,
            positions=forward_batch.mrope_positions,
            forward_batch=forward_batch,
            input_embeds=embeddings,
            input_deepstack_embeds=deepstack,
        )
        return self.logits_processor(input_ids, hidden, self.lm_head, forward_batch)

    @classmethod
    def get_model_config_for_expert_location(cls, config: Any) -> Any:
        return super().get_model_config_for_expert_location(config.thinker_config)

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        super().load_weights(_of_decoder(weights))

    @property
    def _weight(self) -> torch.Tensor:
        weight: torch.Tensor = self.model.embed_tokens.weight
        return weight

    def _keep(self, _layer: object, inputs: tuple[Any, ...], output: Any) -> None:
        batch = inputs[2]
        if self.hidden_rows is not None and batch.forward_mode.is_extend():
            self.hidden_rows[batch.out_cache_loc] = layer_rows(output, batch)

    def _show_deepstack(self, _decoder: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Before a graph is replayed: that is what the decoder's ``forward`` may be, where the rows are few enough. The
        batch does not tell: of a prefill in one graph it is the one that came, with fewer positions than the graph."""
        count = len(kwargs["input_embeds"])
        if self._deepstack is None or count > self._deepstack.shape[1]:
            return
        if not kwargs["forward_batch"].forward_mode.is_extend():
            return
        shown = self._deepstack[:, :count]
        rows = kwargs.get("input_deepstack_embeds")
        if rows is None:
            shown.zero_()
        else:
            shown.copy_(rows.unflatten(1, (len(shown), -1)).transpose(0, 1))


def _deepen(rows: torch.Tensor, _layer: object, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """In a graph, SGLang's layer adds ``rows`` behind the layer before it."""
    _, hidden, batch = inputs[:3]
    return (inputs, {**kwargs, "post_residual_addition": rows[: len(hidden)]}) if _in_graph(batch) else None


def _in_graph(batch: ForwardBatch) -> bool:
    """Whether a prefill runs on the inputs of a captured graph, which have a place for embeddings of their own."""
    return batch.forward_mode.is_extend() and batch.input_embeds is not None


def _of_decoder(weights: Iterable[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
    for name, weight in weights:
        if name.startswith(THINKER) and not name.removeprefix(THINKER).startswith(TOWERS):
            yield name.removeprefix(THINKER), weight


EntryClass = Qwen3OmniThinker
