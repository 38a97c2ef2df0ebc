"""Words to phonemes: eSpeak's notation of US English in the International Phonetic Alphabet.

A lexicon, and a model for the words that it lacks, come as data with the ``gruut_lang_en`` package (MIT): the table
``word_phonemes`` of ``lexicon.db``, and ``model.crf``, a linear-chain conditional random field (Lafferty et al. 2001)
that tags each letter with its phonemes. Its features are those that gruut trained it with: the letter, up to three
neighbours on each side, begin and end of the word; strings in base64.
"""

from __future__ import annotations

import base64
import re
import sqlite3
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from importlib.resources import as_file, files
from itertools import accumulate
from pathlib import Path
from typing import Final

import pycrfsuite

from voice_omni.models.starter.spoken_text.heteronyms import other_reading
from voice_omni.models.starter.spoken_text.numerals import Words
from voice_omni.models.starter.spoken_text.tables import listed

LETTERS: Final = dict(
    zip(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        listed(
            "ˈeɪ bˈiː sˈiː dˈiː ˈiː ˈɛf dʒˈiː ˈeɪtʃ ˈaɪ dʒˈeɪ kˈeɪ ˈɛl ˈɛm ˈɛn ˈoʊ pˈiː kjˈuː ˈɑːɹ ˈɛs tˈiː jˈuː vˈiː "
            "dˈʌbəljˌuː ˈɛks wˈaɪ zˈiː"
        ),
        strict=True,
    )
)

_OWN: Final = {
    "covid": "kˈoʊvɪd",
    "github": "ɡˈɪthʌb",
    "jason": "dʒˈeɪsən",
    "llama": "lˈɑːmə",
    "emoji": "ɪmˈoʊdʒi",
    "google": "ɡˈuːɡəl",
    "wikipedia": "wˌɪkᵻpˈiːdiə",
    "python": "pˈaɪθɑːn",
    "linux": "lˈɪnʌks",
    "bitcoin": "bˈɪtkɔɪn",
    "blog": "blˈɑːɡ",
    "selfie": "sˈɛlfi",
    "cafe": "kæfˈeɪ",
    "jalapeno": "hˌæləpˈeɪnjoʊ",
    "resumes": "ɹˈɛzuːmˌeɪz",
    **dict.fromkeys(("shh", "shhh", "sh"), "ʃː"),
    **dict.fromkeys(("mm", "mmm", "hm"), "hmː"),
    **dict.fromkeys(("brr", "brrr"), "bɹˈɜː"),
    **dict.fromkeys(("grr", "grrr"), "ɡɹˈɜː"),
    "psst": "psˈɪst",
    "an": "æn",
    "on": "ɔn",
}
"""Words that the lexicon lacks and the model gets wrong, or that it has in a form that fits one context only."""

_VOWELS: Final = frozenset("aeiouæɐɑɒɔəɚɛɜɪʊʌᵻ")
_VOICELESS: Final = frozenset("ptkfθ")
_SIBILANT: Final = frozenset("szʃʒ")
_CONTRACTED: Final = {"re": "ɚ", "ve": "v", "ll": "əl", "m": "m"}
_SUFFIXES: Final = {"ing": "ɪŋ", "er": "ɚ", "ers": "ɚz", "ly": "li", "ness": "nəs", "less": "ləs", "ish": "ɪʃ"}
_STRESS: Final = "ˈˌ"
_NASAL_SPELLING: Final = re.compile(r"n(?:g|gs|gue|k|ks|c|cs|x|que|gh|gg|kk)(?:'s)?$")
_NEIGHBOURS: Final = 3
_SHORTEST_STEM: Final = 3
_SHORTEST_PART: Final = 4


