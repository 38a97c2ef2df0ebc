"""From a Llama-shaped GGUF checkpoint to a CTranslate2 model folder, with numpy alone.

GGUF layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Its Llama tensors differ from the Hugging Face
ones in one way: the rows of the query and key projections are permuted within each head so that the two halves which a
rotary embedding turns together lie side by side. :func:`read_checkpoint` undoes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from gguf import GGUFReader, dequantize
from numpy.typing import NDArray

from voice_omni.proto.errors import OmniError

Weights = NDArray[np.float32]
Precision = Literal["float32", "int8"]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tokenizer's part of a checkpoint: byte-level BPE in GPT-2's alphabet.

    ``tokens`` by id; ``merges``: pairs joined by one space, most frequent first; ``special``: ids of control tokens.
    """

    tokens: list[str]
    merges: list[str]
    special: frozenset[int]
    pre_tokenizer: str
    end_id: int


@dataclass(frozen=True, slots=True)
class LlamaShape:
    """Sizes of the backbone; ``hidden`` = ``heads`` * ``head_dim``."""

    layers: int
    hidden: int
    feed_forward: int
    heads: int
    kv_heads: int
    vocabulary: int
    context: int
    rope_base: float
    norm_epsilon: float

    @property
    def head_dim(self) -> int:
        return self.hidden // self.heads


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Dequantised tensors under their Hugging Face names (``model.layers.0.self_attn.q_proj.weight``, ...)."""

    shape: LlamaShape
    tensors: dict[str, Weights]


_LAYER_TENSORS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_TOP_TENSORS = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_CONTROL_TOKEN = 3
"""``LLAMA_TOKEN_TYPE_CONTROL`` of the GGUF tokenizer metadata."""


def _metadata(reader: GGUFReader, key: str, default: Any = None) -> Any:
    field = reader.get_field(key)
    if field is not None:
        return field.contents()
    if default is None:
        raise OmniError("invalid_checkpoint", f"The GGUF file has no metadata {key!r}.", param=key)
    return default


def open_gguf(path: Path) -> GGUFReader:
    """Takes seconds for a large vocabulary: its metadata is read token by token."""
    return GGUFReader(path)


def read_vocabulary(reader: GGUFReader) -> Vocabulary:
    """Raises :class:`OmniError` (``invalid_checkpoint``) if the file's tokenizer is not byte-level BPE."""
    model = _metadata(reader, "tokenizer.ggml.model")
    if model != "gpt2":
        raise OmniError("invalid_checkpoint", f"Expected a byte-level BPE tokenizer ('gpt2'), found {model!r}.")
    kinds = _metadata(reader, "tokenizer.ggml.token_type")
    return Vocabulary(
        tokens=_metadata(reader, "tokenizer.ggml.tokens"),
        merges=_metadata(reader, "tokenizer.ggml.merges"),
        special=frozenset(i for i, kind in enumerate(kinds) if kind == _CONTROL_TOKEN),
        pre_tokenizer=_metadata(reader, "tokenizer.ggml.pre"),
        end_id=_metadata(reader, "tokenizer.ggml.eos_token_id"),
    )


def read_checkpoint(reader: GGUFReader) -> Checkpoint:
    """Every tensor as float32 ``[out, in]``, in the order of Hugging Face's ``LlamaForCausalLM``.

    Raises :class:`OmniError` (``invalid_checkpoint``) if the architecture is another one.
    """
    architecture = _metadata(reader, "general.architecture")
    if architecture != "llama":
        raise OmniError("invalid_checkpoint", f"Expected the architecture 'llama', found {architecture!r}.")
    heads = _metadata(reader, "llama.attention.head_count")
    shape = LlamaShape(
        layers=_metadata(reader, "llama.block_count"),
        hidden=_metadata(reader, "llama.embedding_length"),
        feed_forward=_metadata(reader, "llama.feed_forward_length"),
        heads=heads,
        kv_heads=_metadata(reader, "llama.attention.head_count_kv", heads),
        vocabulary=_metadata(reader, "llama.vocab_size"),
        context=_metadata(reader, "llama.context_length"),
        rope_base=_metadata(reader, "llama.rope.freq_base", 10_000.0),
        norm_epsilon=_metadata(reader, "llama.attention.layer_norm_rms_epsilon"),
    )
    tensors: dict[str, Weights] = {}
    for tensor in reader.tensors:
        values = np.ascontiguousarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        name = _hugging_face_name(tensor.name)
        if name.endswith("q_proj.weight"):
            values = _halves(values, shape.heads)
        elif name.endswith("k_proj.weight"):
            values = _halves(values, shape.kv_heads)
        tensors[name] = values
    return Checkpoint(shape, tensors)


