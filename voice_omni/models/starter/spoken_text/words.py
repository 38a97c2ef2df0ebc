"""Rules for words, abbreviations and letters."""

from __future__ import annotations

import re
from typing import Final

from voice_omni.models.starter.spoken_text import numerals
from voice_omni.models.starter.spoken_text.abbreviations import read_abbreviation
from voice_omni.models.starter.spoken_text.reading import Reader, Rule, Said, rule
from voice_omni.models.starter.spoken_text.romanisation import romanise
from voice_omni.models.starter.spoken_text.spelling import read_word
from voice_omni.models.starter.spoken_text.tables import listed

_LATIN: Final = r"A-Za-zªºÀ-ÖØ-öø-ɏḀ-ỿ"
_WORD: Final = rf"[{_LATIN}][{_LATIN}\d_\u0300-\u036f]*(?:'[{_LATIN}]+)*"
_REGNAL: Final = frozenset(
    listed(
        "henry louis elizabeth charles george edward richard james william philip alexander francis frederick napoleon "
        "nicholas catherine ivan peter pius benedict leo gregory paul john urban clement innocent ramses"
    )
)
_COUNTED: Final = frozenset(
    listed(
        "chapter part section volume act scene book war level phase type class grade stage appendix article figure "
        "table episode season bowl rocky apollo title step unit group generation"
    )
)
_LETTERED: Final = frozenset(
    listed(
        "type plan option vitamin grade class group hepatitis part section point step team side model version appendix"
    )
)
_STANDING_ROMAN: Final = re.compile(r"X{0,2}(?:III?|VI{1,3}|IX)|X{1,2}(?:I|IV|V)")


@rule(rf"(?P<word>{_WORD})\.(?![{_LATIN}\d])")
def _abbreviation(match: re.Match[str], reader: Reader) -> Said | None:
    return _expanded(match["word"], match, reader)


@rule(r"(?P<letters>(?:[A-Za-z]\.){1,}[A-Za-z]|Ph\.D)\.?(?P<own>'s)?(?![A-Za-z\d])")
def _dotted(match: re.Match[str], reader: Reader) -> Said | None:
    letters = match["letters"].replace(".", "").upper()
    spelled = (*letters[:-1], letters[-1] + (match["own"] or ""))
    return _expanded(match["letters"], match, reader) or Said(spelled, _closing(match, reader))


def _expanded(word: str, match: re.Match[str], reader: Reader) -> Said | None:
    expanded = read_abbreviation(word, reader.word_before(match), reader.after(match))
    return None if expanded is None else Said(tuple(expanded.split()), _closing(match, reader))


def _closing(match: re.Match[str], reader: Reader) -> str:
    """An abbreviation's full stop ends the sentence too if nothing follows."""
    return "" if reader.after(match) else "."


@rule(r"(?P<initial>[A-HJ-Z])\.(?=\s?[A-Z])")
def _initial(match: re.Match[str], reader: Reader) -> Said:
    return Said((match["initial"],))


@rule(r"(?P<roman>[IVXLC]{1,7})(?P<own>'s)?(?![\w'])")
def _roman(match: re.Match[str], reader: Reader) -> Said | None:
    value, before = numerals.roman(match["roman"]), reader.word_before(match)
    if value is None or value > 100:
        return None
    if before[:1].isupper() and before.lower() in _REGNAL:
        *head, last = ("the", *numerals.ordinal(str(value)))
    elif (before[:1].isupper() and before.lower() in _COUNTED) or _STANDING_ROMAN.fullmatch(match["roman"]):
        *head, last = numerals.cardinal(str(value))
    else:
        return None
    return Said((*head, last + (match["own"] or "")))


@rule(r"w/o\b|w/(?=\s|\w)")
def _with(match: re.Match[str], reader: Reader) -> Said:
    return Said(("without" if match.group() == "w/o" else "with",))


@rule(r"v(?=\d+\.\d)")
def _version(match: re.Match[str], reader: Reader) -> Said:
    return Said(("version",))


@rule(r"'n'")
def _n(match: re.Match[str], reader: Reader) -> Said:
    return Said(("and",))


@rule(r"(?:[Ww]i-[Ff]i|[Ee]-mail|[Cc]\+\+|[CF]#)(?!\w)")
def _fixed(match: re.Match[str], reader: Reader) -> Said:
    return Said(read_word(match.group(), reader.known))


@rule(r"(?P<left>[A-Z]{1,3})&(?P<right>[A-Z]{1,3})\b")
def _and_company(match: re.Match[str], reader: Reader) -> Said:
    return Said((*match["left"], "and", *match["right"]))


@rule(r"(?P<letter>[A-Z])(?![\w'])")
def _letter(match: re.Match[str], reader: Reader) -> Said | None:
    """A capital alone is a letter, except the pronoun and the article."""
    letter = match["letter"]
    if letter == "I" and match.string[match.end() :][:1] not in (")", ":", "/"):
        return None
    before = reader.word_before(match)
    if letter == "A" and reader.after(match).isalnum() and before.lower() not in _LETTERED:
        return None if reader.shouted or not before.islower() else Said(("A",))
    return Said((letter,))


@rule(rf"(?P<word>{_WORD})")
def _word(match: re.Match[str], reader: Reader) -> Said:
    word = match["word"]
    if len(word) == 1 and word.islower() and (word != "a" or reader.code):
        return Said((word.upper(),))
    return Said(read_word(word, reader.known, shouted=reader.shouted))


@rule(r"(?P<run>[^\W\d_]+)")
def _foreign(match: re.Match[str], reader: Reader) -> Said:
    return Said(romanise(match["run"]))


RULES: Final[tuple[Rule, ...]] = (
    _dotted,
    _initial,
    _abbreviation,
    _roman,
    _with,
    _version,
    _n,
    _fixed,
    _and_company,
    _letter,
    _word,
    _foreign,
)
