"""The starter pipeline, end to end: real recordings in real time through a real server; what it says is transcribed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import jiwer
import numpy as np
import pytest
import soundfile
import soxr
from transformers.models.whisper.english_normalizer import EnglishTextNormalizer

from tests.support.patience import PATIENCE_S
from tests.support.pipelines import patient
from tests.support.server_process import Heard, call, server_process
from voice_omni.audio.pcm import Samples
from voice_omni.cli.realtime_client import RATE
from voice_omni.client.interface import GenerateRequest, Transcript
from voice_omni.client.pipeline import PipelineClient
from voice_omni.config.settings import default_settings
from voice_omni.models.starter.pipeline import PIPELINE
from voice_omni.pipeline.launcher import Launcher

DATA = Path(__file__).parents[1] / "data"
LABELS = [json.loads(line) for line in (DATA / "speech" / "manifest.jsonl").read_text().splitlines()]
AT_ONCE = 2
"""Callers at the same time: as many as there are cores."""

normalise = EnglishTextNormalizer({})


def load(path: Path) -> Samples:
    samples, rate = soundfile.read(path, dtype="float32")
    return soxr.resample(samples, rate, RATE)


def word_errors(references: list[str], hypotheses: list[str]) -> float:
    """Word error rate over all pairs, after the normalisation that Whisper was evaluated with."""
    return jiwer.wer([normalise(text) for text in references], [normalise(text) for text in hypotheses])


async def call_with_all(recordings: list[Samples], patience_s: float, at_once: int = AT_ONCE) -> list[Heard]:
    line = asyncio.Semaphore(at_once)
    async with server_process() as url:

        async def one(recording: Samples) -> Heard:
            async with line:
                return await call(url, recording, patience_s=patience_s)

        return await asyncio.gather(*(one(recording) for recording in recordings))


async def transcribe_all(sounds: list[Samples]) -> list[str]:
    """Through the recogniser alone; what is longer than its window is its own affair."""
    texts = []
    launcher = Launcher(PIPELINE, patient(default_settings(PIPELINE)), stages=PIPELINE.routes["transcribe"])
    async with launcher as pipeline:
        for sound in sounds:
            reply = await PipelineClient.of(pipeline).open(GenerateRequest(input="speech", output="transcript"))
            sending = asyncio.create_task(_send(reply, soxr.resample(sound, RATE, PIPELINE.input_sample_rate)))
            text = ""
            async for event in reply:
                if isinstance(event, Transcript):
                    text = event.text
            await sending
            texts.append(text)
    return texts


async def _send(reply, samples: Samples) -> None:  # type: ignore[no-untyped-def]
    for start in range(0, len(samples), 1600):
        await reply.send_audio(samples[start : start + 1600])
    await reply.end_audio()


@pytest.fixture(scope="module")
def answers() -> dict[str, Heard]:
    """Every labelled recording, played to one server."""
    recordings = [load(DATA / "speech" / label["file"]) for label in LABELS]
    heard = asyncio.run(call_with_all(recordings, patience_s=PATIENCE_S))
    return {label["file"]: one for label, one in zip(LABELS, heard, strict=True)}


def test_every_recording_is_understood(answers: dict[str, Heard]) -> None:
    references = [label["text"] for label in LABELS]
    assert word_errors(references, [answers[label["file"]].transcript for label in LABELS]) < 0.12


def test_every_recording_gets_one_turn_or_one_for_each_sentence(answers: dict[str, Heard]) -> None:
    for name, heard in answers.items():
        assert heard.count("response.done") >= 1, name
        assert len(heard.samples) > RATE / 2, name


def test_the_capital_of_france_is_paris(answers: dict[str, Heard]) -> None:
    assert "Paris" in answers["question-01.flac"].answer


async def test_what_is_heard_is_what_the_transcript_says(answers: dict[str, Heard]) -> None:
    spoken = [heard for heard in answers.values() if heard.answer]
    texts = await transcribe_all([heard.samples for heard in spoken])
    assert word_errors([heard.answer for heard in spoken], texts) < 0.10


async def test_silence_noise_and_music_are_no_turns() -> None:
    chance = np.random.default_rng(3)
    white = chance.standard_normal(6 * RATE).astype(np.float32)
    pink = np.cumsum(white) - np.convolve(np.cumsum(white), np.ones(4001) / 4001, mode="same")
    hum = np.sin(2 * np.pi * 50 * np.arange(6 * RATE) / RATE).astype(np.float32)
    sounds = {
        "silence": np.zeros(6 * RATE, np.float32),
        "white noise": 0.05 * white,
        "rumble": (0.1 * pink / np.abs(pink).max()).astype(np.float32),
        "hum": 0.2 * hum,
        **{path.stem: load(path) for path in sorted((DATA / "music").glob("*.flac"))},
    }
    # All at the same time: where there is no turn, nothing is computed but that there is none.
    heard = await call_with_all(list(sounds.values()), patience_s=3, at_once=len(sounds))
    turns = {
        name: one.count("conversation.item.added") + one.count("response.created")
        for name, one in zip(sounds, heard, strict=True)
    }
    assert turns == dict.fromkeys(sounds, 0)