def _hugging_face_name(name: str) -> str:
    if name in _TOP_TENSORS:
        return _TOP_TENSORS[name]
    block, layer, part, weight = name.split(".")
    if block != "blk" or part not in _LAYER_TENSORS:
        raise OmniError("invalid_checkpoint", f"The GGUF file holds a tensor {name!r} that a Llama does not have.")
    return f"model.layers.{layer}.{_LAYER_TENSORS[part]}.{weight}"


def _halves(rows: Weights, heads: int) -> Weights:
    """Undo GGUF's order of the rotated rows: from pairs side by side to the first halves before the second ones."""
    pairs = rows.reshape(heads, -1, 2, rows.shape[1])
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(rows.shape))


def write_ctranslate2(checkpoint: Checkpoint, vocabulary: Vocabulary, folder: Path, precision: Precision) -> None:
    """Write ``model.bin``, ``config.json`` and ``vocabulary.json`` into ``folder``.

    ``int8``: symmetric, one scale per output row.
    """
    # Imported here alone: where torch is installed, the converter's classes load it.
    from ctranslate2.specs import common_spec, transformer_spec

    shape, tensors = checkpoint.shape, checkpoint.tensors
    spec = transformer_spec.TransformerDecoderModelSpec.from_config(
        num_layers=shape.layers,
        num_heads=shape.heads,
        num_heads_kv=None if shape.kv_heads == shape.heads else shape.kv_heads,
        pre_norm=True,
        activation=common_spec.Activation.SWISH,
        ffn_glu=True,
        rms_norm=True,
        rotary_dim=0,
        rotary_interleave=False,
        rotary_base=shape.rope_base,
    )
    decoder = spec.decoder
    decoder.scale_embeddings = False
    decoder.embeddings.weight = tensors["model.embed_tokens.weight"]
    decoder.projection.weight = tensors.get("lm_head.weight", tensors["model.embed_tokens.weight"])
    decoder.layer_norm.gamma = tensors["model.norm.weight"]
    for index, layer in enumerate(decoder.layer):
        at = f"model.layers.{index}."
        attention, feed_forward = layer.self_attention, layer.ffn
        attention.layer_norm.gamma = tensors[at + "input_layernorm.weight"]
        attention.linear[0].weight = np.concatenate(
            [tensors[f"{at}self_attn.{part}_proj.weight"] for part in ("q", "k", "v")]
        )
        attention.linear[1].weight = tensors[at + "self_attn.o_proj.weight"]
        feed_forward.layer_norm.gamma = tensors[at + "post_attention_layernorm.weight"]
        feed_forward.linear_0.weight = tensors[at + "mlp.gate_proj.weight"]
        feed_forward.linear_0_noact.weight = tensors[at + "mlp.up_proj.weight"]
        feed_forward.linear_1.weight = tensors[at + "mlp.down_proj.weight"]
    spec.register_vocabulary(vocabulary.tokens)
    end = vocabulary.tokens[vocabulary.end_id]
    for name, value in (
        ("bos_token", end),
        ("eos_token", end),
        ("unk_token", vocabulary.tokens[0]),
        ("layer_norm_epsilon", shape.norm_epsilon),
    ):
        spec.config.add_attribute(name, value)
    spec.validate()
    spec.optimize(quantization=precision)
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))
