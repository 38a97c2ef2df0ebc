"""Words that are written alike and said differently: which one is meant, told from the words beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from voice_omni.models.starter.spoken_text.tables import listed

_VERB_BEFORE: Final = frozenset(
    listed(
        "to will would can could should shall must may might do does did don't doesn't didn't won't can't couldn't "
        "wouldn't shouldn't i you we they who please let's always never not also often i'll you'll we'll they'll"
    )
)
_NOUN_BEFORE: Final = frozenset(
    listed(
        "the a an this that these those my your his her its our their no any some each every of in for with new old "
        "first last by from into whose"
    )
)
_PERFECT_BEFORE: Final = frozenset(
    listed("have has had having i've you've we've they've was were been be being is are")
)
_PLACE_AFTER: Final = frozenset(
    listed("in at on with near here there by without under alone together long longer forever to for like up through")
)
_PRONOUNS: Final = frozenset(listed("he she it who that"))
_OBJECT_AFTER: Final = frozenset(listed("the your my his her its our their this that it a an all down up"))

Choice = Callable[[str, str], bool]
"""From the words before and after ("" at the ends) to whether the second reading is meant."""


def _verb(before: str, after: str) -> bool:
    return before in _VERB_BEFORE


def _verb_unless_noun(before: str, after: str) -> bool:
    return before not in _NOUN_BEFORE


_OTHER_READINGS: Final[dict[str, tuple[Choice, str]]] = {
    "record": (_verb, "ɹᵻkˈɔːɹd"),
    "records": (lambda before, after: before in _PRONOUNS, "ɹᵻkˈɔːɹdz"),
    "present": (_verb, "pɹᵻzˈɛnt"),
    "presents": (lambda before, after: before in _PRONOUNS, "pɹᵻzˈɛnts"),
    "project": (_verb, "pɹədʒˈɛkt"),
    "object": (_verb, "əbdʒˈɛkt"),
    "subject": (_verb, "səbdʒˈɛkt"),
    "conduct": (_verb, "kəndˈʌkt"),
    "contract": (_verb, "kəntɹˈækt"),
    "contrast": (_verb, "kəntɹˈæst"),
    "conflict": (_verb, "kənflˈɪkt"),
    "convert": (_verb, "kənvˈɜːt"),
    "permit": (_verb, "pɚmˈɪt"),
    "increase": (_verb, "ɪŋkɹˈiːs"),
    "decrease": (_verb, "dᵻkɹˈiːs"),
    "import": (_verb, "ɪmpˈoːɹt"),
    "export": (_verb, "ɛkspˈoːɹt"),
    "progress": (_verb, "pɹəɡɹˈɛs"),
    "protest": (_verb, "pɹətˈɛst"),
    "insult": (_verb, "ɪnsˈʌlt"),
    "suspect": (_verb, "səspˈɛkt"),
    "transport": (_verb, "tɹænspˈoːɹt"),
    "perfect": (_verb, "pɚfˈɛkt"),
    "estimate": (_verb, "ˈɛstᵻmˌeɪt"),
    "separate": (_verb, "sˈɛpɚɹˌeɪt"),
    "graduate": (_verb, "ɡɹˈædʒuːˌeɪt"),
    "duplicate": (_verb, "dˈuːplᵻkˌeɪt"),
    "alternate": (_verb, "ˈɔːltɚnˌeɪt"),
    "coordinate": (_verb, "koʊˈɔːɹdᵻnˌeɪt"),
    "advocate": (_verb, "ˈædvəkˌeɪt"),
    "excuse": (_verb, "ɛkskjˈuːz"),
    "abuse": (_verb, "ɐbjˈuːz"),
    "house": (_verb, "hˈaʊz"),
    "use": (_verb_unless_noun, "jˈuːz"),
    "used": (lambda before, after: after == "to" and before not in ("be", "is", "are", "was", "were"), "jˈuːst"),
    "close": (lambda before, after: before in _VERB_BEFORE or (not before and after in _OBJECT_AFTER), "klˈoʊz"),
    "live": (lambda before, after: before in _VERB_BEFORE or after in _PLACE_AFTER - {"on"}, "lˈɪv"),
    "lives": (lambda before, after: before in _PRONOUNS or after in _PLACE_AFTER, "lˈɪvz"),
    "read": (lambda before, after: before in _PERFECT_BEFORE or before in ("he", "she"), "ɹˈɛd"),
    "lead": (lambda before, after: after in ("pipe", "pipes", "poisoning", "paint", "acid"), "lˈɛd"),
    "tear": (lambda before, after: after in ("apart", "down", "up", "off", "out"), "tˈɛɹ"),
    "wind": (lambda before, after: after in ("up", "down") and before in _VERB_BEFORE, "wˈaɪnd"),
    "minute": (lambda before, after: after in ("details", "detail", "amount", "amounts", "quantities"), "maɪnˈuːt"),
    "bow": (lambda before, after: before in _VERB_BEFORE or after in ("to", "down"), "bˈaʊ"),
    "bass": (lambda before, after: after in ("fish", "fishing") or before in ("sea", "striped"), "bˈæs"),
    "desert": (lambda before, after: before in _VERB_BEFORE, "dᵻzˈɜːt"),
    "refuse": (lambda before, after: before in ("the", "of", "garbage", "household"), "ɹˈɛfjuːs"),
    "content": (lambda before, after: after == "with", "kəntˈɛnt"),
}


def other_reading(words: Sequence[str], index: int) -> str | None:
    """The less common pronunciation of ``words[index]`` if it is meant here, else None."""
    found = _OTHER_READINGS.get(words[index])
    if found is None:
        return None
    choice, phonemes = found
    before = words[index - 1] if index else ""
    after = words[index + 1] if index + 1 < len(words) else ""
    return phonemes if choice(before, after) else None