class Pronouncer:
    """Looks words up and guesses the others.

    The lexicon is kept as one sorted block of bytes (3 MB) with the offsets of its lines: the database has no index,
    and a dictionary of it would take ten times the memory.
    """

    def __init__(self, folder: Path) -> None:
        """``folder`` holds ``lexicon.db`` and ``g2p/model.crf``."""
        connection = sqlite3.connect(f"file:{folder / 'lexicon.db'}?mode=ro", uri=True)
        try:
            connection.execute("PRAGMA temp_store = MEMORY")  # sorting needs no disk, which may be full or read-only
            # The first entry of a word is its common one; for the others see the heteronyms.
            rows = connection.execute("SELECT word, phonemes FROM word_phonemes WHERE pron_order = 0 ORDER BY word, id")
            lines = [f"{word}\t{phonemes.replace(' ', '')}\n".encode() for word, phonemes in rows]
        finally:
            connection.close()
        self._lines = b"".join(lines)
        self._starts = array("I", accumulate((len(line) for line in lines[:-1]), initial=0))
        self._tagger = pycrfsuite.Tagger()
        self._tagger.open(str(folder / "g2p" / "model.crf"))

    @classmethod
    def english(cls) -> Pronouncer:
        with as_file(files("gruut_lang_en") / "espeak") as folder:
            return cls(folder)

    def known(self, word: str) -> bool:
        """Whether a lower-case word is in the lexicon."""
        return self._look_up(word) is not None

    def vocabulary(self) -> Iterator[str]:
        """The words of the lexicon, in the order of their code points."""
        return (self._line(start).partition("\t")[0] for start in self._starts)

    def phrase(self, items: Sequence[Words]) -> list[str]:
        """Phonemes for each item of a phrase, words separated by spaces, letters in a row joined.

        Words change with their neighbours: ``read`` after ``have``, ``the`` before a vowel.
        """
        flat = [word for item in items for word in item]
        said = [other_reading(flat, index) or self._word(word) for index, word in enumerate(flat)]
        joined = iter(_join(flat, said))
        return [_letters_together(item, [next(joined) for _ in item]) for item in items]

    def _word(self, word: str) -> str:
        if word in LETTERS:
            return LETTERS[word]
        if (found := self._look_up(word)) is not None:
            return found
        stem, mark, suffix = word.partition("'")
        if mark and stem:
            return _inflected(self._word(stem), suffix)
        return self._derived(word) or self._guess(word)

    def _look_up(self, word: str) -> str | None:
        if word in _OWN:
            return _OWN[word]
        at = bisect_left(self._starts, word, key=lambda start: self._line(start).partition("\t")[0])
        found, _, phonemes = self._line(self._starts[at]).partition("\t") if at < len(self._starts) else ("", "", "")
        return _isolated(word, phonemes) if found == word else None

    def _line(self, start: int) -> str:
        return self._lines[start : self._lines.index(b"\n", start)].decode()

    def _derived(self, word: str) -> str | None:
        """From known words: an inflected form, or two words written as one."""
        if word.endswith("s") and (stem := self._look_up(word[:-1])):
            return _inflected(stem, "s")
        if word.endswith("ed") and (stem := self._look_up(word[:-1]) or self._look_up(word[:-2])):
            return _inflected(stem, "d")
        for ending, phonemes in _SUFFIXES.items():
            base = word.removesuffix(ending)
            if (
                base != word
                and len(base) >= _SHORTEST_STEM
                and (stem := self._look_up(base) or self._look_up(base + "e"))
            ):
                return stem + phonemes
        middle = len(word) / 2
        cuts = sorted(range(_SHORTEST_PART, len(word) - _SHORTEST_PART + 1), key=lambda cut: abs(cut - middle))
        for cut in cuts:
            first, second = self._look_up(word[:cut]), self._look_up(word[cut:])
            if first and second:
                return first + second.replace("ˈ", "ˌ")
        return None

    def _guess(self, word: str) -> str:
        tags = self._tagger.tag([_features(word, index) for index in range(len(word))])
        decoded = (base64.b64decode(tag).decode() for tag in tags)
        return "".join(phoneme for tag in decoded for phoneme in tag.split("|") if phoneme != "_")


def _isolated(word: str, phonemes: str) -> str:
    """Undo what the word that came next when the lexicon was made has done to the last sound: a flapped t, a linking
    r, an n that turned into ŋ before k."""
    if phonemes.endswith("ɾ"):
        return f"{phonemes[:-1]}t"
    if phonemes.endswith("ɚɹ"):
        return phonemes[:-1]
    if phonemes.endswith("ŋ") and not _NASAL_SPELLING.search(word):
        return f"{phonemes[:-1]}n"
    return phonemes


def _join(words: Sequence[str], said: Sequence[str]) -> Iterator[str]:
    """What each word's sounds become before the next word, as the voice learnt it."""
    for index, (word, phonemes) in enumerate(zip(words, said, strict=True)):
        following = said[index + 1].lstrip(_STRESS)[:1] if index + 1 < len(said) else ""
        vowel = following in _VOWELS and following != ""
        if word == "the" and vowel:
            yield "ðɪ"
        elif word in ("to", "into") and vowel:
            yield f"{phonemes[:-1]}ʊ"
        elif word in ("it", "at") and vowel:
            yield f"{phonemes[:-1]}ɾ"
        elif phonemes.endswith("ɚ") and vowel:
            yield f"{phonemes}ɹ"
        elif phonemes.endswith("n") and following in ("k", "ɡ"):
            yield f"{phonemes[:-1]}ŋ"
        else:
            yield phonemes


def _letters_together(words: Words, said: Sequence[str]) -> str:
    """``("F", "B", "I")`` is one word that is stressed at its end."""
    text = ""
    for index, phonemes in enumerate(said):
        letter = words[index][0] in LETTERS
        before = index > 0 and words[index - 1][0] in LETTERS
        after = index + 1 < len(words) and words[index + 1][0] in LETTERS
        separator = "" if index == 0 or (letter and before) else " "
        text += separator + (phonemes.replace("ˈ", "ˌ") if letter and after else phonemes)
    return text


def _inflected(stem: str, suffix: str) -> str:
    last = stem[-1:]
    if suffix == "s":
        return stem + ("ᵻz" if last in _SIBILANT else "s" if last in _VOICELESS else "z")
    if suffix == "d":
        return stem + ("ᵻd" if last in ("t", "d") else "t" if last in _VOICELESS or last in ("s", "ʃ") else "d")
    return stem + _CONTRACTED.get(suffix, "")


def _features(word: str, index: int) -> dict[str, float | bool | str]:
    features: dict[str, float | bool | str] = {"bias": 1.0, "grapheme": _encode(word[index])}
    if index == 0:
        features["begin"] = True
    for distance in range(1, _NEIGHBOURS + 1):
        if index >= distance:
            features[f"grapheme-{distance}"] = _encode(word[index - distance])
        if index + distance < len(word):
            features[f"grapheme+{distance}"] = _encode(word[index + distance])
    if index == len(word) - 1:
        features["end"] = True
    return features


def _encode(letter: str) -> str:
    return base64.b64encode(letter.encode()).decode("ascii")
