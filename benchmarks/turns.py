"""Turn-taking on labelled recordings: silence alone against silence and Smart Turn, and ways to treat interruptions.

    python -m benchmarks.turns [--noise clean 20 10] [--judge-ms 60]

Every recording goes through a whole session (real voice activity, real end-of-turn model, a scripted pipeline whose
recogniser knows the labels) on a clock that jumps, so that an hour of sound takes minutes and no result depends on the
machine. ``--judge-ms`` is what a judgement takes on that clock.

Ends of turns. *Cut in*: the turn was committed although its speaker went on. *Missed*: not committed within 3 s of its
end. *Delay*: from the labelled end of speech to the commit, of the others.

Interruptions: the sound begins 1.5 s into an answer of 10 s. *False*: a noise or a backchannel ended the answer.
*Missed*: words that meant to interrupt did not. *Delay*: from their labelled onset to the end of the answer.

Noise is pink, at these decibels below the speech.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from benchmarks.machine import describe
from tests.support.judge import InlineJudge
from tests.support.scripted import Script, ScriptedClient
from tests.support.speech import recordings
from tests.support.talk import RATE, Talk, quiet
from tests.support.virtual_time import VirtualTimeLoop
from voice_omni.session.options import SessionOptions
from voice_omni.session.silero import SileroModel
from voice_omni.session.smart_turn import SmartTurnModel
from voice_omni.session.weights import SILERO_VAD, SMART_TURN
from voice_omni.weights import fetch

Samples = NDArray[np.float32]

FOLDER = Path(__file__).parent / "data" / "turns"
_LEVEL: Final = 0.06
_MISSED_S: Final = 3.0
_INTERRUPTION_S: Final = 1.5
_ANSWER: Final = " ".join(f"word{number}" for number in range(20))

ENDS: Final[dict[str, SessionOptions]] = {
    "silence 500 ms": SessionOptions(),
    "silence 1000 ms": SessionOptions(silence_duration_ms=1000),
    "semantic high": SessionOptions(turn_detection="semantic_vad", eagerness="high"),
    "semantic auto": SessionOptions(turn_detection="semantic_vad"),
}
INTERRUPTIONS: Final[dict[str, SessionOptions]] = {
    "onset": SessionOptions(),
    "500 ms": SessionOptions(interrupt_min_ms=500),
    "1 word": SessionOptions(interrupt_min_words=1),
    "no backchannels": SessionOptions(ignore_backchannels=True),
}


@dataclass(frozen=True)
class Clip:
    """A recording at 24 kHz. ``spoken``: its labelled stretches of the person's own sound, with their words."""

    name: str
    kind: str
    samples: Samples
    spoken: list[tuple[float, float, str]]

    def words(self, at: float) -> str:
        """What a recogniser that hears each word as soon as it is said knows by ``at`` seconds."""
        known: list[str] = []
        for start, end, text in self.spoken:
            words = text.split()
            known += words[: int(len(words) * min(1.0, max(0.0, (at - start) / (end - start))) + 1e-6)]
        return " ".join(known)


def clips() -> Iterable[Clip]:
    for each in recordings():
        spoken = [(each.speech_start, each.speech_end, each.text)]
        yield Clip(each.name, "plain", each.samples(RATE), spoken)
    for line in (FOLDER / "manifest.jsonl").read_text().splitlines():
        entry = json.loads(line)
        samples, rate = soundfile.read(FOLDER / entry["file"], dtype="float32")
        spoken = [
            (stretch["start"], stretch["end"], stretch["text"])
            for stretch in entry["stretches"]
            if stretch["role"] != "background"
        ]
        yield Clip(entry["file"], entry["kind"], soxr.resample(samples, rate, RATE).astype(np.float32), spoken)


def with_noise(samples: Samples, decibels: float | None) -> Samples:
    """Pink noise under all of it, always the same."""
    if decibels is None:
        return samples
    spectrum = np.fft.rfft(np.random.default_rng(5).standard_normal(len(samples)))
    noise = np.fft.irfft(spectrum / np.sqrt(np.maximum(np.arange(len(spectrum)), 1)), len(samples))
    return (samples + noise * (_LEVEL * 10 ** (-decibels / 20) / noise.std())).astype(np.float32)


@dataclass(frozen=True)
class Models:
    silero: SileroModel
    smart_turn: SmartTurnModel
    judge_s: float

    def talk(self, client: ScriptedClient, options: SessionOptions) -> Talk:
        return Talk(client, self.silero, options, judge=InlineJudge(self.smart_turn.probability, self.judge_s))


async def end_of_turn(clip: Clip, noise: float | None, options: SessionOptions, models: Models) -> list[float]:
    """When the session committed turns, seconds of the recording."""
    loop = asyncio.get_running_loop()
    script = Script(understand=lambda _: clip.words(loop.time() - began), answer="Yes.")
    async with models.talk(ScriptedClient(script), options) as talk:
        began = loop.time()
        await talk.say(with_noise(np.concatenate([clip.samples, quiet(6.0)]), noise))
        return [
            time - began
            for event, time in zip(talk.events, talk.times, strict=True)
            if event["type"] == "input_audio_buffer.committed"
        ]


