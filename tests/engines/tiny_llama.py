"""A Llama small enough for tests, with random weights, as a GGUF file and as Hugging Face tensors."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import torch
from numpy.typing import NDArray
from transformers import LlamaConfig, LlamaForCausalLM

LAYERS, HIDDEN, FEED_FORWARD, HEADS, KV_HEADS, CONTEXT = 2, 64, 96, 4, 2, 512
ROPE_BASE, EPSILON = 10_000.0, 1e-5
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["t h", "th e", "Ġ the", "i n", "Ġ a"]


def vocabulary() -> list[str]:
    printable = [*range(33, 127), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return [*SPECIAL, *map(chr, printable), *(chr(256 + n) for n in range(68)), *(m.replace(" ", "") for m in MERGES)]


def model(seed: int = 0) -> LlamaForCausalLM:
    """Its weights are large enough for its choices to be clear ones."""
    config = LlamaConfig(
        vocab_size=len(vocabulary()),
        hidden_size=HIDDEN,
        intermediate_size=FEED_FORWARD,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=EPSILON,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_BASE},
        tie_word_embeddings=True,
        initializer_range=0.3,
    )
    torch.manual_seed(seed)
    return LlamaForCausalLM(config).eval()


def tensors(llama: LlamaForCausalLM) -> dict[str, NDArray[np.float32]]:
    return {name: value.numpy() for name, value in llama.state_dict().items() if name != "lm_head.weight"}


def write_gguf(path: Path, llama: LlamaForCausalLM, *, tokenizer: str = "gpt2", pre_tokenizer: str = "smollm") -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_vocab_size(len(vocabulary()))
    writer.add_tokenizer_model(tokenizer)
    writer.add_tokenizer_pre(pre_tokenizer)
    writer.add_token_list(vocabulary())
    writer.add_token_types([3] * len(SPECIAL) + [1] * (len(vocabulary()) - len(SPECIAL)))
    writer.add_token_merges(MERGES)
    writer.add_eos_token_id(SPECIAL.index("<|im_end|>"))
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, LAYERS)
    for name, value in tensors(llama).items():
        gguf_name = names.get_name(name, try_suffixes=(".weight",))
        writer.add_tensor(str(gguf_name), _interleaved(name, value))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _interleaved(name: str, value: NDArray[np.float32]) -> NDArray[np.float32]:
    """The order in which llama.cpp's converter writes the rows that a rotary embedding turns."""
    heads = HEADS if "q_proj" in name else KV_HEADS if "k_proj" in name else 0
    if not heads:
        return value
    return value.reshape(heads, 2, -1, value.shape[1]).swapaxes(1, 2).reshape(value.shape)
