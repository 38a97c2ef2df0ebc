"""Rules for amounts: money, measures, and plain numbers of every form."""

from __future__ import annotations

import re
from typing import Final

from voice_omni.models.starter.spoken_text import numerals
from voice_omni.models.starter.spoken_text.numerals import Words
from voice_omni.models.starter.spoken_text.reading import Reader, Rule, Said, rule
from voice_omni.models.starter.spoken_text.tables import listed
from voice_omni.models.starter.spoken_text.units import CURRENCIES, UNITS, Currency

NUMBER: Final = r"(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?!\d|,\d{3}(?!\d)|\.\d)"
"""An unsigned number with optional thousands separators and decimals; it does not stop inside a longer one."""

_SIGN: Final = r"(?P<sign>(?<![\w.)\]])[-−–](?=[\d.$€£¥]))?"
_LOW: Final = rf"(?:(?P<low>{NUMBER})\s?[-–—]\s?)?"
_SCALE: Final = r"(?:\s?(?P<scale>thousand|million|billion|trillion|bn|[kmbKMBT])\b)?"
_SCALES: Final = {"k": "thousand", "m": "million", "b": "billion", "bn": "billion", "t": "trillion"}
_FRACTIONS: Final = dict(
    zip("½⅓⅔¼¾⅕⅖⅗⅘⅛⅜⅝⅞", listed("1/2 1/3 2/3 1/4 3/4 1/5 2/5 3/5 4/5 1/8 3/8 5/8 7/8"), strict=True)
)
_SUPERSCRIPTS: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_YEAR_CONTEXT: Final = frozenset(
    listed(
        "in since by from until till before after of year during around circa to and late early mid summer winter "
        "spring autumn fall copyright between through"
    )
)
_CODES: Final = frozenset(("pin", "zip", "code", "passcode", "password", "extension", "id"))
_UNIT_NAMES: Final = "|".join(sorted(map(re.escape, UNITS), key=len, reverse=True))


_PER: Final = rf"(?P<per>/(?:(?P<per_unit>{_UNIT_NAMES})(?!\w)|(?=[a-z])))?"


def _signed(match: re.Match[str]) -> Words:
    return ("minus",) if match["sign"] else ()


def _low(match: re.Match[str]) -> Words:
    return (*numerals.decimal(match["low"]), "to") if match["low"] else ()


def _scale(text: str | None) -> Words:
    return (_SCALES.get(text.lower(), text.lower()),) if text else ()


def money(currency: Currency, number: str, scale: Words = ()) -> Words:
    """``("$", "3.50")`` is three dollars and fifty cents, ``("$", "1.2", "million")`` one point two million dollars."""
    whole, _, part = number.replace(",", "").partition(".")
    if scale or len(part) not in (0, 2) or (part and not currency.parts):
        return (*numerals.decimal(number), *scale, currency.many)
    words: Words = ()
    if int(whole or "0") or not int(part or "0"):
        words = (*numerals.cardinal(whole or "0"), currency.one if whole == "1" else currency.many)
    if int(part or "0"):
        joint = ("and",) if words else ()
        words = (*words, *joint, *numerals.cardinal(str(int(part))), currency.part if part == "01" else currency.parts)
    return words


def _per(match: re.Match[str]) -> Words:
    unit = match["per_unit"]
    return ("per", *(UNITS[unit].one.split() if unit else ())) if match["per"] else ()


@rule(
    rf"{_SIGN}(?P<currency>US\$|[$€£¥₹₩])\s?(?:(?P<low>{NUMBER})\s?[-–—]\s?[$€£¥₹₩]?)?(?P<number>{NUMBER}){_SCALE}"
    rf"{_PER}"
)
def _money_before(match: re.Match[str], reader: Reader) -> Said:
    amount = money(CURRENCIES[match["currency"]], match["number"], _scale(match["scale"]))
    return Said((*_signed(match), *_low(match), *amount, *_per(match)))


@rule(
    rf"{_SIGN}{_LOW}(?P<number>{NUMBER}|\d+,\d\d(?!\d)){_SCALE}\s?(?P<currency>[€£¥₹₩¢]|(?:USD|EUR|GBP|JPY)\b)"
    rf"{_PER}"
)
def _money_after(match: re.Match[str], reader: Reader) -> Said:
    number = re.sub(r",(?=\d\d$)", ".", match["number"])
    amount = money(CURRENCIES[match["currency"]], number, _scale(match["scale"]))
    return Said((*_signed(match), *_low(match), *amount, *_per(match)))


@rule(rf"{_SIGN}{_LOW}(?P<number>{NUMBER})(?P<gap>[\s-]?)(?P<unit>{_UNIT_NAMES})(?![\w²³])")
def _measure(match: re.Match[str], reader: Reader) -> Said | None:
    unit = UNITS[match["unit"]]
    if match["gap"] == " " and unit.touching:
        return None
    one = match["gap"] == "-" or (match["number"] == "1" and not match["low"])
    name = unit.one if one else unit.many
    return Said((*_signed(match), *_low(match), *numerals.decimal(match["number"]), *name.split()))


@rule(r"(?P<feet>\d)(?:['′]|\s?ft\.?\s)(?P<inches>\d{1,2})(?:[\"″”]|''|\s?in\b)?(?!\w)")
def _height(match: re.Match[str], reader: Reader) -> Said:
    return Said((*numerals.cardinal(match["feet"]), "foot", *numerals.cardinal(match["inches"])))


