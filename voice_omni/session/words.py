"""What words tell about a turn: whether it repeats the answer that was playing, or only says that somebody listens."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

_WORD: Final = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_MIN_ECHO: Final = 3
"""Fewer words than this are repeated by people too often to be taken for an echo."""


def words_of(text: str) -> tuple[str, ...]:
    """Lower-case words, without punctuation."""
    return tuple(_WORD.findall(text.lower()))


_BACKCHANNELS: Final = frozenset(
    words_of(
        "mm mmm mhm mm-hm mm-hmm uh-huh uhuh huh hm hmm ah aha oh uh um er yeah yep yes ok okay right sure exactly "
        "really wow cool nice good great true absolutely indeed"
    )
)
_BACKCHANNEL_PHRASES: Final = frozenset({"i see", "got it", "of course", "go on", "uh huh", "mm hm", "mm hmm", "m hm"})


def is_backchannel(words: tuple[str, ...]) -> bool:
    """Whether the words show attention and ask for nothing; no words at all do not."""
    rest = list(words)
    while rest:
        if " ".join(rest[:2]) in _BACKCHANNEL_PHRASES:
            del rest[:2]
        elif rest[0] in _BACKCHANNELS:
            del rest[0]
        else:
            return False
    return bool(words)


def is_echo(words: tuple[str, ...], spoken: tuple[str, ...], similarity: float) -> bool:
    """Whether at least this share of ``words`` stands in pairs that were ``spoken``.

    A word that was misheard breaks only its own two pairs.
    """
    if len(words) < _MIN_ECHO:
        return False
    pairs = set(pairwise(spoken))
    same = [pair in pairs for pair in pairwise(words)]
    covered = sum(before or after for before, after in pairwise([False, *same, False]))
    return covered >= similarity * len(words)
