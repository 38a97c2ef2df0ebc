"""From codec frames to sound: first chunks first, growing with the lead, each stream exact whatever others do."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.scheduling import Clock, Collected, Simulation, ends, new, nothing_held, of_type, streamed
from tests.support.toy import FRAME_SAMPLES, SAMPLE_RATE, ToyOptions, Vocode, Wave
from voice_omni.model_runner.interface import Chunk
from voice_omni.pipeline.spec import StageContext
from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import Data, StagePayload
from voice_omni.scheduling.code2wav import Code2WavScheduler
from voice_omni.scheduling.interface import (
    AbortedOut,
    AbortIn,
    ChunkIn,
    ConsumedOut,
    CreditIn,
    EndIn,
    FailedOut,
    Outgoing,
    ResultOut,
    StreamOut,
)
from voice_omni.scheduling.options import Code2WavOptions

FRAME_S = FRAME_SAMPLES / SAMPLE_RATE
"""One frame of the toy voice sounds for 10 ms."""


class Recorder(Vocode):
    """The toy vocoder, with a record of its batches; a request's parameters make one of its methods fail."""

    def __init__(self) -> None:
        super().__init__(StageContext("vocode", ToyOptions(), "cpu", 1))
        self.batches: list[dict[str, int]] = []
        self.closed: Counter[str] = Counter()
        self._names: dict[int, str] = {}

    def open(self, payload: StagePayload) -> Wave:
        self._fail_if(payload.request.params, "open")
        state = super().open(payload)
        self._names[id(state)] = payload.request_id
        return state

    def push(self, state: Wave, chunk: Chunk) -> None:
        self._fail_if(state.params, "push")
        super().push(state, chunk)

    def ready(self, state: Wave, ended: bool) -> int:
        if ended:
            self._fail_if(state.params, "ready")
        return super().ready(state, ended)

    def decode(self, batch: Sequence[tuple[Wave, int]]) -> Sequence[Data | Exception]:
        self.batches.append({self._names[id(state)]: frames for state, frames in batch})
        for state, _ in batch:
            self._fail_if(state.params, "decode")
        outputs = super().decode(batch)
        return [
            ValueError("bad frames") if state.params.get("fails") == "alone" else output
            for (state, _), output in zip(batch, outputs, strict=True)
        ]

    def result(self, state: Wave) -> Data:
        self._fail_if(state.params, "result")
        return super().result(state)

    def close(self, state: Wave) -> None:
        self.closed[self._names.pop(id(state))] += 1

    @staticmethod
    def expected(levels: Sequence[float]) -> np.ndarray:
        return expected(levels)

    @staticmethod
    def _fail_if(params: Data, where: str) -> None:
        if params.get("fails") == where:
            raise ValueError("as asked")


class Foresight(Recorder):
    """A vocoder that needs the frame behind the one it decodes, as convolutions do; the last one has none."""

    def ready(self, state: Wave, ended: bool) -> int:
        return super().ready(state, ended) if ended else max(0, super().ready(state, ended) - 1)

    def _one(self, state: Wave, frames: int) -> Data:
        following = [float(frame[0]) for frame in state.frames[1 : frames + 1]]
        output = super()._one(state, frames)
        following += [0.0] * (len(output["audio"]) // FRAME_SAMPLES - len(following))
        return {**output, "audio": output["audio"] + np.repeat(following, FRAME_SAMPLES).astype(np.float32)}

    @staticmethod
    def expected(levels: Sequence[float]) -> np.ndarray:
        return expected(levels) + np.repeat([*levels[1:], 0.0][: len(levels)], FRAME_SAMPLES).astype(np.float32)


def simulation(vocoder: Recorder, **options: Any) -> Simulation:
    options = {"first_frames": 4, "max_frames": 32, **options}

    def build(outbox: Collected, clock: Clock) -> Code2WavScheduler:
        return Code2WavScheduler(vocoder, Code2WavOptions(**options), outbox, clock)

    return Simulation(build)


def frames(request_id: str, *levels: float) -> ChunkIn:
    return ChunkIn(request_id, "speak", {"frames": np.array(levels, np.float32)[:, None]})


def many(request_id: str, count: int) -> ChunkIn:
    return frames(request_id, *range(count))


def sound(out: list[Outgoing], request_id: str) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.float32), *(data["audio"] for data in streamed(out, request_id))])


def expected(levels: Sequence[float]) -> np.ndarray:
    return np.repeat(np.cumsum(levels, dtype=np.float64), FRAME_SAMPLES).astype(np.float32)


