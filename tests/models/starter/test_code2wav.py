"""Latent frames to samples: exact however the stream is cut, whatever runs beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.models.starter.speaking import Samples, decoded, marks_of, payload, talk
from voice_omni.model_runner.interface import Chunk
from voice_omni.models.starter import talker
from voice_omni.models.starter.code2wav import Code2WavRunner, build
from voice_omni.models.starter.options import Code2WavOptions, TalkerOptions
from voice_omni.models.starter.voice import Model, open_voice
from voice_omni.pipeline.spec import StageContext
from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import Data

TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def vocoder() -> Code2WavRunner:
    return build(StageContext("code2wav", Code2WavOptions(), "cpu", 1))


@pytest.fixture(scope="module")
def decoder() -> Any:
    return Model(open_voice().folder / "decoder.onnx", 1)


@dataclass(frozen=True)
class Speech:
    """Clauses as the talker streams them, and what one decode of each gives."""

    chunks: list[Data]
    samples: Samples
    marks: list[tuple[int, str]]


def one_decode(chunks: list[Data], decoder: Any) -> Speech:
    parts: list[Samples] = []
    marks: list[tuple[int, str]] = []
    segment: list[Samples] = []
    frames = samples = 0
    for chunk in chunks:
        marks += [(samples + (frames + offset) * 256, text) for offset, text in chunk["marks"]]
        segment.append(chunk["latents"])
        frames += len(chunk["latents"])
        if chunk["end"]:
            if frames:
                (whole,) = decoder.run(["samples"], {"latents": np.concatenate(segment).T[None]})
                parts.append(np.clip(whole.ravel() * np.float32(Code2WavOptions().gain), -1, 1))
            parts.append(np.zeros(chunk["pause"], np.float32))
            samples += frames * 256 + chunk["pause"]
            segment, frames = [], 0
    return Speech(chunks, np.concatenate(parts), marks)


@pytest.fixture(scope="module")
def speech(decoder: Any) -> Speech:
    runner = talker.build(StageContext("talker", TalkerOptions(), "cpu", 1))
    chunks, _ = talk(runner, ["Well, hello there. 😀\n\nIs it so?"])
    return one_decode(chunks, decoder)


def noise(frames: int, seed: int = 0) -> Samples:
    return np.random.default_rng(seed).standard_normal((frames, 192)).astype(np.float32)


def chunk(frames: int, *, end: bool = False, pause: int = 0, marks: list[Any] | None = None, seed: int = 0) -> Data:
    return {"latents": noise(frames, seed), "end": end, "pause": pause, "marks": marks or []}


def recut(chunks: list[Data], sizes: list[int]) -> list[Data]:
    """The same segments in chunks of other sizes."""
    pieces: list[Data] = []
    turn = 0
    for each in chunks:
        start, frames = 0, len(each["latents"])
        while True:
            size = sizes[turn % len(sizes)]
            turn += 1
            stop = min(start + size, frames)
            last = stop == frames
            inside = [[at - start, text] for at, text in each["marks"] if start <= at < stop or (last and at >= start)]
            pieces.append(
                {
                    "latents": each["latents"][start:stop],
                    "end": each["end"] and last,
                    "pause": each["pause"] if last else 0,
                    "marks": inside,
                }
            )
            if last:
                break
            start = stop
    return pieces


def play(vocoder: Code2WavRunner, chunks: list[Data], sizes: list[int]) -> tuple[Samples, list[tuple[int, str]]]:
    """All samples and marks of a stream that is decoded as soon as its frames come, in pieces of ``sizes``."""
    stream = vocoder.open(payload())
    turns = iter(range(10**9))
    outputs: list[Data] = []
    for each in chunks:
        vocoder.push(stream, Chunk("talker", each))
        outputs += decoded(vocoder, stream, False, lambda: sizes[next(turns) % len(sizes)])
    outputs += decoded(vocoder, stream, True, lambda: sizes[next(turns) % len(sizes)])
    samples = np.concatenate([output["audio"] for output in outputs])
    assert vocoder.result(stream) == {"samples": len(samples)}
    vocoder.close(stream)
    begins = np.cumsum([0, *(len(output["audio"]) for output in outputs)])
    marks = [
        (int(begin) + at, text) for begin, output in zip(begins, outputs, strict=False) for at, text in output["marks"]
    ]
    return samples, marks


SIZES = st.lists(st.integers(3, 70), min_size=1, max_size=6)


@settings(max_examples=8, deadline=None)
@given(cuts=SIZES, sizes=SIZES)
@example(cuts=[1], sizes=[1])
def test_any_cut_gives_the_samples_of_one_decode(
    cuts: list[int], sizes: list[int], vocoder: Code2WavRunner, speech: Speech
) -> None:
    samples, marks = play(vocoder, recut(speech.chunks, cuts), sizes)
    assert len(samples) == len(speech.samples)
    assert np.abs(samples - speech.samples).max() < TOLERANCE
    assert marks == speech.marks


def test_the_marks_carry_the_whole_text_at_their_samples(vocoder: Code2WavRunner, speech: Speech) -> None:
    _, marks = play(vocoder, speech.chunks, [20])
    assert "".join(text for _, text in marks) == marks_of(speech.chunks)
    assert [at for at, _ in marks] == sorted(at for at, _ in marks)


@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_neighbours_change_nothing(data: st.DataObject, vocoder: Code2WavRunner, speech: Speech) -> None:
    """Streams that come and go, in batches of any make-up, and one that is closed in the middle."""
    count = data.draw(st.integers(2, 4))
    streams = [vocoder.open(payload()) for _ in range(count)]
    for stream in streams:
        for each in speech.chunks:
            vocoder.push(stream, Chunk("talker", each))
    heard: list[list[Samples]] = [[] for _ in streams]
    aborted = data.draw(st.integers(0, count - 1))
    steps = data.draw(st.integers(0, 5))
    while alive := [index for index, stream in enumerate(streams) if vocoder.ready(stream, True)]:
        if steps == 0 and aborted in alive:
            vocoder.close(streams[aborted])
            alive.remove(aborted)
        steps -= 1
        chosen = data.draw(st.lists(st.sampled_from(alive), min_size=1, unique=True)) if alive else []
        sizes = [data.draw(st.integers(10, 60)) for _ in chosen]
        outputs = vocoder.decode([(streams[index], size) for index, size in zip(chosen, sizes, strict=True)])
        for index, output in zip(chosen, outputs, strict=True):
            assert not isinstance(output, Exception)
            heard[index].append(output["audio"])
    for index, pieces in enumerate(heard):
        samples = np.concatenate([np.zeros(0, np.float32), *pieces])
        if index != aborted:
            assert len(samples) == len(speech.samples)
        assert np.abs(samples - speech.samples[: len(samples)]).max(initial=0) < TOLERANCE


def test_frames_wait_for_their_right_context_unless_the_segment_ends(vocoder: Code2WavRunner) -> None:
    stream = vocoder.open(payload())
    vocoder.push(stream, Chunk("talker", chunk(10)))
    assert vocoder.ready(stream, False) == 0
    vocoder.push(stream, Chunk("talker", chunk(15)))
    assert vocoder.ready(stream, False) == 15
    vocoder.push(stream, Chunk("talker", chunk(5, end=True)))
    assert vocoder.ready(stream, False) == 30
    vocoder.push(stream, Chunk("talker", chunk(12)))
    assert vocoder.ready(stream, False) == 32


def test_a_decode_gives_no_more_than_was_asked_except_for_the_pause(vocoder: Code2WavRunner) -> None:
    stream = vocoder.open(payload())
    vocoder.push(stream, Chunk("talker", chunk(30, end=True, pause=512)))
    vocoder.push(stream, Chunk("talker", chunk(30, end=True, seed=1)))
    lengths = [len(output["audio"]) for output in decoded(vocoder, stream, True, lambda: 20)]
    assert lengths == [20 * 256, 20 * 256 + 512, 20 * 256]


def test_a_segment_without_frames_gives_its_pause_and_marks(vocoder: Code2WavRunner) -> None:
    stream = vocoder.open(payload())
    vocoder.push(stream, Chunk("talker", chunk(0, end=True, pause=256, marks=[[0, "😀"]])))
    assert vocoder.ready(stream, False) == 1
    (output,) = vocoder.decode([(stream, 1)])
    assert not isinstance(output, Exception)
    assert len(output["audio"]) == 256
    assert output["marks"] == [[0, "😀"]]
    assert vocoder.ready(stream, True) == 0


def test_speech_is_loud_and_does_not_clip(speech: Speech) -> None:
    level = np.sqrt(np.mean(speech.samples[np.abs(speech.samples) > 0.01] ** 2))
    assert 0.05 < level < 0.3
    assert np.abs(speech.samples).max() < 0.99


def test_latents_of_another_shape_are_refused(vocoder: Code2WavRunner) -> None:
    stream = vocoder.open(payload())
    wrong = {"latents": np.zeros((4, 80), np.float32), "end": True, "pause": 0, "marks": []}
    with pytest.raises(OmniError, match=r"\[4, 80\]"):
        vocoder.push(stream, Chunk("talker", wrong))
