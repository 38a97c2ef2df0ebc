"""When speech over an answer interrupts it."""

from __future__ import annotations

import pytest

from voice_omni.session.interruption import (
    AtOnset,
    Confirmed,
    InterruptStrategy,
    Never,
    Speech,
    Verdict,
    interrupt_strategy,
)
from voice_omni.session.options import SessionOptions

WAIT, INTERRUPT, DISMISS = Verdict.WAIT, Verdict.INTERRUPT, Verdict.DISMISS

LONG = Confirmed(min_ms=500, min_words=0, certain_ms=1500, ignore_backchannels=False)
WORDS = Confirmed(min_ms=0, min_words=2, certain_ms=1500, ignore_backchannels=False)
POLITE = Confirmed(min_ms=0, min_words=0, certain_ms=1500, ignore_backchannels=True)


@pytest.mark.parametrize(
    ("strategy", "speech", "verdict"),
    [
        (AtOnset(), Speech(0), INTERRUPT),
        (Never(), Speech(9000, ("stop", "it")), WAIT),
        (Never(), Speech(9000, ("stop", "it"), final=True, over=True), DISMISS),
        # a minimum duration
        (LONG, Speech(480), WAIT),
        (LONG, Speech(512), INTERRUPT),
        (LONG, Speech(480, over=True), DISMISS),
        (LONG, Speech(512, over=True), INTERRUPT),
        # a minimum number of words
        (WORDS, Speech(1000, ("wait",)), WAIT),
        (WORDS, Speech(1000, ("wait", "please")), INTERRUPT),
        (WORDS, Speech(1600, ("wait",)), INTERRUPT),  # a pipeline may tell no words before the end
        (WORDS, Speech(1000, ("wait",), over=True), WAIT),
        (WORDS, Speech(1000, ("wait",), final=True, over=True), DISMISS),
        (WORDS, Speech(1000, ("wait", "please"), final=True, over=True), INTERRUPT),
        (WORDS, Speech(1000, (), final=True, untold=True, over=True), INTERRUPT),
        # backchannels
        (POLITE, Speech(300, ("yeah",)), WAIT),
        (POLITE, Speech(300, ("yeah",), final=True, over=True), DISMISS),
        (POLITE, Speech(700, ("yeah", "but")), INTERRUPT),
        (POLITE, Speech(300, ("stop",), final=True, over=True), INTERRUPT),
        (POLITE, Speech(400, (), final=True, over=True), DISMISS),
        (POLITE, Speech(1600, ()), INTERRUPT),
        (POLITE, Speech(1600, (), over=True), WAIT),
    ],
)
def test_verdicts(strategy: InterruptStrategy, speech: Speech, verdict: Verdict) -> None:
    assert strategy.judge(speech) is verdict


def test_by_default_any_onset_interrupts() -> None:
    assert interrupt_strategy(SessionOptions(), echoing=False).immediate


@pytest.mark.parametrize(
    "changed", [{"interrupt_min_ms": 1}, {"interrupt_min_words": 1}, {"ignore_backchannels": True}]
)
def test_any_condition_makes_it_wait(changed: dict[str, int]) -> None:
    assert not interrupt_strategy(SessionOptions(**changed), echoing=False).immediate


def test_where_answers_echo_only_other_words_interrupt_however_long_the_sound_lasts() -> None:
    strategy = interrupt_strategy(SessionOptions(), echoing=True)
    assert strategy.judge(Speech(60_000)) is WAIT
    assert strategy.judge(Speech(500, ("stop",))) is INTERRUPT
