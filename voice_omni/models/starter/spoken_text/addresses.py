"""Rules for web addresses, e-mail addresses, file names and handles: read as people dictate them."""

from __future__ import annotations

import re
from typing import Final

from voice_omni.models.starter.spoken_text import numerals
from voice_omni.models.starter.spoken_text.numerals import Words
from voice_omni.models.starter.spoken_text.reading import Reader, Rule, Said, rule
from voice_omni.models.starter.spoken_text.spelling import read_word
from voice_omni.models.starter.spoken_text.tables import listed

_COMMON_DOMAINS: Final = "com|org|net|edu|gov|io|ai"
_DOMAINS: Final = f"{_COMMON_DOMAINS}|co|dev|app|info|me|tv|uk|us|de|fr|eu|ca|au|jp|cn|in|ch|nl|it|es|se|br"
_FILE_ENDINGS: Final = (
    "py|js|ts|rs|go|md|txt|pdf|csv|json|yaml|yml|toml|html|css|xml|png|jpe?g|gif|svg|wav|mp3|mp4|zip|exe|sh|docx?|xlsx?"
)
_SPELLED: Final = frozenset(listed("uk us eu de fr ca au jp cn in ch nl it es se br py js ts rs md xls xlsx doc docx"))
_RESPELLED: Final = {
    "jpg": ("jay", "peg"),
    "jpeg": ("jay", "peg"),
    "exe": ("E", "X", "E"),
    "wav": ("wave",),
    "yml": ("Y", "M", "L"),
    "www": ("W", "W", "W"),
}
_SIGNS: Final = {
    ".": ("dot",),
    "/": ("slash",),
    "-": ("dash",),
    "_": ("underscore",),
    "@": ("at",),
    ":": ("colon",),
    "?": ("question", "mark"),
    "=": ("equals",),
    "&": ("and",),
    "#": ("hash",),
    "%": ("percent",),
    "+": ("plus",),
    "~": ("tilde",),
}
_PIECE: Final = re.compile(r"[^\W\d_]+|\d+|[^\w\s]|_")
_TRAILING: Final = ".,;:!?*_~"


def dictate(text: str, reader: Reader) -> Words:
    """Every part by its name: ``example.com/a-b`` is example dot com slash a dash b."""
    words: list[str] = []
    after_dot = False
    for piece in _PIECE.findall(text):
        low = piece.lower()
        if piece.isdigit():
            words += numerals.cardinal(piece) if len(piece) <= 2 else numerals.digits(piece)
        elif low in _RESPELLED:
            words += _RESPELLED[low]
        elif len(low) == 1 or (after_dot and low in _SPELLED):
            words += _SIGNS.get(low, tuple(low.upper()) if low.isalpha() else ())
        else:
            words += read_word(piece, reader.known)
        after_dot = piece == "."
    return tuple(words)


def _address(text: str, reader: Reader) -> Said:
    bare = text.rstrip(_TRAILING)
    return Said(dictate(bare.removeprefix("www.").rstrip("/"), reader))


@rule(r"(?:https?|ftp)://(?P<address>[^\s<>\"'`\])}|]*[^\s<>\"'`\])}|.,;:!?*_~])", re.IGNORECASE)
def _url(match: re.Match[str], reader: Reader) -> Said:
    return _address(match["address"], reader)


@rule(r"(?:mailto:)?(?P<address>[\w.+-]+@[\w-]+(?:\.[\w-]+)+)")
def _email(match: re.Match[str], reader: Reader) -> Said:
    return _address(match["address"], reader)


@rule(
    rf"(?<![\w@.-])(?P<host>(?:[a-z0-9](?:[\w-]*[a-z0-9])?\.)+(?P<domain>{_DOMAINS}))(?![\w-]|\.\w)"
    r"(?P<path>[/?#][\w./?=&#%~+:-]*[\w/=])?",
    re.IGNORECASE,
)
def _domain(match: re.Match[str], reader: Reader) -> Said | None:
    host = match["host"]
    if match["domain"] not in _COMMON_DOMAINS.split("|") and not (host.islower() and (match["path"] or len(host) > 5)):
        return None  # "sure.It works": a missing space, not an address
    return _address(match.group(), reader)


@rule(rf"(?<![\w.])(?P<name>[\w-]+(?:\.[\w-]+)*\.(?:{_FILE_ENDINGS}))(?![\w-])", re.IGNORECASE)
def _file(match: re.Match[str], reader: Reader) -> Said:
    return Said(dictate(match["name"], reader))


@rule(r"(?<![\w./])(?P<path>(?:~|\.{1,2})?(?:/[\w.-]*[\w-]){2,}/?|~/[\w.-]*\w)")
def _path(match: re.Match[str], reader: Reader) -> Said:
    return Said(dictate(match["path"], reader))


@rule(r"(?<!\w)(?P<sign>[@#])(?P<name>[^\W\d]\w+)")
def _handle(match: re.Match[str], reader: Reader) -> Said:
    return Said(("hashtag" if match["sign"] == "#" else "at", *dictate(match["name"], reader)))


RULES: Final[tuple[Rule, ...]] = (_url, _email, _domain, _file, _path, _handle)
