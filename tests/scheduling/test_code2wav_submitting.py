"""A vocoder whose device computes by itself: the next batch begins before the last one's sound is collected, where
somebody needs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduling.test_code2wav import (
    FRAME_S,
    NAMES,
    STEPS,
    Recorder,
    expected,
    failed,
    many,
    simulation,
    sizes,
    sound,
    sounds_as_one_decode,
)
from tests.support.scheduling import ends, new, nothing_held
from tests.support.toy import Wave
from voice_omni.proto.payload import Data
from voice_omni.scheduling.interface import AbortedOut, AbortIn, CreditIn, EndIn, ResultOut


class Later(Recorder):
    """Takes frames at once and gives their sound when it is asked. ``events``: batches begun and collected."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[tuple[str, tuple[str, ...]]] = []
        self.fails = False

    def submit(self, batch: Sequence[tuple[Wave, int]]) -> Later.Submission:
        outputs = self.decode(batch)
        names = tuple(self.batches[-1])
        self.events.append(("begun", names))
        return self.Submission(self, names, outputs)

    class Submission:
        def __init__(self, vocoder: Later, names: tuple[str, ...], outputs: Sequence[Data | Exception]) -> None:
            self._vocoder = vocoder
            self._names = names
            self._outputs = outputs

        def done(self) -> bool:
            return False

        def collect(self) -> Sequence[Data | Exception]:
            self._vocoder.events.append(("collected", self._names))
            if self._vocoder.fails:
                raise ValueError("the device failed")
            return self._outputs


@pytest.fixture
def vocoder() -> Later:
    return Later()


def test_what_is_alone_is_collected_at_once(vocoder: Later) -> None:
    with simulation(vocoder) as sim:
        out = sim.give(new("r"), many("r", 30), EndIn("r"))
        assert np.array_equal(sound(out, "r"), expected(range(30)))
        assert ends(out, "r") == [ResultOut("r", {"samples": 300})]
        kinds = [kind for kind, _ in vocoder.events]
        assert kinds == ["begun", "collected"] * (len(kinds) // 2)
        assert nothing_held(sim.scheduler.stats())


def test_first_chunks_begin_before_those_before_are_collected(vocoder: Later) -> None:
    with simulation(vocoder, max_batch=1) as sim:
        sim.give(*(message for name in "abc" for message in (new(name, credits=1), many(name, 4))))
    assert vocoder.events == [
        ("begun", ("a",)),
        ("begun", ("b",)),
        ("collected", ("a",)),
        ("begun", ("c",)),
        ("collected", ("b",)),
        ("collected", ("c",)),
    ]


def test_a_stream_with_a_lead_does_not_stand_in_the_way_of_a_first_chunk(vocoder: Later) -> None:
    """It begins only when nothing runs, so that what comes meanwhile has one batch before it and not two."""
    with simulation(vocoder, max_batch=1) as sim:
        sim.give(*(message for name in "ab" for message in (new(name, credits=2), many(name, 8), many(name, 8))))
        vocoder.events.clear()
        sim.give(CreditIn("a", 1), CreditIn("b", 1))
    assert vocoder.events == [("begun", ("a",)), ("collected", ("a",)), ("begun", ("b",)), ("collected", ("b",))]


def test_a_stream_whose_lead_is_used_up_does_not_wait(vocoder: Later) -> None:
    with simulation(vocoder, max_batch=1) as sim:
        sim.give(*(message for name in "ab" for message in (new(name, credits=2), many(name, 8), many(name, 8))))
        vocoder.events.clear()
        sim.clock.now += 4 * FRAME_S
        sim.give(CreditIn("a", 1), CreditIn("b", 1))
    assert [event for event, _ in vocoder.events] == ["begun", "begun", "collected", "collected"]


@pytest.mark.parametrize("again", [False, True])
def test_what_was_aborted_while_it_was_computed_is_not_heard(vocoder: Later, again: bool) -> None:
    """Nor by a request of the same name that came since."""
    with simulation(vocoder, max_batch=1) as sim:
        submit = vocoder.submit

        def aborted(batch: Sequence[tuple[Wave, int]]) -> Any:
            vocoder.submit = submit  # type: ignore[method-assign]
            more = [new("r", credits=1), many("r", 2)] if again else []
            sim.feed(AbortIn("r"), *more)
            return submit(batch)

        vocoder.submit = aborted  # type: ignore[method-assign]
        out = sim.give(new("r"), many("r", 4), new("other"), many("other", 4), EndIn("other"))
        assert np.array_equal(sound(out, "other"), expected(range(4)))
        assert ends(out, "r") == [AbortedOut("r")]
        assert sizes(out, "r") == ([2] if again else [])


def test_a_batch_that_fails_while_it_is_computed_fails_its_streams_and_no_other(vocoder: Later) -> None:
    with simulation(vocoder) as sim:
        vocoder.fails = True
        out = sim.give(new("a"), many("a", 4), new("b"), many("b", 4))
        assert failed(out, "a").code == failed(out, "b").code == "internal_error"
        vocoder.fails = False
        out = sim.give(new("c"), many("c", 4), EndIn("c"))
        assert np.array_equal(sound(out, "c"), expected(range(4)))
        assert vocoder.closed == {"a": 1, "b": 1, "c": 1}
        assert nothing_held(sim.scheduler.stats())


@given(
    st.lists(STEPS, max_size=60),
    st.dictionaries(NAMES, st.integers(0, 3), min_size=4, max_size=4),
    st.integers(1, 4),
    st.sampled_from((4, 7, 16)),
)
def test_no_cut_order_abort_or_neighbour_changes_a_sample(
    steps: list[tuple[str, Any, Any]], credits: dict[str, int], max_batch: int, max_frames: int
) -> None:
    vocoder = Later()
    sounds_as_one_decode(vocoder, steps, credits, max_batch=max_batch, max_frames=max_frames)
    begun = [names for kind, names in vocoder.events if kind == "begun"]
    assert [names for kind, names in vocoder.events if kind == "collected"] == begun, "in order, each once"