@rule(r"(?P<number>\d{1,3}(?:,\d{3})+|\d+)(?:st|nd|rd|th)\b", re.IGNORECASE)
def _ordinal(match: re.Match[str], reader: Reader) -> Said:
    return Said(numerals.ordinal(match["number"]))


@rule(r"['’]?(?P<decade>(?:1\d|20)\d0|[1-9]0)['’]?s\b")
def _decade(match: re.Match[str], reader: Reader) -> Said:
    return Said(numerals.decade(match["decade"]))


@rule(rf"(?:(?P<whole>\d+)\s?)?(?P<vulgar>[{''.join(_FRACTIONS)}])")
def _vulgar_fraction(match: re.Match[str], reader: Reader) -> Said:
    return Said(_mixed(match["whole"], *_FRACTIONS[match["vulgar"]].split("/")))


@rule(r"(?:(?P<whole>\d+)\s)?(?P<numerator>\d{1,3})[/⁄](?P<denominator>\d{1,4})(?![\d/])")
def _fraction(match: re.Match[str], reader: Reader) -> Said | None:
    numerator, denominator = match["numerator"], match["denominator"]
    if int(denominator) == 0 or (match["whole"] and int(numerator) >= int(denominator)):
        return None
    if numerator == denominator and numerator in ("5", "10", "100"):
        return Said((*numerals.cardinal(numerator), "out", "of", *numerals.cardinal(denominator)))
    if numerator == denominator or f"{numerator}/{denominator}" in ("24/7", "9/11"):
        return Said((*numerals.cardinal(numerator), *numerals.cardinal(denominator)))
    return Said(_mixed(match["whole"], numerator, denominator))


def _mixed(whole: str | None, numerator: str, denominator: str) -> Words:
    part = numerals.fraction(numerator, denominator)
    if not whole:
        return part
    return (*numerals.cardinal(whole), "and", *(("a", *part[1:]) if numerator == "1" else part))


@rule(r"(?P<parts>\d+(?:\.\d+){2,})(?!\w)")
def _version(match: re.Match[str], reader: Reader) -> Said:
    first, *others = match["parts"].split(".")
    return Said((*numerals.cardinal(first), *(word for part in others for word in ("point", *numerals.cardinal(part)))))


@rule(
    rf"{_SIGN}(?P<number>{NUMBER})(?:[eE](?P<exponent>[-+]?\d{{1,3}})"
    r"|\s?[x×*]\s?10(?:\^(?P<raised>[-−]?\d{1,3})|(?P<superscript>⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)))"
    rf"(?:\s?(?P<unit>{_UNIT_NAMES}))?(?![\w²³])"
)
def _scientific(match: re.Match[str], reader: Reader) -> Said:
    exponent = match["exponent"] or match["raised"] or match["superscript"].translate(_SUPERSCRIPTS)
    unit = UNITS[match["unit"]].many.split() if match["unit"] else ()
    return Said((*_signed(match), *numerals.decimal(match["number"]), "times", "ten", *_power(exponent), *unit))


@rule(r"(?:\^|(?=[⁰¹⁴-⁹⁻]))(?P<exponent>[-−]?\d+(?!\.\d)|⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)")
def _exponent(match: re.Match[str], reader: Reader) -> Said:
    return Said(_power(match["exponent"].translate(_SUPERSCRIPTS)))


def _power(exponent: str) -> Words:
    if exponent in ("2", "3"):
        return ("squared",) if exponent == "2" else ("cubed",)
    sign = ("minus",) if exponent[0] in "-−" else ()
    return ("to", "the", *sign, *numerals.cardinal(exponent.lstrip("+-−")))


@rule(rf"(?P<low>{NUMBER})(?:\s?[–—]\s?|(?<![^\W\d]-\d)-)(?P<high>{NUMBER})(?![\w-])(?!\s*=)")
def _range(match: re.Match[str], reader: Reader) -> Said:
    return Said((*_plain(match["low"], True), "to", *_plain(match["high"], True)))


@rule(rf"(?P<width>{NUMBER})(?P<gap>\s?)x(?P=gap)(?P<height>{NUMBER})(?!\w)")
def _by(match: re.Match[str], reader: Reader) -> Said:
    return Said((*numerals.decimal(match["width"]), "by", *numerals.decimal(match["height"])))


@rule(rf"{_SIGN}(?P<number>{NUMBER})(?P<scale>k|M|bn)(?!\w)")
def _scaled(match: re.Match[str], reader: Reader) -> Said:
    return Said((*_signed(match), *numerals.decimal(match["number"]), *_scale(match["scale"])))


@rule(rf"{_SIGN}(?P<number>{NUMBER})")
def _number(match: re.Match[str], reader: Reader) -> Said:
    if reader.word_before(match).lower() in _CODES and match["number"].isdigit():
        return Said(numerals.digits(match["number"]))
    return Said((*_signed(match), *_plain(match["number"], reader.word_before(match).lower() in _YEAR_CONTEXT)))


def _plain(number: str, in_year_context: bool) -> Words:
    if number.isdigit() and len(number) == 4:
        value = int(number)
        if 1900 < value < 2100 or (in_year_context and 1100 <= value < 2100):
            return numerals.year(number)
    return numerals.decimal(number)


RULES: Final[tuple[Rule, ...]] = (
    _money_before,
    _money_after,
    _decade,
    _height,
    _measure,
    _ordinal,
    _vulgar_fraction,
    _version,
    _fraction,
    _scientific,
    _exponent,
    _range,
    _by,
    _scaled,
    _number,
)
