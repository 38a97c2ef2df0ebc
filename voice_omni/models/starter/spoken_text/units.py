"""Names of currencies and units of measure, one and many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from voice_omni.models.starter.spoken_text.numerals import plural


@dataclass(frozen=True, slots=True)
class Currency:
    """``part`` and ``parts`` name the hundredth; a currency without one in use has empty names."""

    one: str
    many: str
    part: str = ""
    parts: str = ""


_DOLLAR: Final = Currency("dollar", "dollars", "cent", "cents")
_EURO: Final = Currency("euro", "euros", "cent", "cents")
_POUND: Final = Currency("pound", "pounds", "penny", "pence")
_YEN: Final = Currency("yen", "yen")

CURRENCIES: Final[Mapping[str, Currency]] = {
    "$": _DOLLAR,
    "US$": _DOLLAR,
    "USD": _DOLLAR,
    "€": _EURO,
    "EUR": _EURO,
    "£": _POUND,
    "GBP": _POUND,
    "¥": _YEN,
    "JPY": _YEN,
    "₹": Currency("rupee", "rupees"),
    "₩": Currency("won", "won"),
    "¢": Currency("cent", "cents"),
}


@dataclass(frozen=True, slots=True)
class Unit:
    """``touching``: only right after the number; after a space it would rather be a word (``in``, ``A``, ``s``)."""

    one: str
    many: str
    touching: bool = False


_TOUCHING: Final = frozenset(("in", "l", "s", "A", "V", "W", "h"))

_TABLE: Final = """
    mm      millimeter
    cm      centimeter
    m       meter
    km      kilometer
    nm      nanometer
    μm      micrometer
    in      inch
    ft      foot, feet
    yd      yard
    mi      mile
    m²      square meter
    km²     square kilometer
    sq ft   square foot, square feet
    m³      cubic meter
    cm³     cubic centimeter
    mg      milligram
    g       gram
    kg      kilogram
    oz      ounce
    lb      pound
    lbs     pound
    ml      milliliter
    mL      milliliter
    l       liter
    L       liter
    tsp     teaspoon
    tbsp    tablespoon
    km/h    kilometer per hour, kilometers per hour
    kph     kilometer per hour, kilometers per hour
    mph     mile per hour, miles per hour
    m/s     meter per second, meters per second
    m/s²    meter per second squared, meters per second squared
    ns      nanosecond
    μs      microsecond
    ms      millisecond
    s       second
    sec     second
    secs    second
    min     minute
    mins    minute
    h       hour
    hr      hour
    hrs     hour
    Hz      hertz, hertz
    kHz     kilohertz, kilohertz
    MHz     megahertz, megahertz
    GHz     gigahertz, gigahertz
    kB      kilobyte
    KB      kilobyte
    MB      megabyte
    GB      gigabyte
    TB      terabyte
    kbps    kilobit per second, kilobits per second
    Mbps    megabit per second, megabits per second
    Gbps    gigabit per second, gigabits per second
    MB/s    megabyte per second, megabytes per second
    GB/s    gigabyte per second, gigabytes per second
    V       volt
    mA      milliampere
    A       ampere
    mAh     milliampere hour
    W       watt
    kW      kilowatt
    MW      megawatt
    kWh     kilowatt hour
    cal     calorie
    kcal    kilocalorie
    kJ      kilojoule
    kPa     kilopascal
    psi     P S I, P S I
    rpm     R P M, R P M
    dB      decibel
    px      pixel
    fps     frame per second, frames per second
    ha      hectare
    %       percent, percent
    ‰       per mille, per mille
    °       degree
    °C      degree celsius, degrees celsius
    °F      degree fahrenheit, degrees fahrenheit
    ℃       degree celsius, degrees celsius
    ℉       degree fahrenheit, degrees fahrenheit
"""


def _parse(line: str) -> tuple[str, Unit]:
    symbol, names = line[:8].strip(), line[8:].split(", ")
    return symbol, Unit(names[0], names[-1] if len(names) > 1 else plural(names[0]), symbol in _TOUCHING)


UNITS: Final[Mapping[str, Unit]] = dict(_parse(line[4:]) for line in _TABLE.strip("\n").splitlines() if line.strip())
