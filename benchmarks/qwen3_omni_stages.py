"""Where the time to first audio of the Qwen3-Omni pipeline goes, and how much of it is not the model's own.

    python -m benchmarks.qwen3_omni_stages [--model FOLDER] [--rounds 100] [--seconds 1.4]

Speech is streamed in as it would be spoken; the clock starts when it ends and stops with the first sound of the answer.
In the same run, round by round, the same runners and engines make the same answers in this process with nothing
between them, and the sound comes to them at the same pace: a processor that has waited for the end of a sentence
computes slower at first, whoever wakes it. That is the model's own compute. What the pipeline takes longer is
orchestration: hops between processes, queues, fan-in. Answers are one frame long, so that the model does not compute
what comes later while the first sound is made: that would count as waiting for a core. Without ``--model`` both run on
the tiny checkpoint of the tests, where the model itself takes little.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch

from benchmarks.full_size.figures import PARTS, moments
from benchmarks.full_size.people import noise
from benchmarks.machine import describe
from tests.support.tiny_qwen3_omni import build
from voice_omni.client.interface import AudioDelta, Done, GenerateRequest
from voice_omni.client.pipeline import PipelineClient
from voice_omni.config import load
from voice_omni.config.settings import Settings
from voice_omni.engines.interface import RowOutput, StreamedEngine
from voice_omni.model_runner.interface import Chunk, Emit, RowOutcome, StreamedRunner, Work
from voice_omni.models.qwen3_omni import stages
from voice_omni.models.qwen3_omni.pipeline import PIPELINE
from voice_omni.pipeline.launcher import Launcher
from voice_omni.pipeline.spec import StageContext
from voice_omni.proto.payload import CLIENT, OmniRequest, StagePayload

CHUNK = 320
"""Samples of sound at once: 20 ms."""
TOKENS, FRAMES = 2, 1
"""Of an answer. Its last token is not spoken."""
LAYOUT = Path(__file__).parent.parent / "configs" / "qwen3-omni.yaml"


def sound(seconds: float, number: int) -> np.ndarray:
    """Another one for each round."""
    return noise(seconds, PIPELINE.input_sample_rate, 100 + number)


@dataclass
class Times:
    """Milliseconds from the end of the sound: what each part took, in the order of :data:`PARTS`."""

    parts: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in PARTS})

    def add(self, moments: Sequence[float]) -> None:
        for name, start, stop in zip(PARTS, moments, moments[1:], strict=False):
            self.parts[name].append((stop - start) * 1000)

    @property
    def totals(self) -> list[float]:
        rounds = zip(*(times for times in self.parts.values() if times), strict=True)
        return [sum(each) for each in rounds]


# -- the pipeline ------------------------------------------------------------------------------------------------------


async def through_the_pipeline(pipeline: Launcher, samples: np.ndarray) -> tuple[float, ...]:
    """The moments at which each part was through, the end of the sound first."""
    reply = await PipelineClient.of(pipeline).open(GenerateRequest(max_output_tokens=TOKENS, seed=1))
    ended = asyncio.get_running_loop().create_future()

    async def speak() -> None:
        begin = time.monotonic()
        for start in range(0, len(samples), CHUNK):
            await asyncio.sleep(begin + start / PIPELINE.input_sample_rate - time.monotonic())
            await reply.send_audio(samples[start : start + CHUNK])
        # The last sound has been taken in: what is left begins with the end.
        await asyncio.sleep(0.05)
        ended.set_result(time.monotonic())
        await reply.end_audio()

    speaking = asyncio.create_task(speak())
    first: float | None = None
    async for event in reply:
        if isinstance(event, AudioDelta) and first is None:
            first = time.monotonic()
        if isinstance(event, Done):
            timings = event.timings
    await speaking
    if first is None:
        raise RuntimeError("the answer had no sound")
    return moments(await ended, timings, first)


# -- the model alone ---------------------------------------------------------------------------------------------------


class Alone:
    """The stages' runners and engines, called one after the other."""

    def __init__(self, settings: Settings, model: str) -> None:
        def context(stage: str) -> StageContext:
            return StageContext(stage, settings.stages[stage].options, "cpu", 1, model)

        self._preprocess = stages.preprocess(context("preprocess"))
        self._audio = stages.audio_encoder(context("audio_encoder"))
        self._thinker, self._thinking = stages.thinker(context("thinker"))
        self._talker, self._talking = stages.talker(context("talker"))
        self._code2wav = stages.code2wav(context("code2wav"))

    def answer(self, number: int, samples: np.ndarray) -> tuple[float, ...]:
        params = {"max_output_tokens": TOKENS, "seed": 1}
        request = OmniRequest(request_id=f"alone {number}", route="speech", params=params)
        payload = StagePayload(request)
        name = request.request_id
        written = self._run(self._preprocess, name, self._preprocess.open(payload), [], True)
        hearing = self._audio.open(payload)
        thought, row = self._thinker.open(payload)
        self._thinking.add(row)
        speech, spoken_row = self._talker.open(payload)
        self._talking.add(spoken_row)
        shown = self._think(name, thought, [emit for emit in written if emit.targets == ("thinker",)], False)[0]
        window = PIPELINE.input_sample_rate
        begin = time.monotonic()
        for start in range(0, len(samples), window):
            spoken = begin + min(start + window, len(samples)) / PIPELINE.input_sample_rate
            time.sleep(max(0.0, spoken - time.monotonic()))
            rows = self._run(self._audio, name, hearing, [Chunk(CLIENT, {"audio": samples[start : start + window]})])
            shown += self._think(name, thought, rows, False)[0]
        self._talk(name, speech, shown, False)

        moments = [time.monotonic()]
        rows = self._run(self._audio, name, hearing, [], True)
        moments.append(time.monotonic())
        shown, outputs = self._think(name, thought, rows, True)
        while not any(output.tokens for output in outputs):
            outputs = self._thinking.step()
        for output in outputs:
            shown += self._thinker.advance(thought, output).emits
        moments.append(time.monotonic())
        frames = self._talk(name, speech, [emit for emit in shown if emit.targets == ("talker",)], True)
        moments.append(time.monotonic())
        stream = self._code2wav.open(payload)
        self._code2wav.push(stream, Chunk("talker", frames[0].data))
        self._code2wav.decode([(stream, 1)])
        moments.append(time.monotonic())

        for engine in (self._thinking, self._talking):
            engine.remove(name)
            engine.step()
        self._code2wav.close(stream)
        return tuple(moments)

    def _run(self, runner: Any, name: str, state: Any, chunks: Sequence[Chunk], ended: bool = False) -> list[Emit]:
        outcome = runner.run([Work(name, state, chunks, ended)])[0]
        emits: list[Emit] = outcome.emits
        return [*emits, *self._run(runner, name, state, [], ended)] if outcome.more else emits

    def _think(self, name: str, state: Any, emits: Sequence[Emit], ended: bool) -> tuple[list[Emit], list[RowOutput]]:
        chunks = [Chunk("encoder", emit.data) for emit in emits]
        outcome = _pushed(self._thinker, self._thinking, Work(name, state, chunks, ended))
        outputs = self._thinking.step()
        shown = list(outcome.emits)
        if not ended:
            for output in outputs:
                shown += self._thinker.advance(state, output).emits
        return shown, outputs

    def _talk(self, name: str, state: Any, emits: Sequence[Emit], until_a_frame: bool) -> list[Emit]:
        chunks = [Chunk("thinker", emit.data) for emit in emits]
        _pushed(self._talker, self._talking, Work(name, state, chunks, False))
        frames: list[Emit] = []
        while self._talking.busy and not (until_a_frame and frames):
            for output in self._talking.step():
                frames += self._talker.advance(state, output).emits
        return frames


