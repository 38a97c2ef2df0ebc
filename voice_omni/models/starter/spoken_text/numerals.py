"""Numbers as English words (American usage). Pure functions on digit strings and integers."""

from __future__ import annotations

from typing import Final

from voice_omni.models.starter.spoken_text.tables import listed

Words = tuple[str, ...]

_ONES: Final = listed(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS: Final = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SCALES: Final = ("", "thousand", "million", "billion", "trillion", "quadrillion", "quintillion")
_ORDINALS: Final = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
_LONGEST_CARDINAL: Final = 3 * len(_SCALES)
_ROMAN: Final = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}


def digits(text: str) -> Words:
    """Each digit by its name, anything else left out: ``"4 07"`` is four zero seven."""
    return tuple(_ONES[int(character)] for character in text if character in "0123456789")


def cardinal(text: str) -> Words:
    """A whole number without sign: ``"1,024"`` is one thousand twenty four.

    Digit by digit where it starts with a zero (``"007"``) or is too long to be a quantity.
    """
    plain = text.replace(",", "")
    if (len(plain) > 1 and plain[0] == "0") or len(plain) > _LONGEST_CARDINAL:
        return digits(plain)
    return _cardinal(int(plain))


def _cardinal(value: int) -> Words:
    if value == 0:
        return ("zero",)
    words: list[str] = []
    for power in range(len(_SCALES) - 1, -1, -1):
        group = value // 1000**power % 1000
        if group:
            words += _below_thousand(group)
            if power:
                words.append(_SCALES[power])
    return tuple(words)


def _below_thousand(value: int) -> list[str]:
    hundreds, rest = divmod(value, 100)
    words = [_ONES[hundreds], "hundred"] if hundreds else []
    if 0 < rest < 20:
        words.append(_ONES[rest])
    elif rest:
        words.append(_TENS[rest // 10])
        if rest % 10:
            words.append(_ONES[rest % 10])
    return words


def ordinal(text: str) -> Words:
    """``"21"`` is twenty first."""
    *head, last = cardinal(text)
    return (*head, ordinal_word(last))


def ordinal_word(word: str) -> str:
    if word in _ORDINALS:
        return _ORDINALS[word]
    if word.endswith("y"):
        return word[:-1] + "ieth"
    return word + ("h" if word.endswith("t") else "th")


def decimal(text: str) -> Words:
    """A number that may have a fraction: ``"3.05"`` is three point zero five, ``".5"`` is point five."""
    whole, point, fraction = text.partition(".")
    head = cardinal(whole) if whole else ()
    return (*head, "point", *digits(fraction)) if point and fraction else head


def year(text: str) -> Words:
    """A year of one to four digits: ``"1905"`` is nineteen oh five, ``"2024"`` twenty twenty four, ``"2005"`` two
    thousand five."""
    value = int(text)
    century, rest = divmod(value, 100)
    if value < 1000 or (century % 10 == 0 and rest < 10):
        return cardinal(str(value))
    if rest == 0:
        return (*_cardinal(century), "hundred")
    if rest < 10:
        return (*_cardinal(century), "oh", _ONES[rest])
    return (*_cardinal(century), *_cardinal(rest))


def decade(text: str) -> Words:
    """``"1980"`` of "1980s" is nineteen eighties; ``"90"`` of "90s" is nineties."""
    *head, last = year(text) if len(text) == 4 else cardinal(text)
    return (*head, plural(last))


def plural(word: str) -> str:
    """The plural of a number word or a unit's name."""
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("x", "ch", "s", "sh")) else "s")


def fraction(numerator: str, denominator: str) -> Words:
    """``("3", "4")`` is three quarters, ``("1", "2")`` one half, ``("7", "100")`` seven over one hundred."""
    below = int(denominator)
    many = int(numerator) != 1
    if below == 2:
        return (*cardinal(numerator), "halves" if many else "half")
    if below == 4:
        return (*cardinal(numerator), "quarters" if many else "quarter")
    if 2 < below <= 20:
        *head, last = ordinal(denominator)
        return (*cardinal(numerator), *head, plural(last) if many else last)
    return (*cardinal(numerator), "over", *cardinal(denominator))


def roman(text: str) -> int | None:
    """The value of a well-formed Roman numeral in capitals below 4,000, or None."""
    if not text or any(letter not in _ROMAN for letter in text):
        return None
    value = 0
    for letter, following in zip(text, (*text[1:], ""), strict=True):
        amount = _ROMAN[letter]
        value += -amount if following and _ROMAN[following] > amount else amount
    return value if to_roman(value) == text else None


def to_roman(value: int) -> str:
    parts = []
    for amount, letters in (
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ):
        parts.append(letters * (value // amount))
        value %= amount
    return "".join(parts)