def sizes(out: list[Outgoing], request_id: str) -> list[int]:
    """Frames of each chunk that was sent."""
    return [len(data["audio"]) // FRAME_SAMPLES for data in streamed(out, request_id)]


def consumed(out: list[Outgoing]) -> int:
    return sum(message.count for message in of_type(ConsumedOut, out))


@pytest.fixture
def vocoder() -> Recorder:
    return Recorder()


# -- how far -----------------------------------------------------------------------------------------------------------


def test_sound_begins_with_the_first_frame(vocoder: Recorder) -> None:
    with simulation(vocoder) as sim:
        out = sim.give(new("r"), frames("r", 1.0))
        assert sizes(out, "r") == [1]


def test_the_first_chunk_is_small_however_much_is_there(vocoder: Recorder) -> None:
    with simulation(vocoder) as sim:
        out = sim.give(new("r", credits=1), many("r", 30))
        assert sizes(out, "r") == [4]


def test_chunks_grow_with_the_lead_up_to_the_largest(vocoder: Recorder) -> None:
    """Nothing has been heard yet: half of what was sent may be decoded in one go."""
    with simulation(vocoder, growth=0.5) as sim:
        out = sim.give(new("r"), *(many("r", 10) for _ in range(20)), EndIn("r"))
        made = sizes(out, "r")
        assert made[0] == 4
        assert sum(made) == 200
        for index, size in enumerate(made[1:-1], start=1):
            assert size == min(max(int(sum(made[:index]) * 0.5), 4), 32)
        assert 32 in made


def test_chunks_stay_small_while_they_are_heard_as_fast_as_they_are_made(vocoder: Recorder) -> None:
    with simulation(vocoder) as sim:
        sim.give(new("r", credits=1), *(many("r", 10) for _ in range(4)))
        for _ in range(5):
            sim.clock.now += 4 * FRAME_S
            assert sizes(sim.give(CreditIn("r", 1)), "r") == [4]


def test_few_frames_wait_for_more_while_the_lead_lasts(vocoder: Recorder) -> None:
    with simulation(vocoder) as sim:
        sim.give(new("r"), many("r", 4))
        sim.give(many("r", 4))
        out = sim.give(frames("r", 1.0, 2.0))
        assert out == [ConsumedOut("r", "speak", 1)], "taken in, but a chunk of two frames is not worth it yet"
        out = sim.run(0.039)
        assert out == []
        out = sim.run(0.001)
        assert sizes(out, "r") == [2], "the lead has come down to one first chunk: any longer would be a gap"


def test_the_tail_does_not_wait(vocoder: Recorder) -> None:
    with simulation(vocoder) as sim:
        sim.give(new("r"), many("r", 8))
        assert sizes(sim.give(frames("r", 1.0)), "r") == []
        out = sim.give(EndIn("r"))
        assert sizes(out, "r") == [1]
        assert out[-1] == ResultOut("r", {"samples": 9 * FRAME_SAMPLES})


def test_a_stream_without_frames_just_ends(vocoder: Recorder) -> None:
    with simulation(vocoder) as sim:
        assert sim.give(new("r"), EndIn("r")) == [ResultOut("r", {"samples": 0})]
        assert vocoder.batches == []
        assert nothing_held(sim.scheduler.stats())


# -- whose turn --------------------------------------------------------------------------------------------------------


def test_first_chunks_go_before_all_others(vocoder: Recorder) -> None:
    with simulation(vocoder, max_batch=8) as sim:
        sim.give(new("old", credits=1), many("old", 30))
        vocoder.batches.clear()
        sim.give(new("young", credits=1), many("young", 30), CreditIn("old", 1))
        assert [list(batch) for batch in vocoder.batches] == [["young"], ["old"]]


def test_then_those_with_the_least_lead(vocoder: Recorder) -> None:
    with simulation(vocoder, max_batch=2) as sim:
        for name, sent in (("rich", 12), ("poor", 4), ("middle", 8)):
            assert sum(sizes(sim.give(new(name), many(name, sent)), name)) == sent
        vocoder.batches.clear()
        sim.give(*(many(name, 32) for name in ("rich", "poor", "middle")))
        assert list(vocoder.batches[0]) == ["poor", "middle"]


def test_many_streams_are_decoded_together(vocoder: Recorder) -> None:
    with simulation(vocoder, max_batch=3) as sim:
        sim.give(*(message for name in "abcde" for message in (new(name, credits=1), many(name, 4))))
        assert [sorted(batch) for batch in vocoder.batches] == [["a", "b", "c"], ["d", "e"]]


def test_a_batch_is_bounded_by_its_frames_all_streams_counted_as_long_as_the_longest(vocoder: Recorder) -> None:
    with simulation(vocoder, max_batch_frames=10) as sim:
        sim.give(*(message for name in "abcde" for message in (new(name, credits=1), many(name, 4))))
        assert [len(batch) for batch in vocoder.batches] == [2, 2, 1]


def test_long_chunks_wait_where_they_would_leave_most_of_a_batch_empty(vocoder: Recorder) -> None:
    """Streams with little lead have short chunks: they need not take as long as the longest."""
    with simulation(vocoder, first_frames=1, growth=1) as sim:
        sim.give(*(message for name in "abc" for message in (new(name), many(name, 1), many(name, 1))))
        sim.give(new("rich"), many("rich", 16))
        vocoder.batches.clear()
        sim.give(*(many(name, 2) for name in "abc"), many("rich", 16))
        assert vocoder.batches[:2] == [{"a": 2, "b": 2, "c": 2}, {"rich": 16}]


# -- bounds ------------------------------------------------------------------------------------------------------------


def test_frames_beyond_the_largest_chunk_stay_uncredited(vocoder: Recorder) -> None:
    """That holds back who makes them."""
    with simulation(vocoder, max_frames=32) as sim:
        out = sim.give(new("r", credits=0), *(many("r", 10) for _ in range(9)))
        assert consumed(out) == 4
        out = sim.give(CreditIn("r", 100))
        assert consumed(out) == 5, "as they are decoded, more is taken"


def test_a_stream_whose_listener_is_behind_waits_alone(vocoder: Recorder) -> None:
    with simulation(vocoder) as sim:
        out = sim.give(new("slow", credits=1), many("slow", 30), new("quick"), many("quick", 30), EndIn("quick"))
        assert sizes(out, "slow") == [4]
        assert sum(sizes(out, "quick")) == 30
        assert sizes(sim.give(CreditIn("slow", 2)), "slow") == [4, 4]


def test_the_end_of_a_stream_waits_for_its_listener(vocoder: Recorder) -> None:
    with simulation(vocoder) as sim:
        out = sim.give(new("r", credits=2), many("r", 9), EndIn("r"))
        assert ends(out, "r") == []
        out = sim.give(CreditIn("r", 5))
        assert ends(out, "r") == [ResultOut("r", {"samples": 90})]


# -- failures ----------------------------------------------------------------------------------------------------------


def failed(out: list[Outgoing], request_id: str) -> OmniError:
    assert len(ends(out, request_id)) == 1
    [message] = of_type(FailedOut, out, request_id)
    return message.error


@pytest.mark.parametrize("where", ["open", "push", "ready", "alone", "result"])
def test_what_fails_for_one_stream_fails_it_alone(vocoder: Recorder, where: str) -> None:
    with simulation(vocoder) as sim:
        both = [message for name in ("bad", "good") for message in (many(name, 9), EndIn(name))]
        out = sim.give(new("bad", fails=where), new("good"), *both)
        assert failed(out, "bad").code == "internal_error"
        assert np.array_equal(sound(out, "good"), expected(range(9)))
        assert ends(out, "good") == [ResultOut("good", {"samples": 90})]
        assert vocoder.closed == ({"good": 1} if where == "open" else {"good": 1, "bad": 1})
        assert nothing_held(sim.scheduler.stats())


def test_a_batch_that_fails_fails_its_streams_and_no_other(vocoder: Recorder) -> None:
    with simulation(vocoder, max_batch=2) as sim:
        names = ("bad", "beside", "after")
        sim.feed(new("bad", fails="decode"), new("beside"), new("after"))
        out = sim.give(*(message for name in names for message in (many(name, 4), EndIn(name))))
        assert failed(out, "bad")
        assert failed(out, "beside")
        assert np.array_equal(sound(out, "after"), expected(range(4)))


# -- aborts ------------------------------------------------------------------------------------------------------------

SITUATIONS: dict[str, list[Any]] = {
    "without frames": [new("r")],
    "with frames that wait for more": [new("r"), many("r", 8), frames("r", 1.0)],
    "without credits": [new("r", credits=0), many("r", 40), many("r", 40)],
    "ended but not heard": [new("r", credits=1), many("r", 20), EndIn("r")],
}


@pytest.mark.parametrize("together", [True, False], ids=["in one go", "later"])
@pytest.mark.parametrize("situation", SITUATIONS.values(), ids=SITUATIONS.keys())
def test_an_abort_is_acknowledged_once_and_leaves_nothing(
    vocoder: Recorder, situation: list[Any], together: bool
) -> None:
    with simulation(vocoder) as sim:
        sim.feed(*situation)
        if not together:
            sim.run()
        out = sim.give(AbortIn("r"), AbortIn("r"), many("r", 3), EndIn("r"), CreditIn("r", 5))
        assert [message for message in out if not isinstance(message, ConsumedOut)] == [AbortedOut("r")]
        assert vocoder.closed == {"r": 1}
        assert nothing_held(sim.scheduler.stats())


def test_an_abort_after_the_end_says_nothing(vocoder: Recorder) -> None:
    with simulation(vocoder) as sim:
        sim.give(new("r"), EndIn("r"))
        assert sim.give(AbortIn("r")) == []


# -- in any order ------------------------------------------------------------------------------------------------------

NAMES = st.sampled_from("abcd")
STEPS = st.one_of(
    st.tuples(st.just("frames"), NAMES, st.lists(st.integers(-9, 9), min_size=1, max_size=12)),
    st.tuples(st.just("end"), NAMES, st.none()),
    st.tuples(st.just("credit"), NAMES, st.integers(1, 3)),
    st.tuples(st.just("abort"), NAMES, st.none()),
    st.tuples(st.just("run"), st.none(), st.sampled_from((0.0, 0.01, 0.08, 0.5))),
)

DUE_WITHIN_ROUNDING = [
    ("frames", "b", [6, -3, -4, 2, -7, 3, -9, -3, -2, -5, 8, -8]),
    ("frames", "a", [9, 7, 4, 4, 2, -1]),
    ("frames", "b", [-1, 2, -2, -1, -8, -4]),
    ("credit", "b", 2),
    ("credit", "b", 2),
    ("frames", "a", [3]),
    ("frames", "a", [4]),
    ("run", None, 0.5),
]
"""A chunk becomes due sooner than the clock can show: waiting for it would never end."""


def sounds_as_one_decode(
    vocoder: Recorder, steps: list[tuple[str, Any, Any]], credits: dict[str, int], **options: Any
) -> None:
    """Each stream sounds as one decode of its frames; an aborted one as the beginning of it."""
    pushed: dict[str, list[int]] = defaultdict(list)
    ended: set[str] = set()
    aborted: set[str] = set()
    with simulation(vocoder, **options) as sim:
        out = sim.give(*(new(name, credits=count) for name, count in credits.items()))
        for step, name, value in steps:
            match step:
                case "frames" if name not in ended | aborted:
                    pushed[name] += value
                    sim.feed(frames(name, *value))
                case "end" if name not in ended:
                    ended.add(name)
                    sim.feed(EndIn(name))
                case "credit":
                    sim.feed(CreditIn(name, value))
                case "abort":
                    aborted.add(name)
                    sim.feed(AbortIn(name))
                case "run":
                    out += sim.run(value)
        for name in credits:
            sim.feed(CreditIn(name, 1000))
            if name not in ended:
                sim.feed(EndIn(name))
        out += sim.run(10.0)
        assert nothing_held(sim.scheduler.stats())
    assert vocoder.closed == dict.fromkeys(credits, 1)
    for name in credits:
        heard = sound(out, name)
        whole = vocoder.expected(pushed[name])
        assert np.array_equal(heard, whole[: len(heard)])
        assert len(ends(out, name)) == 1
        if name not in aborted:
            assert len(heard) == len(pushed[name]) * FRAME_SAMPLES
            assert ends(out, name) == [ResultOut(name, {"samples": len(heard)})]
        assert not any(isinstance(message, StreamOut) and not len(message.data["audio"]) for message in out)


@given(
    st.lists(STEPS, max_size=60),
    st.dictionaries(NAMES, st.integers(0, 3), min_size=4, max_size=4),
    st.integers(1, 4),
    st.sampled_from((4, 7, 16)),
    st.sampled_from((Recorder, Foresight)),
)
@example(DUE_WITHIN_ROUNDING, {"a": 3, "b": 2, "c": 1, "d": 1}, 3, 4, Foresight)
def test_no_cut_order_abort_or_neighbour_changes_a_sample(
    steps: list[tuple[str, Any, Any]],
    credits: dict[str, int],
    max_batch: int,
    max_frames: int,
    kind: type[Recorder],
) -> None:
    sounds_as_one_decode(kind(), steps, credits, max_batch=max_batch, max_frames=max_frames)
