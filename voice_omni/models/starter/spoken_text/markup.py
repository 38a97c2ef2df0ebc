"""Rules for Markdown: its marks are heard as structure, not spelled."""

from __future__ import annotations

import re
from typing import Final

from voice_omni.models.starter.spoken_text import numerals
from voice_omni.models.starter.spoken_text.reading import Reader, Rule, Said, rule


def _starts_line(match: re.Match[str], reader: Reader) -> bool:
    head = match.string[: match.start()]
    line = head[head.rfind("\n") + 1 :]
    return not line.strip(" \t>") and ("\n" in head or reader.line_start)


@rule(r"[ \t]*(?:```|~~~)[^\n]*")
def _fence(match: re.Match[str], reader: Reader) -> Said | None:
    return Said() if _starts_line(match, reader) else None


@rule(r"[ \t]*(?:[-*_=][ \t]*){3,}(?=\n|$)")
def _thematic_break(match: re.Match[str], reader: Reader) -> Said | None:
    return Said() if _starts_line(match, reader) else None


@rule(r"[ \t]*(?:#{1,6}[ \t]+|[-*+•‣◦–—][ \t]+(?:\[[ xX]\][ \t]+)?|>+[ \t]?)")
def _block_mark(match: re.Match[str], reader: Reader) -> Said | None:
    return Said() if _starts_line(match, reader) else None


@rule(r"[ \t]*(?P<number>\d{1,3})[.)][ \t]+(?=\S)")
def _list_number(match: re.Match[str], reader: Reader) -> Said | None:
    return Said(numerals.cardinal(match["number"]), ",") if _starts_line(match, reader) else None


@rule(r"\|?(?:[ \t]*:?-{2,}:?[ \t]*\|)+[ \t]*(?:-{2,}:?)?[ \t]*")
def _table_rule(match: re.Match[str], reader: Reader) -> Said | None:
    return Said() if _starts_line(match, reader) else None


@rule(r"!?\[(?=[^\]\n]*\]\([^)\s]*[^)\n]*\))")
def _link_open(match: re.Match[str], reader: Reader) -> Said:
    return Said()


@rule(r"\]\([^)\n]*\)|\]\[[^\]\n]*\]|\[\^?\d+\]")
def _link_target(match: re.Match[str], reader: Reader) -> Said:
    return Said()


@rule(r"</?[A-Za-z][^<>\n]*>|<!--.*?-->")
def _tag(match: re.Match[str], reader: Reader) -> Said | None:
    return None if reader.code else Said()


@rule(r"\*{1,3}(?=\S)|(?<=\S)\*{1,3}(?!\d)|(?<!\w)_{1,3}(?=\w)|(?<=\w)_{1,3}(?!\w)|~~|`+")
def _emphasis(match: re.Match[str], reader: Reader) -> Said | None:
    text = match.string
    if "*" in match.group() and text[match.start() - 1 : match.start()].isalnum() and text[match.end() :][:1].isalnum():
        return None  # a product: "3*4"
    return Said()


RULES: Final[tuple[Rule, ...]] = (
    _fence,
    _thematic_break,
    _table_rule,
    _block_mark,
    _list_number,
    _tag,
    _link_open,
    _link_target,
    _emphasis,
)
