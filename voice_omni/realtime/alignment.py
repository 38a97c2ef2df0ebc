"""Which words of an answer had been spoken when its sound was cut."""

from __future__ import annotations

import unicodedata
from typing import Final

_LETTERS_PER_SECOND: Final = 15.0
"""150 English words in a minute, with the spaces between them."""
_WIDE_LETTERS: Final = 3
"""How many letters a wide character counts for: a Chinese or Japanese one is a syllable or more."""


class Alignment:
    """The sound of one assistant message, in samples, and the text whose speech begins at marked positions.

    Between two marks the characters are taken to be spoken at an even pace, and a cut keeps whole words only.
    Without marks that holds for the whole text. Text is written faster than it is spoken: as long as the sound is not
    all there, it is expected to become as long as the text usually takes.
    """

    def __init__(self, sample_rate: int) -> None:
        """``sample_rate``: Hz, of the samples that marks and lengths count."""
        self._rate = sample_rate
        self._marks: list[tuple[int, str]] = []
        self.samples = 0
        self.complete = False
        """Whether the sound is all there, so that the whole text has been spoken by its end."""

    def append(self, samples: int, marks: tuple[tuple[int, str], ...] = ()) -> None:
        """The next ``samples`` of sound; each mark is ``(offset in them, text that begins there)``."""
        self._marks.extend((self.samples + offset, text) for offset, text in marks)
        self.samples += samples

    @property
    def duration_ms(self) -> float:
        return self.samples * 1000 / self._rate

    def spoken(self, text: str, played_ms: float) -> str:
        """What of ``text``, the whole message, is heard in the first ``played_ms`` of its sound."""
        played = played_ms * self._rate / 1000
        total = self.samples
        if not self._marks and not self.complete:
            total = max(total, round(_usual_seconds(text) * self._rate))
        if played >= total and (self.complete or not self._marks):
            return text
        marks = self._marks or [(0, text)]
        ends = [start for start, _ in marks[1:]] + [total]
        heard = ""
        for (start, piece), end in zip(marks, ends, strict=True):
            if played >= end:
                heard += piece
            elif played > start:
                heard += _whole_words(piece, (played - start) / (end - start))
        return heard.strip()


def _usual_seconds(text: str) -> float:
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return (len(text) + wide * (_WIDE_LETTERS - 1)) / _LETTERS_PER_SECOND


def _whole_words(text: str, share: float) -> str:
    """The leading words of ``text`` that end within ``share`` of its characters."""
    limit = len(text.rstrip()) * share
    end = 0
    for position, character in enumerate(text + " "):
        if character.isspace() and position and not text[position - 1].isspace():
            if position > limit:
                break
            end = position
    return text[:end]
