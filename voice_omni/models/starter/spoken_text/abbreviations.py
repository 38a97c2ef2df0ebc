"""Abbreviations that are written with a full stop: how they are read, and whether a sentence can end with them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

TITLES: Final[Mapping[str, str]] = {
    "dr": "doctor",
    "mr": "mister",
    "mrs": "missus",
    "ms": "miz",
    "messrs": "messieurs",
    "prof": "professor",
    "rev": "reverend",
    "hon": "honorable",
    "gen": "general",
    "col": "colonel",
    "maj": "major",
    "capt": "captain",
    "lt": "lieutenant",
    "sgt": "sergeant",
    "gov": "governor",
    "sen": "senator",
    "rep": "representative",
    "pres": "president",
    "fr": "father",
    "mt": "mount",
    "ft": "fort",
}
"""Before a name."""

NUMBERED: Final[Mapping[str, str]] = {
    "no": "number",
    "nos": "numbers",
    "fig": "figure",
    "figs": "figures",
    "eq": "equation",
    "sec": "section",
    "ch": "chapter",
    "vol": "volume",
    "art": "article",
    "p": "page",
    "pp": "pages",
    "ext": "extension",
    "apt": "apartment",
    "rm": "room",
    "ca": "circa",
}
"""Before a digit."""

INTRODUCING: Final[Mapping[str, str]] = {
    "e.g": "for example",
    "eg": "for example",
    "i.e": "that is",
    "ie": "that is",
    "vs": "versus",
    "viz": "namely",
    "cf": "compare",
    "approx": "approximately",
    "tel": "telephone",
    "incl": "including",
}
"""Before what they introduce; no sentence ends after them."""

CLOSING: Final[Mapping[str, str]] = {
    "etc": "et cetera",
    "inc": "incorporated",
    "ltd": "limited",
    "corp": "corporation",
    "co": "company",
    "bros": "brothers",
    "jr": "junior",
    "sr": "senior",
    "esq": "esquire",
    "dept": "department",
    "est": "established",
    "assn": "association",
    "univ": "university",
    "ave": "avenue",
    "blvd": "boulevard",
    "rd": "road",
    "hwy": "highway",
    "al": "al",
    "a.m": "A M",
    "p.m": "P M",
    "ph.d": "P H D",
}
"""A sentence may end after them: it does if a capital follows."""

MONTHS: Final[Mapping[str, str]] = {
    "jan": "january",
    "feb": "february",
    "mar": "march",
    "apr": "april",
    "jun": "june",
    "jul": "july",
    "aug": "august",
    "sep": "september",
    "sept": "september",
    "oct": "october",
    "nov": "november",
    "dec": "december",
}

DAYS: Final[Mapping[str, str]] = {
    "mon": "monday",
    "tue": "tuesday",
    "tues": "tuesday",
    "wed": "wednesday",
    "thu": "thursday",
    "thur": "thursday",
    "thurs": "thursday",
    "fri": "friday",
    "sat": "saturday",
    "sun": "sunday",
}

_OPENERS: Final = "\"'“‘«([{*_`~#"
_DOTTED: Final = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")


def read_abbreviation(word: str, previous: str, following: str) -> str | None:
    """How a word that is followed by a full stop is read if it is an abbreviation, else None.

    ``previous`` is the word before it, ``following`` the next visible character after the full stop ("" at the end).
    """
    low = word.lower()
    if low in TITLES and following.isupper() and word[0].isupper():
        return TITLES[low]
    if low in NUMBERED and following.isdigit():
        return NUMBERED[low]
    if low in INTRODUCING:
        return INTRODUCING[low]
    if low in CLOSING:
        return CLOSING[low]
    if low == "st":
        return "saint" if following.isupper() and not _is_name(previous) else "street"
    if low in MONTHS and word[0].isupper() and (following.isdigit() or previous[:1].isdigit()):
        return MONTHS[low]
    if low in DAYS and word[0].isupper() and following in tuple(",0123456789"):
        return DAYS[low]
    return None


def continues_sentence(word: str, previous: str, following: str) -> bool:
    """Whether the sentence goes on after a word that ends in a full stop.

    ``following`` is the next visible character; only a capital, a digit or a sign can begin a sentence.
    """
    if following.islower():
        return True
    name = word.lstrip(_OPENERS).rstrip(".")
    if name.lower() in CLOSING or (name.lower() == "st" and _is_name(previous)):
        return not following.isupper()
    if len(name) == 1 and name.isupper():
        # "J. Smith" and "John F. Kennedy" against "vitamin C. Then" and "so do I. Then".
        return following.isupper() and name != "I" and (not previous or previous[0].isupper())
    if _DOTTED.fullmatch(name):
        return following.isupper()
    return read_abbreviation(name, previous, following) is not None


def _is_name(word: str) -> bool:
    return word[:1].isupper() and word.lower() not in (
        "in",
        "the",
        "at",
        "near",
        "from",
        "to",
        "and",
        "of",
        "saint",
        "st",
    )
