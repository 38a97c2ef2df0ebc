"""A small dense decoder that writes the codes of a frame one after the other, for all rows of a batch.

It reads the backbone's hidden row and the row of the first code, and then each code that it has drawn, through a table
and a head of each book's own. Its KV lives for one frame. Nothing here waits for the device or depends on its values,
so that a whole frame can be captured in a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import nn
from torch.nn import functional

Draw = Callable[[int, torch.Tensor], torch.Tensor]
"""The book, from 1, and its float32 logits ``[rows, codes]`` -> int64 ``[rows]``."""

_JOINED: Final = {
    "q_proj": ("qkv", 0),
    "k_proj": ("qkv", 1),
    "v_proj": ("qkv", 2),
    "gate_proj": ("gate_up", 0),
    "up_proj": ("gate_up", 1),
}
"""Which weights of a checkpoint are parts of which of ours, in order."""


@dataclass(frozen=True, slots=True)
class Shape:
    """``books``: codes of a frame, the first one included. ``codes``: in each book."""

    width: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    head: int
    books: int
    codes: int
    epsilon: float
    theta: float

    @classmethod
    def of(cls, config: dict[str, Any]) -> Shape:
        """From a ``code_predictor_config``."""
        return cls(
            width=config["hidden_size"],
            inner=config["intermediate_size"],
            layers=config["num_hidden_layers"],
            heads=config["num_attention_heads"],
            kv_heads=config["num_key_value_heads"],
            head=config["head_dim"],
            books=config["num_code_groups"],
            codes=config["vocab_size"],
            epsilon=config["rms_norm_eps"],
            theta=config["rope_parameters"]["rope_theta"],
        )


class Layer(nn.Module):
    """Weights ``[outputs, inputs]``: queries above keys above values, gate above up."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        queries, keys = shape.heads * shape.head, shape.kv_heads * shape.head
        self.rows = {"qkv": (queries, keys, keys), "gate_up": (shape.inner, shape.inner)}
        self.input_layernorm = _weight(shape.width)
        self.post_attention_layernorm = _weight(shape.width)
        self.q_norm = _weight(shape.head)
        self.k_norm = _weight(shape.head)
        self.qkv = _weight(queries + 2 * keys, shape.width)
        self.o_proj = _weight(shape.width, queries)
        self.gate_up = _weight(2 * shape.inner, shape.width)
        self.down_proj = _weight(shape.width, shape.inner)

    def load(self, name: str, values: torch.Tensor) -> None:
        if name not in _JOINED:
            getattr(self, name).data.copy_(values)
            return
        joined, number = _JOINED[name]
        sizes = self.rows[joined]
        start = sum(sizes[:number])
        getattr(self, joined).data[start : start + sizes[number]].copy_(values)


