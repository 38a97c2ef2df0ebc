"""Sound to text, with the real model and recorded speech."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator

import jiwer
import numpy as np
import pytest
import soxr

from tests.support import sounds
from tests.support.speech import recording, recordings
from voice_omni.model_runner.interface import Chunk, Work
from voice_omni.models.starter.listen import EncoderRunner, Hearing, build
from voice_omni.models.starter.listen_mel import SAMPLE_RATE, Floats
from voice_omni.models.starter.options import EncoderOptions
from voice_omni.pipeline.spec import StageContext
from voice_omni.proto.payload import Data, OmniRequest, StagePayload

OPENING = StagePayload(OmniRequest(request_id="r", route="speech"))


def new_encoder() -> EncoderRunner:
    return build(StageContext("encoder", EncoderOptions(), "cpu", 2))


@pytest.fixture(scope="module")
def encoder() -> EncoderRunner:
    return new_encoder()


def chunks(sound: Floats, sizes: Iterable[int]) -> Iterator[Chunk]:
    start = 0
    for size in sizes:
        if start >= len(sound):
            return
        yield Chunk("client", {"audio": sound[start : start + size]})
        start += size


def finish(encoder: EncoderRunner, state: Hearing) -> tuple[list[Data], str]:
    emitted: list[Data] = []
    while True:
        (outcome,) = encoder.run([Work("r", state, [], True)])
        emitted += (emit.data for emit in outcome.emits)
        if outcome.result is not None:
            encoder.close(state)
            return emitted, outcome.result["transcript"]
        assert outcome.more


def listen(encoder: EncoderRunner, sound: Floats, size: int = 1600) -> tuple[list[Data], str]:
    """What the encoder streams out for sound that comes in chunks of ``size`` samples, and its result."""
    state, emitted = encoder.open(OPENING), []
    for chunk in chunks(sound, itertools.repeat(size)):
        (outcome,) = encoder.run([Work("r", state, [chunk], False)])
        assert outcome.result is None
        emitted += (emit.data for emit in outcome.emits)
    last, result = finish(encoder, state)
    return emitted + last, result


def words(text: str) -> str:
    return " ".join(re.sub(r"[^a-z0-9' ]", " ", text.lower()).split())


def test_the_recordings_are_understood(encoder: EncoderRunner) -> None:
    heard = [listen(encoder, each.samples(SAMPLE_RATE), size=10**6)[1] for each in recordings()]
    assert jiwer.wer([words(each.text) for each in recordings()], [words(text) for text in heard]) < 0.1


@pytest.mark.parametrize("sizes", [[37], [160], [4000], [10**6], [1, 5000, 333]], ids=str)
def test_the_result_does_not_depend_on_how_the_sound_arrives(encoder: EncoderRunner, sizes: list[int]) -> None:
    sound = recording("question-05").samples(SAMPLE_RATE)
    state = new_encoder().open(OPENING)
    for chunk in chunks(sound, itertools.cycle(sizes)):
        state.push([chunk.data["audio"]])
    assert finish(new_encoder(), state)[1] == listen(encoder, sound)[1]


def test_the_person_sees_what_is_understood_so_far(encoder: EncoderRunner) -> None:
    emitted, result = listen(encoder, recording("human-01").samples(SAMPLE_RATE))
    assert [data["final"] for data in emitted] == [False] * (len(emitted) - 1) + [True]
    assert emitted[-1]["transcript"] == result
    assert len(emitted) > 3
    lengths = [len(data["transcript"]) for data in emitted]
    assert lengths[0] < lengths[-1] / 2


def test_nothing_is_left_to_do_when_silence_has_followed_the_words(encoder: EncoderRunner) -> None:
    heard: list[int] = []
    runner = new_encoder()
    recognise = runner._recogniser.recognise
    runner._recogniser.recognise = lambda sounds: heard.append(len(sounds)) or recognise(sounds)  # type: ignore[method-assign]
    state = runner.open(OPENING)
    for chunk in chunks(recording("question-01").samples(SAMPLE_RATE), itertools.repeat(320)):
        runner.run([Work("r", state, [chunk], False)])
    before = sum(heard)
    assert "France" in finish(runner, state)[1]
    assert sum(heard) == before


@pytest.mark.parametrize("name", sounds.NOT_SPEECH)
@pytest.mark.parametrize("seconds", [1.0, 4.0])
def test_what_is_not_speech_has_no_words(encoder: EncoderRunner, name: str, seconds: float) -> None:
    sound = soxr.resample(sounds.NOT_SPEECH[name](seconds), sounds.RATE, SAMPLE_RATE).astype(np.float32)
    assert listen(encoder, sound)[1] == ""


def test_no_sound_at_all_has_no_words(encoder: EncoderRunner) -> None:
    assert listen(encoder, np.zeros(0, np.float32))[1] == ""


def test_long_speech_is_understood_to_its_end_in_bounded_memory(encoder: EncoderRunner) -> None:
    parts = [each for each in recordings() if each.name.startswith("human")] * 2
    speech = np.concatenate([each.samples(SAMPLE_RATE)[: int((each.speech_end + 0.3) * SAMPLE_RATE)] for each in parts])
    assert len(speech) > 60 * SAMPLE_RATE
    state, longest = encoder.open(OPENING), 0
    for chunk in chunks(speech, itertools.repeat(16000)):
        encoder.run([Work("r", state, [chunk], False)])
        longest = max(longest, len(state.samples))
    text = finish(encoder, state)[1]
    assert longest < 30 * SAMPLE_RATE
    assert jiwer.wer(words(" ".join(each.text for each in parts)), words(text)) < 0.15


def test_another_request_beside_it_changes_nothing(encoder: EncoderRunner) -> None:
    names = ("question-02", "human-05", "question-09")
    alone = [listen(new_encoder(), recording(name).samples(SAMPLE_RATE))[1] for name in names]
    states = [encoder.open(OPENING) for _ in names]
    streams = [chunks(recording(name).samples(SAMPLE_RATE), itertools.repeat(1000)) for name in names]
    for batch in itertools.zip_longest(*streams):
        works = [Work("r", state, [chunk] if chunk else [], False) for state, chunk in zip(states, batch, strict=True)]
        encoder.run(works)
    assert [finish(encoder, state)[1] for state in states] == alone


def test_a_second_attempt_at_the_same_sound_costs_no_pass_and_gives_the_same() -> None:
    runner = new_encoder()
    sound = recording("question-10").samples(SAMPLE_RATE)
    first = listen(runner, sound)[1]
    passes: list[int] = []
    recognise = runner._recogniser.recognise
    runner._recogniser.recognise = lambda sounds: passes.append(len(sounds)) or recognise(sounds)  # type: ignore[method-assign]
    assert listen(runner, sound)[1] == first
    assert sum(passes) == 0


def test_speech_that_ends_in_the_middle_is_still_understood(encoder: EncoderRunner) -> None:
    sound = recording("question-04").samples(SAMPLE_RATE)
    assert "How many days" in listen(encoder, sound[: int(1.6 * SAMPLE_RATE)])[1]
