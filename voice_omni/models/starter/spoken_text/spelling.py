"""How single words are said: as a word, letter by letter, or part by part."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from voice_omni.models.starter.spoken_text import numerals
from voice_omni.models.starter.spoken_text.numerals import Words
from voice_omni.models.starter.spoken_text.reading import Known
from voice_omni.models.starter.spoken_text.tables import listed

_SPELLED: Final = frozenset(
    listed(
        "us uk eu un ai it tv pc id am pm hr pr vr ar ui ux os ip io cd dj vip faq ceo cto cfo usa api url usb cpu gpu "
        "ide sdk llm gpt seo iot diy asap rsvp eta aka est pst cst edt pdt cet phd"
    )
)
"""Initialisms that have a vowel or also spell a word."""

_SPELLED_IN_ANY_CASE: Final = _SPELLED - frozenset(listed("us it am pm id hr pr ar un io os est"))

_RESPELLED: Final = {
    "ok": ("okay",),
    "asap": ("A", "S", "A", "P"),
    "json": ("jason",),
    "wwi": ("world", "war", "one"),
    "wwii": ("world", "war", "two"),
    "mr": ("mister",),
    "mrs": ("missus",),
    "dr": ("doctor",),
    "prof": ("professor",),
    "etc": ("et", "cetera"),
    "phds": ("P", "H", "D's"),
    "sql": ("S", "Q", "L"),
    "vs": ("versus",),
    "wi-fi": ("wifi",),
    "e-mail": ("email",),
    "c++": ("C", "plus", "plus"),
    "c#": ("C", "sharp"),
    "f#": ("F", "sharp"),
}

_SPECIAL: Final = dict(zip("ßæÆœŒøØłŁđðþı", listed("ss ae Ae oe Oe o O l L d th th i"), strict=True))
_PARTS: Final = re.compile(r"[A-Z]+s?(?![a-z])|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z']+|\d+")
_VOWELS: Final = frozenset("aeiouy")
_LONGEST_INITIALISM: Final = 5
_LONGEST_CODE: Final = 3
_CONTRACTED: Final = frozenset(("s", "re", "ve", "ll", "d", "m"))


def plain_letters(word: str) -> str:
    """Without diacritics and ligatures: ``"Café"`` is ``"Cafe"``."""
    decomposed = unicodedata.normalize("NFKD", word)
    return "".join(_SPECIAL.get(letter, letter) for letter in decomposed if not unicodedata.combining(letter))


def read_word(word: str, known: Known, *, shouted: bool = False) -> Words:
    """A run of letters, digits, apostrophes and underscores as words.

    ``shouted``: the text around is in capitals, so that capitals say nothing about this word.
    """
    word = plain_letters(word).strip("'_")
    if word in ("A", "O"):
        return (word.lower(),)
    low = word.lower()
    if low in _RESPELLED:
        return _RESPELLED[low]
    if low in _SPELLED_IN_ANY_CASE or (word.isupper() and not shouted and _is_initialism(low, known)):
        return tuple(low.upper())
    if known(low):
        return (low,)
    stem, mark, suffix = word.rpartition("'")
    if mark and suffix.lower() in _CONTRACTED and stem:
        *head, last = read_word(stem, known, shouted=shouted) or ("",)
        return (*head, f"{last}'{suffix.lower()}")
    parts = [word] if shouted else _PARTS.findall(word)
    code = any(part.isdigit() for part in parts)
    if code and parts[-1] == "s" and parts[-2].isdigit():  # "MP4s"
        parts[-2:] = [parts[-2], "'s"]
    said: list[str] = []
    for part in parts:
        if part == "'s" and said:
            said[-1] += part
        else:
            said += _read_part(part, known, code)
    return tuple(said)


def _read_part(part: str, known: Known, code: bool) -> Words:
    """``code``: the part stands in a code with digits, such as MP3 or CO2."""
    if part.isdigit():
        if len(part) == 4 and part[:2] in ("19", "20"):
            return numerals.year(part)
        return numerals.cardinal(part) if len(part) <= 2 else numerals.digits(part)
    if part[:-1].isupper() and len(part) > 2 and part.endswith("s"):  # "APIs"
        return (*part[:-2], f"{part[-2]}'s")
    low = part.lower()
    if len(part) == 1:
        return (part.upper(),)
    if low in _RESPELLED:
        return _RESPELLED[low]
    if part.isupper() and (_is_initialism(low, known) or (code and len(part) <= _LONGEST_CODE)):
        return tuple(part)
    if known(low):
        return (low,)
    letters = low.replace("'", "")
    if len(letters) <= _LONGEST_INITIALISM and not _VOWELS & set(letters):
        return tuple(letters.upper())
    return (_shortened(low, known),)


def _is_initialism(low: str, known: Known) -> bool:
    if low in _SPELLED:
        return True
    return low.isalpha() and not known(low) and (len(low) <= _LONGEST_INITIALISM or not _VOWELS & set(low))


def _shortened(low: str, known: Known) -> str:
    """A drawn-out word as the word it stands for: ``"sooo"`` is so, ``"goood"`` is good."""
    low = re.sub(r"(.)\1{2,}$", r"\1", low)
    twice = re.sub(r"(.)\1{2,}", r"\1\1", low)
    return twice if known(twice) else re.sub(r"(.)\1{2,}", r"\1", low)
