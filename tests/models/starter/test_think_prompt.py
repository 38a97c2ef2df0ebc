from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Template

from voice_omni.models.starter.think_prompt import PromptLimits, PromptWriter, first_kept
from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import Data

START, END = -1, -2
# The template that the checkpoint's tokenizer carries.
TEMPLATE = Template(
    "{% for message in messages %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{{ '<|im_start|>assistant\n' }}",
    keep_trailing_newline=True,
)


def encode(text: str) -> list[int]:
    return [ord(character) for character in text]


def decode(tokens: list[int]) -> str:
    return "".join({START: "<|im_start|>", END: "<|im_end|>"}.get(token) or chr(token) for token in tokens)


def writer(history: int = 1000, message: int = 1000, context: int = 8192) -> PromptWriter:
    return PromptWriter(encode, start=START, end=END, limits=PromptLimits(history, message, context))


def conversation(count: int, length: int = 20) -> list[Data]:
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": f"{n:03}".ljust(length, ".")} for n in range(count)]


def test_it_is_the_models_own_template() -> None:
    messages = conversation(5)
    prompt = writer().write(writer().opening("Be brief."), messages, 10)
    expected = TEMPLATE.render(messages=[{"role": "system", "content": "Be brief."}, *messages])
    assert decode(prompt.tokens) == expected
    assert decode(prompt.tokens[: prompt.prefix_len]).endswith("003.................<|im_end|>\n")


def test_examples_stand_between_the_system_prompt_and_the_conversation() -> None:
    opening = writer().opening("Be brief.", [("Hello!", "Hi!")])
    assert decode(opening).endswith("<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\nHi!<|im_end|>\n")


def test_the_oldest_messages_go_first_and_the_opening_stays() -> None:
    opening = writer().opening("Be brief.")
    prompt = writer(history=200).write(opening, conversation(21), 10)
    text = decode(prompt.tokens)
    assert text.startswith(decode(opening))
    assert "000" not in text
    assert "019" in text
    assert "020" in text


def test_of_a_message_that_is_too_long_the_end_is_kept() -> None:
    text = decode(writer(message=30).write([], [{"role": "user", "content": "a" * 100 + "the end"}], 10).tokens)
    assert "the end<|im_end|>" in text
    assert text.startswith("<|im_start|>user\na")
    assert text.count("a") < 40


def test_prompts_begin_alike_for_several_turns_while_the_history_is_cut() -> None:
    prefixes = [writer(history=400).prefix([], conversation(count)) for count in range(20, 120, 2)]
    grown = [now[: len(before)] == before for before, now in pairwise(prefixes)]
    assert sum(grown) > len(grown) / 2


@given(lengths=st.lists(st.integers(1, 200), max_size=40), limit=st.integers(0, 500))
def test_what_is_kept_fits_and_is_not_needlessly_little(lengths: list[int], limit: int) -> None:
    start = first_kept(lengths, limit)
    assert sum(lengths[start:]) <= limit
    if start:
        assert sum(lengths[start - 1 :]) > limit - max(1, limit // 2)


@pytest.mark.parametrize("context", [20, 40])
def test_what_cannot_fit_is_refused(context: int) -> None:
    with pytest.raises(OmniError, match=f"room for {context}"):
        writer(context=context).write(writer().opening("Be brief."), conversation(1), 10)
