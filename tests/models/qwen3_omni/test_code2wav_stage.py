"""The stage: frames in, sound and marks out, through the scheduler that drives it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.models.qwen3_omni.test_code2wav import codes, decoded
from voice_omni.model_runner.interface import Chunk, Interruptible, SubmittingVocoder
from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
from voice_omni.models.qwen3_omni.code2wav import StreamDecoder
from voice_omni.models.qwen3_omni.code2wav_stage import Code2WavRunner, Stream
from voice_omni.models.qwen3_omni.wire import CODES
from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import OmniRequest, StagePayload
from voice_omni.proto.vocabulary import AUDIO, MARKS, SAMPLES


@pytest.fixture(scope="module")
def decoder(checkpoint: Checkpoint) -> StreamDecoder:
    return StreamDecoder(checkpoint, 3, "cpu", torch.float32)


@pytest.fixture
def runner(decoder: StreamDecoder) -> Code2WavRunner:
    return Code2WavRunner(decoder)


def opened(runner: Code2WavRunner) -> Stream:
    return runner.open(StagePayload(OmniRequest(request_id="r", route="speech")))


def chunk(frames: np.ndarray, *marks: list[object]) -> Chunk:
    return Chunk("talker", {CODES: frames.astype(np.int16), **({MARKS: list(marks)} if marks else {})})


def test_frames_in_samples_out(runner: Code2WavRunner, decoder: StreamDecoder) -> None:
    state, frames = opened(runner), codes(12)
    assert (runner.sample_rate, runner.frame_samples) == (24_000, 1920)
    heard = []
    for piece in np.split(frames, [1, 2, 7]):
        runner.push(state, chunk(piece))
        while ready := runner.ready(state, False):
            (output,) = runner.decode([(state, min(ready, 2))])
            assert isinstance(output, dict)
            heard.append(output[AUDIO])
    assert runner.ready(state, True) == 0
    samples = np.concatenate(heard)
    assert runner.result(state) == {SAMPLES: len(samples)}
    runner.close(state)
    np.testing.assert_allclose(samples, decoded(decoder, frames, [12]), atol=1e-6)


def test_marks_stand_where_their_frame_begins(runner: Code2WavRunner) -> None:
    state = opened(runner)
    runner.push(state, chunk(codes(3), [0, "Hello "], [2, "you "]))
    runner.push(state, chunk(codes(2), [1, "there"]))
    marks, begins = [], 0
    for frames in (1, 2, 2):
        (output,) = runner.decode([(state, frames)])
        assert isinstance(output, dict)
        marks += [[begins + offset, text] for offset, text in output[MARKS]]
        begins += len(output[AUDIO])
    runner.close(state)
    assert marks == [[0, "Hello "], [2 * 1920 - 555, "you "], [4 * 1920 - 555, "there"]]


def test_bad_frames_fail_their_stream_alone(runner: Code2WavRunner) -> None:
    good, bad = opened(runner), opened(runner)
    with pytest.raises(OmniError, match=r"codes from 64 to 64"):
        runner.push(bad, chunk(np.full((1, 16), 64)))
    runner.close(bad)
    runner.push(good, chunk(codes(2)))
    (output,) = runner.decode([(good, 2)])
    assert isinstance(output, dict)
    runner.close(good)


def test_a_closed_stream_frees_its_place(runner: Code2WavRunner) -> None:
    for _ in range(5):
        states = [opened(runner) for _ in range(3)]
        with pytest.raises(OmniError, match="no free slot"):
            opened(runner)
        for state in states:
            runner.close(state)


def test_frames_are_taken_when_their_batch_is_begun_and_sound_when_it_is_collected(
    runner: Code2WavRunner, decoder: StreamDecoder
) -> None:
    """A stream may be in two batches at once, and the sound of one that has ended is still its own."""
    assert isinstance(runner, SubmittingVocoder)
    state, frames = opened(runner), codes(5)
    runner.push(state, chunk(frames, [0, "Hello "], [3, "you"]))
    begun = [runner.submit([(state, 2)]), runner.submit([(state, 3)])]
    assert runner.ready(state, True) == 0
    runner.close(state)
    outputs = [output for submission in begun for output in submission.collect()]
    samples = [output[AUDIO] for output in outputs if isinstance(output, dict)]
    marks = [output[MARKS] for output in outputs if isinstance(output, dict)]
    np.testing.assert_allclose(np.concatenate(samples), decoded(decoder, frames, [5]), atol=1e-6)
    assert marks == [[[0, "Hello "]], [[1920, "you"]]]


def test_a_batch_can_be_interrupted(runner: Code2WavRunner) -> None:
    """What interrupts nothing changes nothing: a batch that begins later is computed."""
    assert isinstance(runner, Interruptible)
    runner.interrupt()
    state = opened(runner)
    runner.push(state, chunk(codes(1)))
    [output] = runner.decode([(state, 1)])
    assert isinstance(output, dict)
    assert len(output[AUDIO]) == 1920 - 555
    runner.close(state)
