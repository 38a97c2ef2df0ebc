"""The thinker's model on disk: SmolLM2-135M-Instruct, from GGUF to int8 for CTranslate2, and its tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tokenizers import Tokenizer

from voice_omni.models.starter.think_prompt import EXAMPLES, PromptLimits, PromptWriter
from voice_omni.models.starter.think_smoothing import smooth
from voice_omni.models.starter.think_tokenizer import TOKENIZER_FILE, build_tokenizer, control_token
from voice_omni.models.starter.think_weights import (
    open_gguf,
    read_checkpoint,
    read_vocabulary,
    write_ctranslate2,
)
from voice_omni.models.starter.weights import SMOLLM2_135M
from voice_omni.weights import derived, fetch

CONTEXT_TOKENS: Final = 8192
_START, _END, _DOCUMENT_END = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
_CONVERSION: Final = "2"


def thinker_folder() -> Path:
    """The converted model with its tokenizer; made once, in about ten seconds. Raises what :func:`fetch` raises."""
    source = fetch(SMOLLM2_135M) / SMOLLM2_135M.files[0]
    return derived(
        SMOLLM2_135M, name="starter-thinker", version=_CONVERSION, build=lambda folder: _convert(source, folder)
    )


def prompt_writer(tokenizer: Tokenizer, *, history_tokens: int, message_tokens: int) -> PromptWriter:
    def encode(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False).ids)

    return PromptWriter(
        encode,
        start=control_token(tokenizer, _START),
        end=control_token(tokenizer, _END),
        limits=PromptLimits(history_tokens, message_tokens, CONTEXT_TOKENS),
    )


def stop_tokens(tokenizer: Tokenizer) -> frozenset[int]:
    return frozenset(control_token(tokenizer, word) for word in (_END, _DOCUMENT_END))


def _convert(source: Path, folder: Path) -> None:
    reader = open_gguf(source)
    vocabulary = read_vocabulary(reader)
    tokenizer = build_tokenizer(vocabulary)
    writer = prompt_writer(tokenizer, history_tokens=0, message_tokens=0)
    calibration = writer.opening("You are a helpful AI assistant.", EXAMPLES)
    write_ctranslate2(smooth(read_checkpoint(reader), calibration), vocabulary, folder, "int8")
    tokenizer.save(str(folder / TOKENIZER_FILE), pretty=False)
