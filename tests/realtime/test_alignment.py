"""From played milliseconds to spoken words."""

from __future__ import annotations

import pytest

from voice_omni.realtime.alignment import Alignment

TEXT = "The capital of France is Paris."


def _aligned(*pieces: tuple[str, float], complete: bool = True) -> Alignment:
    """Pieces of text and their seconds, one chunk of sound each, at 1 kHz."""
    alignment = Alignment(1000)
    for text, seconds in pieces:
        alignment.append(int(seconds * 1000), ((0, text),))
    alignment.complete = complete
    return alignment


@pytest.mark.parametrize(
    ("played_ms", "heard"),
    [
        (0, ""),
        (400, "The capital"),
        (999, "The capital"),
        (1000, "The capital of"),
        (1250, "The capital of France"),
        (1500, "The capital of France is"),
        (2999, "The capital of France is"),
        (3000, TEXT),
        (9000, TEXT),
    ],
)
def test_marked_pieces_are_heard_to_the_word(played_ms: float, heard: str) -> None:
    alignment = _aligned(
        ("The capital ", 0.4), ("", 0.6), ("of ", 0.0), ("France ", 0.25), ("is ", 0.25), ("Paris.", 1.5)
    )
    assert alignment.spoken(TEXT, played_ms) == heard


def test_inside_a_clause_whole_words_are_heard_in_proportion() -> None:
    alignment = _aligned((TEXT, 3.1))
    assert alignment.spoken(TEXT, 1000) == "The"
    assert alignment.spoken(TEXT, 1100) == "The capital"
    assert alignment.spoken(TEXT, 3099) == "The capital of France is"


def test_without_marks_the_whole_text_is_taken_to_be_even() -> None:
    alignment = Alignment(1000)
    alignment.append(3100)
    alignment.complete = True
    assert alignment.spoken(TEXT, 1100) == "The capital"
    assert alignment.spoken(TEXT, 3100) == TEXT


@pytest.mark.parametrize(
    ("played_ms", "heard"), [(0, ""), (500, "The"), (1000, "The capital of"), (1800, "The capital of France is")]
)
def test_while_more_sound_is_to_come_the_text_is_spoken_at_the_usual_pace(played_ms: float, heard: str) -> None:
    """All of the text is there, and 2 s of its sound; that is no reason to take all of it for spoken in them."""
    alignment = Alignment(1000)
    alignment.append(1800)
    assert alignment.spoken(TEXT, played_ms) == heard


def test_sound_that_is_longer_than_usual_is_spoken_more_slowly() -> None:
    alignment = Alignment(1000)
    alignment.append(6200)
    assert alignment.spoken(TEXT, 3100) == "The capital of"


def test_a_chinese_character_takes_as_long_as_a_syllable() -> None:
    alignment = Alignment(1000)
    alignment.append(100)
    assert alignment.spoken("你好", 399) == ""
    assert alignment.spoken("你好", 401) == "你好"


def test_words_whose_sound_was_never_made_are_not_heard_at_the_end_of_what_was() -> None:
    alignment = _aligned(("The ", 0.5), ("capital ", 0.5), complete=False)
    assert alignment.spoken(TEXT, 1000) == "The capital"


def test_a_mark_inside_a_chunk_counts_from_its_start() -> None:
    alignment = Alignment(1000)
    alignment.append(500, ((0, "one "), (400, "two ")))
    alignment.append(500, ((100, "three"),))
    assert alignment.spoken("one two three", 399) == "one" or alignment.spoken("one two three", 400) == "one"
    assert alignment.spoken("one two three", 600) == "one two"
