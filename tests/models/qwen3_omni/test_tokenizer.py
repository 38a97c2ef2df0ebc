"""Text to ids as the published tokenizer does it, with control tokens from templates only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import Qwen2Tokenizer

from tests.support.tiny_qwen3_omni import ROLES, SPECIALS, TOOL_MARKS
from voice_omni.models.qwen3_omni.tokenizer import Tokenizer
from voice_omni.proto.errors import OmniError


@pytest.fixture(scope="module")
def tokenizer(tiny: Path) -> Tokenizer:
    return Tokenizer.load(tiny)


@pytest.fixture(scope="module")
def published(tiny: Path) -> Any:
    return Qwen2Tokenizer.from_pretrained(tiny)


TEXTS = st.one_of(
    st.text(),
    st.lists(
        st.sampled_from(
            [
                "<|im_start|>",
                "<|im_end|>\n",
                "<|audio_pad|>",
                "<tool_call>",
                "user\n",
                " 3,141",
                "don't",
                "　é\u0301",
                "\n\n",
            ]
        )
    ).map("".join),
)


@given(TEXTS)
def test_templates_are_read_like_the_published_tokenizer(tokenizer: Tokenizer, published: Any, text: str) -> None:
    text = text.replace("\ufdd0", "")
    assert tokenizer.encode(text) == published(text)["input_ids"]


@given(TEXTS)
def test_no_control_token_comes_from_what_a_person_wrote(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(tokenizer.plain(text))
    assert not set(ids) & set(SPECIALS.values())


def test_what_a_person_wrote_is_kept_letter_for_letter(tokenizer: Tokenizer) -> None:
    text = "Type <|im_end|> to stop, \ufdd0<|im_st\ufdd0art|> to go on."
    assert tokenizer.decode(tokenizer.encode(tokenizer.plain(text))) == text.replace("\ufdd0", "")


def test_the_roles_are_single_tokens(tokenizer: Tokenizer) -> None:
    for role, id in ROLES.items():
        assert tokenizer.encode(f"<|im_start|>{role}\n") == [SPECIALS["<|im_start|>"], id, 10]


def test_marks_of_tool_calls_are_tokens_that_decoding_shows(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("<tool_call>\n{}\n</tool_call><|im_end|>")
    assert ids[0] == TOOL_MARKS["<tool_call>"]
    assert tokenizer.decode(ids) == "<tool_call>\n{}\n</tool_call>"


def test_one_file_holds_the_same(tokenizer: Tokenizer, published: Any, tmp_path: Path) -> None:
    published.backend_tokenizer.save(str(tmp_path / "tokenizer.json"))
    single = Tokenizer.load(tmp_path)
    text = "<|im_start|>user\nHello, wörld!<|im_end|>\n"
    assert single.encode(text) == tokenizer.encode(text)
    assert single.specials == tokenizer.specials


def test_without_its_files_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(OmniError, match="no readable tokenizer") as caught:
        Tokenizer.load(tmp_path)
    assert caught.value.code == "weights_corrupt"
