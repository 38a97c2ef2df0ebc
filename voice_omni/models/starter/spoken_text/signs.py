"""Rules for the signs between words and for punctuation."""

from __future__ import annotations

import re
from typing import Final

from voice_omni.models.starter.spoken_text.reading import Reader, Rule, Said, rule

_SIGNS: Final = {
    "&": "and",
    "&&": "and",
    "+": "plus",
    "=": "equals",
    "==": "equals",
    "@": "at",
    "%": "percent",
    "°": "degrees",
    "<": "is less than",
    ">": "is greater than",
    "<=": "is at most",
    "≤": "is at most",
    ">=": "is at least",
    "≥": "is at least",
    "!=": "is not equal to",
    "≠": "is not equal to",
    "≈": "is about",
    "~": "about",
    "±": "plus or minus",
    "×": "times",
    "·": "times",
    "÷": "divided by",
    "√": "square root of",
    "∞": "infinity",
    "->": "to",
    "=>": "to",
    "→": "to",
    "⇒": "implies",
    "€": "euros",
    "$": "dollars",
    "£": "pounds",
    "¥": "yen",
    "©": "copyright",
    "§": "section",
    "²": "squared",
    "³": "cubed",
    "^": "to the power of",
}
_SIGN_PATTERN: Final = "|".join(sorted(map(re.escape, _SIGNS), key=len, reverse=True))
_ARITHMETIC: Final = {"*": "times", "/": "divided by", "-": "minus", "−": "minus", "–": "minus"}
_FORMULA_WORDS: Final = {
    **dict.fromkeys(
        ("frac", "dfrac", "left", "right", "text", "mathrm", "mathbf", "boxed", "quad", "begin", "end"), ""
    ),
    **dict.fromkeys(("times", "cdot"), "times"),
    **dict.fromkeys(("leq", "le"), "is at most"),
    **dict.fromkeys(("geq", "ge"), "is at least"),
    **dict.fromkeys(("neq", "ne"), "is not equal to"),
    **dict.fromkeys(("to", "rightarrow"), "to"),
    **{"approx": "is about", "sqrt": "square root of", "div": "divided by", "pm": "plus or minus", "infty": "infinity"},
}
_ENTITIES: Final = {"amp": "and", "lt": "is less than", "gt": "is greater than"}


@rule(r"\\(?P<name>[A-Za-z]+)|\}\{")
def _formula(match: re.Match[str], reader: Reader) -> Said:
    """Of LaTeX what can be said without parsing it: ``\\frac{1}{2}`` is one over two."""
    name = match["name"]
    if name is None:
        return Said(("over",))
    return Said(tuple(_FORMULA_WORDS.get(name, name).split()))


@rule(r"(?P<stops>[.!?…。！？]+)")
def _full_stop(match: re.Match[str], reader: Reader) -> Said:
    stops = match["stops"].replace("？", "?").replace("！", "!")
    if reader.code and stops == ".":
        return Said()
    for mark in "?!":
        if mark in stops:
            return Said(stop=mark)
    trailing_off = ("…" in stops or ".." in stops) and reader.after(match).islower()
    return Said(stop="," if trailing_off else ".")


@rule(r"[,，、;；]|[:：](?!\d)|—|--+|(?<=\s)[-–](?=\s)|[()\[\]{}|]")
def _pause(match: re.Match[str], reader: Reader) -> Said:
    if reader.code:
        return Said()
    return Said(stop={";": ";", "；": ";", ":": ":", "：": ":"}.get(match.group(), ","))


@rule(r"#(?=\s?\d)")
def _number_sign(match: re.Match[str], reader: Reader) -> Said:
    return Said(("number",))


@rule(r"(?<=[\d)])(?P<gap>\s?)(?P<sign>[*/−–-])(?P=gap)(?=[\d(])")
def _arithmetic(match: re.Match[str], reader: Reader) -> Said:
    return Said(tuple(_ARITHMETIC[match["sign"]].split()))


@rule(r"(?<=\s)/(?=\s)")
def _or(match: re.Match[str], reader: Reader) -> Said:
    return Said(("or",))


@rule(r"(?<=\w)[–—-](?=\d)|(?<=\w)–(?=\w)|(?<=\d):(?=\d)")
def _to(match: re.Match[str], reader: Reader) -> Said:
    """Ranges and ratios; a hyphen between a name and its number (COVID-19) is silent."""
    silent = match.group() == "-" and not _ends_in_time(match)
    return Said(() if silent else ("to",))


def _ends_in_time(match: re.Match[str]) -> bool:
    before = match.string[: match.start()]
    return re.search(r"(?<![\w.-])\d[\d:.,]*(?:\s?[ap]\.?m\.?)?$", before, re.IGNORECASE) is not None


@rule(r"(?<=\w)/(?=\w)")
def _slash(match: re.Match[str], reader: Reader) -> Said:
    before = re.split(r"[\s/]", match.string[: match.start()])[-1]
    after = re.split(r"[\s/]", match.string[match.end() :])[0].strip(".,;:!?)")
    silent = {before.lower(), after.lower()} == {"and", "or"} or (before.isupper() and after.isupper())
    return Said(() if silent else ("slash",))


@rule(r"&(?P<name>\w+);")
def _entity(match: re.Match[str], reader: Reader) -> Said:
    return Said(tuple(_ENTITIES.get(match["name"], "").split()))


@rule(rf"(?P<sign>{_SIGN_PATTERN})")
def _sign(match: re.Match[str], reader: Reader) -> Said | None:
    sign = match["sign"]
    if sign in "$€£¥~" and re.match(r"\s", match.string[match.end() :]) is None and not reader.after(match).isdigit():
        return None
    if sign == "^" and not re.search(r"[\w)}]$", match.string[: match.start()]):
        return None
    return Said(tuple(_SIGNS[sign].split()))


RULES: Final[tuple[Rule, ...]] = (
    _formula,
    _entity,
    _full_stop,
    _number_sign,
    _to,
    _arithmetic,
    _or,
    _pause,
    _slash,
    _sign,
)
