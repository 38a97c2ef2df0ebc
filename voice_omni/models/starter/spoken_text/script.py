"""The whole way from a clause to phonemes that remember which text they speak."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from voice_omni.models.starter.spoken_text import addresses, markup, moments, quantities, signs, words
from voice_omni.models.starter.spoken_text.clauses import Break, Clause
from voice_omni.models.starter.spoken_text.pronunciation import Pronouncer
from voice_omni.models.starter.spoken_text.reading import Known, Reader, Rule, Spoken, canonical, scan

RULES: Final[tuple[Rule, ...]] = (
    *markup.RULES,
    *addresses.RULES,
    *moments.RULES,
    *quantities.RULES,
    *signs.RULES,
    *words.RULES,
)
"""The first that can read a place wins."""

_STOP_STRENGTH: Final = {"": 0, ",": 1, ":": 2, ";": 2, ".": 3, "!": 4, "?": 4}
_RUN: Final = re.compile(r"\s*\S+\s*|\s+")


@dataclass(frozen=True, slots=True)
class Script:
    """``phonemes``: decomposed code points with spaces between words and stops after them, "" if nothing is said.

    ``marks``: ``(position in phonemes, text)``; the texts, joined, are the clause's text.
    """

    phonemes: str
    marks: tuple[tuple[int, str], ...]


def read_aloud(text: str, known: Known, *, line_start: bool = True, code: bool = False) -> list[Spoken]:
    """What is said for ``text``, in order; characters that belong to no item are silent."""
    text = canonical(text)
    letters = [character for character in text if character.isalpha()]
    shouted = len(letters) > 8 and sum(letter.isupper() for letter in letters) > 0.8 * len(letters)
    return list(scan(text, RULES, Reader(known, line_start, code, shouted)))


def spoken_form(text: str, known: Known) -> str:
    """The words alone, for people and tests to read."""
    return " ".join(word for item in read_aloud(text, known) for word in item.words)


def write_script(clause: Clause, pronouncer: Pronouncer) -> Script:
    """How the clause is said, and where in it."""
    items = read_aloud(clause.text, pronouncer.known, line_start=clause.line_start, code=clause.code)
    phonemes = ""
    begins: list[tuple[int, int]] = []
    for phrase in _phrases(items):
        spoken = [item for item in phrase if item.words]
        for item, said in zip(spoken, pronouncer.phrase([item.words for item in spoken]), strict=True):
            if said:
                phonemes += " " if phonemes else ""
                begins.append((item.start, len(phonemes)))
                phonemes += unicodedata.normalize("NFD", said)
        phonemes = _with_stop(phonemes, max((item.stop for item in phrase), key=_STOP_STRENGTH.__getitem__))
    if not phonemes:
        return Script("", ((0, clause.text),))
    return Script(_closed(phonemes, clause.after), tuple(_marks(clause.text, begins)))


def _phrases(items: Sequence[Spoken]) -> Iterator[list[Spoken]]:
    """The items up to and including each stop."""
    phrase: list[Spoken] = []
    for item in items:
        phrase.append(item)
        if item.stop:
            yield phrase
            phrase = []
    if phrase:
        yield phrase


def _with_stop(phonemes: str, stop: str) -> str:
    """Of several stops in a row the strongest remains; none comes before the first word."""
    last = phonemes[-1:] if phonemes[-1:] in _STOP_STRENGTH else ""
    if not phonemes or _STOP_STRENGTH[stop] <= _STOP_STRENGTH[last]:
        return phonemes
    return phonemes.removesuffix(last) + stop


def _closed(phonemes: str, after: Break) -> str:
    """The melody falls at the end of a sentence and stays up where the sentence goes on."""
    return _with_stop(phonemes, "," if after in (Break.WORD, Break.PHRASE) else ".")


def _marks(text: str, begins: Sequence[tuple[int, int]]) -> list[tuple[int, str]]:
    """One mark for each word of the text that speech begins in; silent text belongs to the mark before it."""
    marks: list[tuple[int, str]] = []
    silent = ""
    for run in _RUN.finditer(text):
        position = next((at for start, at in begins if run.start() <= start < run.end()), None)
        if position is not None:
            marks.append((position, silent + run.group()))
            silent = ""
        elif marks:
            marks[-1] = (marks[-1][0], marks[-1][1] + run.group())
        else:
            silent += run.group()
    return marks