class CodePredictor(nn.Module):
    """``tables`` and ``heads`` ``[books - 1, codes, width]``: of each book but the first."""

    rotation: torch.Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = _weight(shape.width)
        self.tables = _weight(shape.books - 1, shape.codes, shape.width)
        self.heads = _weight(shape.books - 1, shape.codes, shape.width)
        self.register_buffer("rotation", rotation(shape), persistent=False)

    def load(self, name: str, values: torch.Tensor) -> None:
        """``name``: as in the released checkpoint, below ``talker.code_predictor.``."""
        match name.split("."):
            case ["model", "codec_embedding", book, "weight"]:
                self.tables.data[int(book)].copy_(values)
            case ["lm_head", book, "weight"]:
                self.heads.data[int(book)].copy_(values)
            case ["model", "norm", "weight"]:
                self.norm.data.copy_(values)
            case ["model", "layers", number, *_, weight, "weight"]:
                layer: Any = self.layers[int(number)]
                layer.load(weight, values)
            case _:
                raise KeyError(name)

    def forward(self, last: torch.Tensor, first: torch.Tensor, draw: Draw) -> tuple[torch.Tensor, torch.Tensor]:
        """``last`` ``[rows, width]``: the hidden rows that the first codes were drawn from, ``first``: those codes'
        own. The residual codes, int64 ``[rows, books - 1]``, and the sum ``[rows, width]`` of all codes' rows."""
        shape = self.shape
        cache = last.new_empty(shape.layers, 2, len(last), shape.kv_heads, shape.books, shape.head)
        inputs = torch.stack((last, first), dim=1)
        codes: list[torch.Tensor] = []
        rows = [first]
        place = 0
        for book in range(1, shape.books):
            hidden = self._step(inputs, cache, place)
            code = draw(book, functional.linear(hidden, self.heads[book - 1]).float())
            place += inputs.shape[1]
            codes.append(code)
            rows.append(functional.embedding(code, self.tables[book - 1]))
            inputs = rows[-1][:, None]
        return torch.stack(codes, dim=1), torch.stack(rows).sum(0)

    def embed(self, codes: torch.Tensor) -> torch.Tensor:
        """Residual codes, int64 ``[n, books - 1]`` -> their rows ``[books - 1, n, width]``."""
        return torch.stack([functional.embedding(codes[:, book], table) for book, table in enumerate(self.tables)])

    def _step(self, inputs: torch.Tensor, cache: torch.Tensor, place: int) -> torch.Tensor:
        """``inputs`` ``[rows, n, width]`` at the positions from ``place`` on; the last one's final row."""
        shape = self.shape
        rows, count, _ = inputs.shape
        end = place + count
        cosine, sine = self.rotation[:, place:end, None]
        hidden = inputs
        layer: Any
        for layer, (keys, values) in zip(self.layers, cache, strict=True):
            normed = functional.rms_norm(hidden, (shape.width,), layer.input_layernorm, shape.epsilon)
            joined = functional.linear(normed, layer.qkv).view(rows, count, -1, shape.head)
            query, key, value = torch.split(joined, [shape.heads, shape.kv_heads, shape.kv_heads], dim=2)
            query = _rotated(functional.rms_norm(query, (shape.head,), layer.q_norm, shape.epsilon), cosine, sine)
            key = _rotated(functional.rms_norm(key, (shape.head,), layer.k_norm, shape.epsilon), cosine, sine)
            keys[:, :, place:end] = key.transpose(1, 2)
            values[:, :, place:end] = value.transpose(1, 2)
            attended = functional.scaled_dot_product_attention(
                query.transpose(1, 2), keys[:, :, :end], values[:, :, :end], is_causal=count > 1, enable_gqa=True
            )
            hidden = hidden + functional.linear(attended.transpose(1, 2).reshape(rows, count, -1), layer.o_proj)
            normed = functional.rms_norm(hidden, (shape.width,), layer.post_attention_layernorm, shape.epsilon)
            gate, up = functional.linear(normed, layer.gate_up).chunk(2, dim=-1)
            hidden = hidden + functional.linear(functional.silu(gate) * up, layer.down_proj)
        return functional.rms_norm(hidden[:, -1], (shape.width,), self.norm, shape.epsilon)


def rotation(shape: Shape) -> torch.Tensor:
    """Cosine and sine of each position of a frame: float32 ``[2, books, head]``."""
    exponents = torch.arange(0, shape.head, 2, dtype=torch.float32, device="cpu") / shape.head
    angles = torch.arange(shape.books, dtype=torch.float32, device="cpu")[:, None] * shape.theta**-exponents
    angles = torch.cat((angles, angles), dim=-1)
    return torch.stack((angles.cos(), angles.sin())).to(torch.get_default_device())


def _rotated(rows: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Rotary embedding (https://arxiv.org/abs/2104.09864), halves apart, in the rows' own type."""
    half = rows.shape[-1] // 2
    turned = torch.cat((-rows[..., half:], rows[..., :half]), dim=-1)
    return rows * cosine.to(rows.dtype) + turned * sine.to(rows.dtype)


def _weight(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape), requires_grad=False)
