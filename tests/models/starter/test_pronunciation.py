"""How words sound, alone and beside others."""

from __future__ import annotations

import os
import subprocess
import sys
import unicodedata

import pytest

from tests.support.patience import PATIENCE_S
from voice_omni.models.starter.spoken_text.pronunciation import Pronouncer
from voice_omni.models.starter.voice import open_voice


@pytest.fixture(scope="module")
def pronouncer() -> Pronouncer:
    return Pronouncer.english()


def say(pronouncer: Pronouncer, text: str) -> str:
    return " ".join(pronouncer.phrase([(word,) for word in text.split()]))


def test_every_word_of_the_lexicon_can_be_spoken_by_the_voice(pronouncer: Pronouncer) -> None:
    symbols = set(open_voice().symbols)
    words = list(pronouncer.vocabulary())
    assert len(words) > 100_000
    for said in pronouncer.phrase([(word,) for word in words]):
        assert said
        assert set(unicodedata.normalize("NFD", said)) <= symbols


_READ = "from voice_omni.models.starter.spoken_text.pronunciation import Pronouncer; Pronouncer.english()"


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_the_lexicon_is_read_without_a_place_for_temporary_files() -> None:
    """As in a container whose files are read-only, or on a disk that is full."""
    Pronouncer.english()
    environment = {**os.environ, "SQLITE_TMPDIR": "/proc"}
    subprocess.run([sys.executable, "-c", _READ], env=environment, check=True, timeout=PATIENCE_S)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("hello", "həlˈoʊ"),
        ("cabin", "kˈæbɪn"),  # the lexicon's own entry has the n of a word before k
        ("after", "ˈæftɚ"),
        ("websocket", "wˈɛbsˈɑːkɪt"),
        ("chatbots", "tʃˈætbˌɑːts"),
        ("livestream", "lˈaɪvstɹˌiːm"),
        ("serverless", "sˈɜːvɚləs"),
        ("nasa's", "nˈæsɐz"),
        ("tokenizer", "tˈoʊkənˌaɪzɚ"),
    ],
)
def test_words_known_and_unknown(word: str, said: str, pronouncer: Pronouncer) -> None:
    assert say(pronouncer, word) == said


def test_letters_in_a_row_are_one_word_stressed_at_its_end(pronouncer: Pronouncer) -> None:
    assert pronouncer.phrase([("F", "B", "I"), ("agent",)]) == ["ˌɛfbˌiːˈaɪ", "ˈeɪdʒənt"]
    assert pronouncer.phrase([("A", "P", "I's")]) == ["ˌeɪpˌiːˈaɪz"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("the apple", "ðɪ ˈæpəl"),
        ("the dog", "ðə dˈɑːɡ"),
        ("to eat", "tʊ ˈiːt"),
        ("to go", "tə ɡˌoʊ"),
        ("it is", "ɪɾ ɪz"),
        ("it was", "ɪt wʌz"),
        ("after all", "ˈæftɚɹ ˈɔːl"),
        ("can go", "kæŋ ɡˌoʊ"),
    ],
)
def test_words_change_with_what_follows(text: str, said: str, pronouncer: Pronouncer) -> None:
    assert say(pronouncer, text) == said


@pytest.mark.parametrize(
    ("text", "word", "said"),
    [
        ("i read books", "read", "ɹˈiːd"),
        ("i have read it", "read", "ɹˈɛd"),
        ("the record", "record", "ɹˈɛkɚd"),
        ("to record", "record", "ɹᵻkˈɔːɹd"),
        ("we live here", "live", "lˈɪv"),
        ("a live show", "live", "lˈaɪv"),
        ("you use it", "use", "jˈuːz"),
        ("of no use", "use", "jˈuːs"),
        ("i used to go", "used", "jˈuːst"),
        ("they used it", "used", "jˈuːzd"),
        ("please close it", "close", "klˈoʊz"),
        ("too close", "close", "klˈoʊs"),
    ],
)
def test_words_that_are_written_alike(text: str, word: str, said: str, pronouncer: Pronouncer) -> None:
    words = text.split()
    assert pronouncer.phrase([(each,) for each in words])[words.index(word)] == said
