from __future__ import annotations

import pytest

from voice_omni.models.starter.think_sentences import SentenceEnds


def cut(text: str, size: int) -> list[str]:
    """The sentences of a text that comes in pieces of so many characters."""
    ends, sentences = SentenceEnds(), [""]
    for start in range(0, len(text), size):
        piece = text[start : start + size]
        if ends.before(piece):
            sentences.append("")
        sentences[-1] += piece
    return sentences


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("It is blue. It is wide! Is it? Yes.", 4),
        ('He said "no." Then he left.', 2),
        ("No. I do not.", 2),
        ("Dr. Smith met Mr. Jones vs. the rest.", 1),
        ("It costs 3.50 dollars, i.e. nothing.", 1),
        ("J. R. R. Tolkien wrote it.", 1),
        ("1. Boil water. 2. Wait.", 2),
        ("So it was I. He left.", 2),
        ("One line\nand another", 1),
        ("", 1),
    ],
)
def test_sentences_begin_after_an_end_and_a_space(text: str, count: int) -> None:
    sentences = cut(text, 1)
    assert "".join(sentences) == text
    assert len(sentences) == count


def test_a_token_brings_its_space_with_it() -> None:
    ends = SentenceEnds()
    assert [ends.before(piece) for piece in ("It", " is", " so", ".", " And")] == [False, False, False, False, True]
