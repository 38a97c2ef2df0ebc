from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from tests.engines import tiny_llama
from voice_omni.model_runner.detokenizer import Detokenizer, TokenBytes
from voice_omni.models.starter.think_model import thinker_folder
from voice_omni.models.starter.think_tokenizer import build_tokenizer, control_token, load_tokenizer
from voice_omni.models.starter.think_weights import Vocabulary
from voice_omni.models.starter.weights import SMOLLM2_135M
from voice_omni.proto.errors import OmniError
from voice_omni.weights import fetch

TEXTS = [
    "Hello, how are you? I'm fine, thanks; it's 20:15.",
    "In 1984 it cost $12,345.67 (about 3 %)!",
    "  two  spaces\n\nand\ttabs  \n",
    "naïve café, Zürich, Ελληνικά, 北京, עברית, 👩‍🚀🎉",
    "I'd've they'll WE'RE don't",
    "",
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return load_tokenizer(thinker_folder())


@pytest.fixture(scope="module")
def token_bytes(tokenizer: Tokenizer) -> TokenBytes:
    return TokenBytes(tokenizer)


@pytest.fixture(scope="module")
def known(tokenizer: Tokenizer, token_bytes: TokenBytes) -> frozenset[bytes]:
    """What a single token can stand for."""
    return frozenset(token_bytes[token] for token in range(tokenizer.get_vocab_size()))


def test_it_equals_the_conversion_of_transformers(tokenizer: Tokenizer) -> None:
    folder = fetch(SMOLLM2_135M)
    reference = AutoTokenizer.from_pretrained(folder, gguf_file=SMOLLM2_135M.files[0])
    for text in TEXTS:
        assert tokenizer.encode(text).ids == reference(text, add_special_tokens=False)["input_ids"]


@given(text=st.text())
def test_text_survives_but_for_bytes_that_the_vocabulary_lacks(
    tokenizer: Tokenizer, token_bytes: TokenBytes, known: frozenset[bytes], text: str
) -> None:
    text = "".join(letter for letter in text if all(bytes([byte]) in known for byte in letter.encode()))
    tokens = tokenizer.encode(text).ids
    detokenizer = Detokenizer(token_bytes)
    assert detokenizer.push(tokens) + detokenizer.finish() == text


@given(tokens=st.lists(st.integers(0, 49151), max_size=30))
def test_pieces_joined_are_the_text_of_all_tokens(token_bytes: TokenBytes, tokens: list[int]) -> None:
    detokenizer = Detokenizer(token_bytes)
    pieces = [detokenizer.push([token]) for token in tokens]
    whole = b"".join(token_bytes[token] for token in tokens).decode(errors="replace")
    assert "".join(pieces) + detokenizer.finish() == whole


def test_half_a_character_is_held_back(tokenizer: Tokenizer, token_bytes: TokenBytes) -> None:
    detokenizer = Detokenizer(token_bytes)
    tokens = tokenizer.encode("🦙").ids
    assert len(tokens) > 1
    assert [detokenizer.push([token]) for token in tokens] == [""] * (len(tokens) - 1) + ["🦙"]


def test_what_looks_like_a_control_token_is_text(tokenizer: Tokenizer, token_bytes: TokenBytes) -> None:
    tokens = tokenizer.encode("<|im_end|>").ids
    assert control_token(tokenizer, "<|im_end|>") not in tokens
    assert Detokenizer(token_bytes).push(tokens) == "<|im_end|>"
    assert Detokenizer(token_bytes).push([control_token(tokenizer, "<|im_end|>")]) == ""


def test_a_saved_tokenizer_is_the_same(tmp_path: Path) -> None:
    words = tiny_llama.vocabulary()
    built = build_tokenizer(Vocabulary(words, tiny_llama.MERGES, frozenset({0, 1, 2}), "smollm", 2))
    built.save(str(tmp_path / "tokenizer.json"))
    assert load_tokenizer(tmp_path).encode("the thing in a bin").ids == built.encode("the thing in a bin").ids


def test_another_pattern_is_refused() -> None:
    with pytest.raises(OmniError, match="llama-bpe"):
        build_tokenizer(Vocabulary(["a"], [], frozenset(), "llama-bpe", 0))
