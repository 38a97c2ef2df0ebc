"""Where sentences end in text that is still being written. Pure."""

from __future__ import annotations

import re
from typing import Final

_END: Final = re.compile(r"(\w[\w'’-]*)?[.!?…]+[\"'”’)\]]*\s*$")
_ABBREVIATIONS: Final = frozenset(
    {"mr", "mrs", "ms", "dr", "prof", "st", "jr", "sr", "vs", "etc", "vol", "inc", "approx", "e.g", "i.e", "u.s"}
)


class SentenceEnds:
    """Follows a text piece by piece and tells when a new sentence begins."""

    def __init__(self) -> None:
        self._tail = ""

    def before(self, piece: str) -> bool:
        """Whether the text so far ends a sentence and ``piece``, which is taken in, begins another."""
        ended = piece[:1].isspace() and _ends(self._tail)
        self._tail = (self._tail + piece)[-32:]
        return ended


def _ends(text: str) -> bool:
    match = _END.search(text)
    if match is None:
        return False
    word = (match[1] or "").lower()
    # "1. Boil the water": a list's number, not a sentence. A single letter is an initial.
    return not (word in _ABBREVIATIONS or word.isdigit() or (len(word) == 1 and word != "i"))
