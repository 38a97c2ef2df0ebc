"""Rules for dates, times of day and telephone numbers: digits whose punctuation gives them another meaning."""

from __future__ import annotations

import re
from typing import Final

from voice_omni.models.starter.spoken_text import numerals
from voice_omni.models.starter.spoken_text.abbreviations import DAYS, MONTHS
from voice_omni.models.starter.spoken_text.numerals import Words
from voice_omni.models.starter.spoken_text.reading import PAUSE, Reader, Rule, Said, rule
from voice_omni.models.starter.spoken_text.tables import listed

_MONTH_NAMES: Final = listed("january february march april may june july august september october november december")
_MONTH: Final = (
    rf"(?P<month>(?:{'|'.join(name.capitalize() for name in _MONTH_NAMES)})\b"
    rf"|(?:{'|'.join(name.capitalize() for name in MONTHS)})\b\.?)"
)
_SHORT_NAMES: Final = {**MONTHS, **DAYS}
_SHORT: Final = "|".join(name.capitalize() for name in _SHORT_NAMES)
_DAY: Final = r"(?P<day>[12]\d|3[01]|0?[1-9])"
_YEAR: Final = r"(?P<year>1\d{3}|20\d\d)\b"
_MERIDIEM: Final = r"(?P<half>[aApP]\.?\s?[mM]\b\.?)"


def _month_name(written: str) -> str:
    low = written.rstrip(".").lower()
    return MONTHS.get(low, low)


def _date(month: str, day: str, year: str | None) -> Words:
    return (month, *numerals.ordinal(str(int(day))), *(numerals.year(year) if year else ()))


def _numeric_date(month: str, day: str, year: str) -> Said | None:
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
        return None
    full = year if len(year) == 4 else f"20{year}"
    return Said(_date(_MONTH_NAMES[int(month) - 1], day, full))


@rule(r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)(?:T(?=\d\d:))?(?!\d|-\d)")
def _iso_date(match: re.Match[str], reader: Reader) -> Said | None:
    return _numeric_date(match["month"], match["day"], match["year"])


@rule(r"(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>\d{4}|\d\d)(?![\d/])")
def _slashed_date(match: re.Match[str], reader: Reader) -> Said | None:
    """Month first; day first where only that can be meant."""
    return _numeric_date(match["month"], match["day"], match["year"]) or _numeric_date(
        match["day"], match["month"], match["year"]
    )


@rule(r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})(?![\d.])")
def _dotted_date(match: re.Match[str], reader: Reader) -> Said | None:
    return _numeric_date(match["month"], match["day"], match["year"])


@rule(rf"(?P<first>{_SHORT})\.?\s?[-–]\s?(?P<last>{_SHORT})\b\.?")
def _span(match: re.Match[str], reader: Reader) -> Said:
    return Said((_SHORT_NAMES[match["first"].lower()], "to", _SHORT_NAMES[match["last"].lower()]))


@rule(rf"{_MONTH}\s{_DAY}(?:st|nd|rd|th)?\b(?!:|\.\d|,\d{{3}}|/|%)(?:,?\s{_YEAR})?")
def _month_day(match: re.Match[str], reader: Reader) -> Said:
    return Said(_date(_month_name(match["month"]), match["day"], match["year"]))


@rule(rf"{_DAY}(?:st|nd|rd|th)?\s(?:of\s)?{_MONTH}(?:,?\s{_YEAR})?")
def _day_month(match: re.Match[str], reader: Reader) -> Said | None:
    if match["month"] == "May" and not match["year"] and reader.after(match).islower():
        return None  # "the 5 May be": a verb
    month = _month_name(match["month"])
    year = numerals.year(match["year"]) if match["year"] else ()
    article = () if reader.word_before(match).lower() == "the" else ("the",)
    return Said((*article, *numerals.ordinal(str(int(match["day"]))), "of", month, *year))


@rule(rf"{_MONTH}\s{_YEAR}")
def _month_year(match: re.Match[str], reader: Reader) -> Said:
    return Said((_month_name(match["month"]), *numerals.year(match["year"])))


@rule(rf"(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d)(?:\.\d+)?)?(?![\d:])(?:\s?{_MERIDIEM})?")
def _time(match: re.Match[str], reader: Reader) -> Said:
    hour, minute, second, half = match["hour"], match["minute"], match["second"], match["half"]
    words: Words = numerals.cardinal(str(int(hour)))
    if int(minute) >= 10:
        words = (*words, *numerals.cardinal(minute))
    elif int(minute):
        words = (*words, "oh", *numerals.cardinal(minute[1]))
    elif not half and not second:
        words = (*words, *(("o'clock",) if 1 <= int(hour) <= 12 else ("hundred",)))
    if second:
        seconds = numerals.cardinal(str(int(second)))
        words = (*words, "and", *seconds, "second" if seconds == ("one",) else "seconds")
    return Said((*words, *_meridiem(half)))


@rule(rf"(?P<hour>1[0-2]|0?[1-9])\s?{_MERIDIEM}")
def _hour(match: re.Match[str], reader: Reader) -> Said:
    return Said((*numerals.cardinal(str(int(match["hour"]))), *_meridiem(match["half"])))


def _meridiem(half: str | None) -> Words:
    return (half[0].upper(), "M") if half else ()


@rule(
    r"(?:(?P<country>\+\d{1,3}|1)[\s.-]?)?"
    r"(?:\((?P<area>\d{3})\)\s?|(?P<area2>\d{3})[\s.-])(?P<exchange>\d{3})[\s.-](?P<line>\d{4})(?!\d|[.-]\d)"
    r"|(?P<exchange2>\d{3})-(?P<line2>\d{4})(?!\d|-\d)"
    r"|(?P<emergency>911)(?![\d.,]\d|\w)"
    r"|\+(?P<other>\d[\d\s().-]{6,17}\d)(?!\d)"
)
def _telephone(match: re.Match[str], reader: Reader) -> Said:
    groups = [
        group for group in match.group("country", "area", "area2", "exchange", "line", "exchange2", "line2") if group
    ]
    if match["other"]:
        groups = re.findall(r"\d+", match["other"])
    plus = ("plus",) if match.group().startswith("+") else ()
    if match["emergency"]:
        groups = [match["emergency"]]
    first, *others = (numerals.digits(group) for group in groups)
    return Said((*plus, *first, *(word for group in others for word in (PAUSE, *group))))


RULES: Final[tuple[Rule, ...]] = (
    _iso_date,
    _slashed_date,
    _dotted_date,
    _span,
    _month_day,
    _day_month,
    _month_year,
    _telephone,
    _time,
    _hour,
)
