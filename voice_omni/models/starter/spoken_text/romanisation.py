"""Writing that is not Latin: by its sound where a letter has one, by its name where not."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from voice_omni.models.starter.spoken_text.numerals import Words
from voice_omni.models.starter.spoken_text.tables import listed

_BY_SOUND: Final = frozenset(("HIRAGANA", "KATAKANA", "HANGUL", "DEVANAGARI", "BENGALI", "TAMIL", "TELUGU", "GUJARATI"))
"""Scripts whose letters' Unicode names end in their sound."""

_LETTERS: Final = {
    **dict(zip("абвгдезийклмнопрстуфцыэіґ", listed("a b v g d e z i y k l m n o p r s t u f ts i e i g"), strict=True)),
    **dict(zip("ёжхчшщюяїє", listed("yo zh kh ch sh shch yu ya yi ye"), strict=True)),
    **{"ъ": "", "ь": ""},
    **dict(
        zip("αβγδεζηθικλμνξοπρσςτυφχψω", listed("a v g d e z i th i k l m n x o p r s s t i f h ps o"), strict=True)
    ),
}


def romanise(run: str) -> Words:
    """``"Привет"`` is privet, ``"안녕"`` annyeong, ``"π"`` pi; ideographs, which have no one sound, are announced."""
    if len(run) == 1 and (name := unicodedata.name(run, "").split())[:1] == ["GREEK"]:
        return (name[3].lower(),)
    parts: list[str] = []
    for letter in unicodedata.normalize("NFC", run):
        part = _sound(letter)
        if not (part.startswith(" ") and parts[-1:] == [part]):
            parts.append(part)
    return tuple(re.sub(r"[^a-z ]", "", "".join(parts)).split())


def _sound(letter: str) -> str:
    base = unicodedata.normalize("NFD", letter)[0].lower()
    if (letter_sound := _LETTERS.get(letter.lower(), _LETTERS.get(base))) is not None:
        return letter_sound
    name = unicodedata.name(letter, "").split()
    if not name:
        return ""
    if name[-1] in ("MARK", "VIRAMA"):
        return ""
    if name[0] == "CJK":
        return " chinese characters "
    return name[-1].lower() if name[0] in _BY_SOUND else f" {name[-1].lower()} "
