"""How a clause is read aloud: an ordered list of rules turns written text into words, keeping where each came from.

The scanner walks over the text; at each place the first rule that matches and knows how to read its match wins.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from voice_omni.models.starter.spoken_text.numerals import Words

PAUSE: Final = ","

Known = Callable[[str], bool]
"""Whether a lower-case word has a known pronunciation."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """What is said for ``text[start:end]``.

    ``words`` are in lower case; a capital letter alone is the letter's name. ``stop`` is the punctuation mark that
    shapes the melody after them: one of ``, . ; : ? !`` or nothing.
    """

    start: int
    end: int
    words: Words
    stop: str = ""


@dataclass(frozen=True, slots=True)
class Reader:
    """What a rule may look at besides its own match."""

    known: Known
    line_start: bool
    code: bool
    shouted: bool

    @staticmethod
    def word_before(match: re.Match[str]) -> str:
        """The word before the match, "" if there is none or if a sentence ends between."""
        found = _LAST_WORD.search(match.string, max(0, match.start() - 40), match.start())
        return found.group(1) if found else ""

    @staticmethod
    def after(match: re.Match[str]) -> str:
        """The next visible character after the match, "" at the end."""
        return match.string[match.end() :].lstrip()[:1]


@dataclass(frozen=True, slots=True)
class Said:
    """What a rule says for its match: words, possibly none, :data:`PAUSE` among them, and the stop after them."""

    words: Words = ()
    stop: str = ""


Read = Callable[[re.Match[str], Reader], Said | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """``read`` gets what ``pattern`` matched, and passes with None."""

    pattern: re.Pattern[str]
    read: Read


def rule(pattern: str, flags: int = 0) -> Callable[[Read], Rule]:
    """Make a rule of a reading function."""

    def make(read: Read) -> Rule:
        return Rule(re.compile(pattern, flags), read)

    return make


def canonical(text: str) -> str:
    """The text with look-alikes unified, character by character so that positions stay the same: full-width letters,
    other scripts' digits, subscripts, special spaces and apostrophes."""
    return "".join(_canonical(character) for character in text)


@lru_cache(maxsize=4096)
def _canonical(character: str) -> str:
    if character.isascii():
        return character
    if character.isdecimal():
        return str(unicodedata.decimal(character))
    if character in "’ʼ＇":
        return "'"
    if unicodedata.decomposition(character).startswith("<super>"):
        return character
    compatible = unicodedata.normalize("NFKC", character)
    return compatible if len(compatible) == 1 else character


_LAST_WORD: Final = re.compile(r"([^\W_][\w'’.\-]*)[\s,(\"“*_]*$")


def scan(text: str, rules: Sequence[Rule], reader: Reader) -> Iterator[Spoken]:
    """Read ``text`` from left to right. What no rule reads is skipped, character by character."""
    position = 0
    while position < len(text):
        spoken = _first(text, position, rules, reader)
        if spoken is None:
            position += 1
            continue
        yield from _parts(spoken)
        position = spoken.end


def _parts(spoken: Spoken) -> Iterator[Spoken]:
    """Split at the pauses within."""
    words = spoken.words
    while PAUSE in words:
        at = words.index(PAUSE)
        yield Spoken(spoken.start, spoken.end, words[:at], PAUSE)
        words = words[at + 1 :]
    yield Spoken(spoken.start, spoken.end, words, spoken.stop)


def _first(text: str, position: int, rules: Sequence[Rule], reader: Reader) -> Spoken | None:
    for candidate in rules:
        match = candidate.pattern.match(text, position)
        if match is None or match.end() == position:
            continue
        said = candidate.read(match, reader)
        if said is not None:
            return Spoken(position, match.end(), said.words, said.stop)
    return None
