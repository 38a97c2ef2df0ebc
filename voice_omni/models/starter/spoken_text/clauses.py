"""Cuts text that is still being written into clauses that can be spoken one after another.

Where a clause ends depends on the text alone, never on how it arrived: a place is judged only when the text up to and
including the next visible character is known. The first clause is short so that speech starts early, later ones grow
because sound is already playing and whole sentences sound better.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from voice_omni.models.starter.spoken_text.abbreviations import continues_sentence


class Break(IntEnum):
    """How strongly the text is divided at a place, weakest first."""

    NONE = 0
    WORD = 1
    PHRASE = 2
    SENTENCE = 3
    PARAGRAPH = 4
    END = 5


@dataclass(frozen=True, slots=True)
class Clause:
    """A slice of the text, with the white space that follows it.

    ``line_start``: it begins a line, so that list markers and headings are such. ``code``: it lies in a fenced block.
    """

    index: int
    text: str
    after: Break
    line_start: bool
    code: bool


@dataclass(frozen=True, slots=True)
class Limits:
    """Characters: a phrase may end a clause from ``phrase``, a word must from ``word``."""

    phrase: int
    word: int


FIRST_LIMITS: Final[Sequence[Limits]] = (Limits(10, 30), Limits(20, 70), Limits(50, 120))
LATER_LIMITS: Final = Limits(90, 180)
LONGEST: Final = 250
"""A run without any white space is cut here."""

_GAP: Final = re.compile(r"\s+|(?<=[。！？；，、])(?=\S)")
_CLOSERS: Final = "\"'”’»)]}*_`~"
_LINKING: Final = re.compile(
    r"(?:and|but|or|so|because|that|which|who|when|while|where|if|as|than|with|from|for|in|on|at|to|by|of|into|about)\b",
    re.IGNORECASE,
)
_FENCE: Final = re.compile(r"[ \t]*(?:```|~~~)")
_BLOCK: Final = re.compile(r"[-*+•>#|`~]|\d{1,3}[.)]\s")


@dataclass(frozen=True, slots=True)
class _Place:
    end: int
    strength: Break


class ClauseSplitter:
    """Text in pieces in, clauses out; a pure state machine."""

    def __init__(self) -> None:
        self._text = ""
        self._ended = False
        self._index = 0
        self._line_start = True
        self._code = False

    def push(self, text: str) -> None:
        self._text += text

    def end(self) -> None:
        """No more text will come."""
        self._ended = True

    @property
    def finished(self) -> bool:
        return self._ended and not self._text

    def next(self) -> Clause | None:
        """The next clause, or None until more text has come (or for good, once :attr:`finished`)."""
        if not self._text:
            return None
        place = self._find(FIRST_LIMITS[self._index] if self._index < len(FIRST_LIMITS) else LATER_LIMITS)
        if place is None:
            return None
        text, self._text = self._text[: place.end], self._text[place.end :]
        fence = self._line_start and _FENCE.match(text) is not None
        clause = Clause(self._index, text, place.strength, self._line_start, self._code and not fence)
        self._index += 1
        self._line_start = text.endswith("\n") or ("\n" in text[len(text.rstrip()) :])
        self._code ^= fence
        return clause

    def _find(self, limits: Limits) -> _Place | None:
        text = self._text
        passed: list[_Place] = []
        for gap in _GAP.finditer(text):
            if gap.end() == len(text):
                break
            if gap.start() == 0 or gap.end() > LONGEST:
                continue
            place = _Place(gap.end(), self._judge(gap.start(), gap.end()))
            if place.strength >= Break.SENTENCE or (place.strength is Break.PHRASE and gap.start() >= limits.phrase):
                return place
            if place.strength is not Break.NONE:
                passed.append(place)
            if gap.start() > limits.word and passed:
                return self._best(passed)
        if len(text) > LONGEST:
            return self._best(passed) if passed else _Place(LONGEST, Break.WORD)
        return _Place(len(text), Break.END) if self._ended else None

    def _best(self, passed: Sequence[_Place]) -> _Place:
        """Where an overlong clause is best divided: late, at a phrase, or before a linking word."""
        longest = passed[-1].end

        def merit(place: _Place) -> float:
            linking = place.strength is Break.PHRASE or _LINKING.match(self._text, place.end) is not None
            return place.end / longest + (0.6 if linking else 0.0)

        return max(passed, key=merit)

    def _judge(self, start: int, end: int) -> Break:
        """The strength of the gap ``[start, end)``; the character at ``end`` is known."""
        text = self._text
        lines = text.count("\n", start, end)
        following = text[end]
        if lines > 1:
            return Break.PARAGRAPH
        if lines and (self._code or self._starts_block(start) or _BLOCK.match(text, end) or _FENCE.match(text, end)):
            return Break.SENTENCE
        *_, previous, word = ("", "", *text[:start].split()[-2:])
        core = word.rstrip(_CLOSERS)
        if core.endswith(("!", "?", "…", "。", "！", "？")):
            return Break.PHRASE if core.endswith("…") and following.islower() else Break.SENTENCE
        if core.endswith("."):
            return self._judge_full_stop(core, previous, following)
        if lines and not following.islower():
            return Break.SENTENCE
        if core.endswith((",", ";", ":", "；", "，", "、")) or core in ("-", "--", "–", "—"):
            return Break.NONE if core[-2:-1].isdigit() and following.isdigit() else Break.PHRASE
        if core[-1:].isdigit() or following.isdigit() or not core:
            return Break.NONE
        return Break.WORD

    def _judge_full_stop(self, word: str, previous: str, following: str) -> Break:
        if word.endswith(".."):
            return Break.PHRASE if following.islower() else Break.SENTENCE
        if word[:-1].isdigit() and not previous.strip("*_>"):
            return Break.NONE  # "1. First": the number of a list item
        return Break.NONE if continues_sentence(word, previous, following) else Break.SENTENCE

    def _starts_block(self, start: int) -> bool:
        """Whether the line before the gap is a heading, a list item or a table row."""
        line_start = self._text.rfind("\n", 0, start) + 1
        return (line_start > 0 or self._line_start) and _BLOCK.match(self._text[line_start:start].lstrip()) is not None
