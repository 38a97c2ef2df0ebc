"""Backchannels and echoes, by their words."""

from __future__ import annotations

import pytest

from voice_omni.session.words import is_backchannel, is_echo, words_of

ANSWER = words_of("The capital of France is Paris, which lies on the river Seine, and it has been so for centuries.")


def test_words_have_neither_case_nor_punctuation() -> None:
    assert words_of("Mm-hm, I SEE. It's 9 o'clock!") == ("mm-hm", "i", "see", "it's", "9", "o'clock")


@pytest.mark.parametrize("text", ["Yeah.", "mm-hm", "Uh huh.", "Oh, I see.", "okay, right, of course", "Got it!"])
def test_words_that_only_show_attention(text: str) -> None:
    assert is_backchannel(words_of(text))


@pytest.mark.parametrize("text", ["", "Stop.", "Yeah, but why?", "I", "see you", "Okay, next one please."])
def test_words_that_say_more_or_nothing(text: str) -> None:
    assert not is_backchannel(words_of(text))


@pytest.mark.parametrize(
    "text",
    [
        "the capital of France",
        "France is Paris which lies on the river",
        "on the river Seine and it has bean so for centuries",
    ],
)
def test_a_stretch_of_the_answer_is_an_echo_even_if_a_word_is_misheard(text: str) -> None:
    assert is_echo(words_of(text), ANSWER, 0.8)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Paris",
        "on the",
        "what is the capital of Italy",
        "and how long is the river",
        "Paris of the capital centuries is",
    ],
)
def test_a_question_about_it_is_none(text: str) -> None:
    assert not is_echo(words_of(text), ANSWER, 0.8)