async def interruption(clip: Clip, noise: float | None, options: SessionOptions, models: Models) -> float | None:
    """How long after the beginning of the recording the answer was ended; None if it was not."""
    loop = asyncio.get_running_loop()
    question = next(each for each in recordings() if each.name.startswith("question-10"))
    began = float("inf")

    def understand(_: Any) -> str:
        return question.text if loop.time() < began else clip.words(loop.time() - began)

    script = Script(understand=understand, answer=_ANSWER, word_seconds=0.5)
    async with models.talk(ScriptedClient(script), options) as talk:
        await talk.say(with_noise(question.samples(RATE), noise))
        await talk.until("response.output_audio.delta")
        await talk.say(with_noise(quiet(_INTERRUPTION_S), noise))
        began = loop.time()
        await talk.say(with_noise(np.concatenate([clip.samples, quiet(4.0)]), noise))
        cut = [
            time - began
            for event, time in zip(talk.events, talk.times, strict=True)
            if event["type"] == "input_audio_buffer.speech_started" and began < time < began + 6
        ]
        return cut[0] if cut else None


def run(work: Any) -> Any:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)


def delays(values: list[float]) -> str:
    if not values:
        return "-"
    ordered = sorted(values)
    return f"{statistics.median(ordered) * 1000:.0f} / {ordered[int(0.9 * (len(ordered) - 1))] * 1000:.0f} ms"


def ends(turns: list[Clip], noises: list[float | None], options: SessionOptions, models: Models) -> list[str]:
    cut_in: dict[str, list[int]] = {"plain": [0, 0], "pause": [0, 0], "hesitation": [0, 0], "background": [0, 0]}
    missed, late = 0, []
    for clip in turns:
        for noise in noises:
            end = max(stop for _, stop, _ in clip.spoken)
            begins = [start for start, _, _ in clip.spoken]
            commits = run(end_of_turn(clip, noise, options, models))
            cut_in[clip.kind][1] += 1
            cut_in[clip.kind][0] += any(start > commit for commit in commits for start in begins)
            last = [commit - end for commit in commits if commit > begins[-1]]
            if not last or last[-1] > _MISSED_S:
                missed += 1
            else:
                late.append(last[-1])
    total = sum(count for _, count in cut_in.values())
    return [*(f"{bad}/{count}" for bad, count in cut_in.values()), f"{missed}/{total}", delays(late)]


def cuts(over: list[Clip], noises: list[float | None], options: SessionOptions, models: Models) -> list[str]:
    false: dict[str, list[int]] = {"backchannel": [0, 0], "noise": [0, 0]}
    missed, meant, late = 0, 0, []
    for clip in over:
        for noise in noises:
            at = run(interruption(clip, noise, options, models))
            if clip.kind == "interruption":
                meant += 1
                missed += at is None
                late += [] if at is None else [at - clip.spoken[0][0]]
            else:
                false[clip.kind][1] += 1
                false[clip.kind][0] += at is not None
    return [*(f"{bad}/{count}" for bad, count in false.values()), f"{missed}/{meant}", delays(late)]


def table(heads: list[str], rows: dict[str, list[str]]) -> None:
    lines = [["policy", *heads], *([name, *cells] for name, cells in rows.items())]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description="turn-taking on labelled recordings")
    parser.add_argument("--noise", nargs="+", default=["clean", "20", "10"], help="decibels below the speech, or clean")
    parser.add_argument("--judge-ms", type=float, default=60.0, help="what a judgement takes")
    arguments = parser.parse_args()
    print(describe())
    noises = [None if noise == "clean" else float(noise) for noise in arguments.noise]
    silero = SileroModel(fetch(SILERO_VAD) / SILERO_VAD.files[0])
    smart_turn = SmartTurnModel(fetch(SMART_TURN) / SMART_TURN.files[0])
    models = Models(silero, smart_turn, arguments.judge_ms / 1000)
    every = list(clips())
    over = [clip for clip in every if clip.kind in ("backchannel", "noise", "interruption")]
    turns = [clip for clip in every if clip not in over]
    print(
        f"{len(turns)} turns and {len(over)} sounds over an answer, each with noise: {', '.join(arguments.noise)} dB\n"
    )
    heads = ["cut in: plain", "pause", "hesitation", "background", "missed", "delay, median / 90 %"]
    table(heads, {name: ends(turns, noises, options, models) for name, options in ENDS.items()})
    heads = ["false: backchannel", "noise", "missed", "delay, median / 90 %"]
    table(heads, {name: cuts(over, noises, options, models) for name, options in INTERRUPTIONS.items()})


if __name__ == "__main__":
    main()