def _pushed(runner: StreamedRunner[Any], engine: StreamedEngine, work: Work[Any]) -> RowOutcome:
    (outcome,) = runner.push([work])
    if outcome.error is not None:
        raise outcome.error
    if outcome.feed is not None:
        engine.feed(work.request_id, outcome.feed)
    return outcome


# -- the table ---------------------------------------------------------------------------------------------------------


def interval(differences: Sequence[float]) -> tuple[float, float]:
    """Where the median lies with 95 % confidence, by the sign test: no distribution is assumed."""
    ordered = sorted(differences)
    below = max(0, math.floor(len(ordered) / 2 - 0.98 * math.sqrt(len(ordered))))
    return ordered[below], ordered[-1 - below]


def table(pipeline: Times, alone: Times) -> str:
    """Medians. Orchestration is the median of what the pipeline took longer in each round: rounds differ by more than
    that, and both of a pair fall into the same moments of a machine that others use as well."""
    lines = ["| part | pipeline, ms | the model's own, ms |", "|---|---|---|"]
    for name in PARTS:
        own = f"{statistics.median(alone.parts[name]):.1f}" if alone.parts[name] else "-"
        lines.append(f"| {name} | {statistics.median(pipeline.parts[name]):.1f} | {own} |")
    whole, own_total = statistics.median(pipeline.totals), statistics.median(alone.totals)
    lines.append(f"| total | {whole:.1f} | {own_total:.1f} |")
    differences = [each - own for each, own in zip(pipeline.totals, alone.totals, strict=True)]
    low, high = interval(differences)
    lines.append(
        f"\nOrchestration: {statistics.median(differences):.1f} ms, with 95 % confidence {low:.1f} to {high:.1f} ms "
        f"({len(differences)} rounds)."
    )
    return "\n".join(lines)


async def measure(model: str, rounds: int, seconds: float) -> tuple[Times, Times]:
    overrides = [f"model={model}", f"stages.talker.options.max_new_tokens={FRAMES + 1}"]
    settings = load(PIPELINE, LAYOUT, overrides, {}).settings
    processes = {name: msgspec.structs.replace(process, threads=1) for name, process in settings.processes.items()}
    settings = msgspec.structs.replace(settings, processes=processes)
    torch.set_num_threads(1)
    alone = Alone(settings, model)
    with_pipeline, without = Times(), Times()
    async with Launcher(PIPELINE, settings) as pipeline:
        for number in range(-2, rounds):
            samples = sound(seconds, number)
            moments = await through_the_pipeline(pipeline, samples)
            own = alone.answer(number, samples)
            if number >= 0:  # the first ones warm up
                with_pipeline.add(moments)
                without.add(own)
    return with_pipeline, without


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a checkpoint's folder; by default a tiny one is made")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=1.4, help="of speech")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        model = options.model or str(build(Path(folder) / "tiny"))
        pipeline, alone = asyncio.run(measure(model, options.rounds, options.seconds))
    print(describe())
    print(table(pipeline, alone))


if __name__ == "__main__":
    main()
