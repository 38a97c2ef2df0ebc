"""Load with interruptions at random, a stage process that is killed in the middle, and what must hold afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median

from benchmarks.full_size.device import Memory
from benchmarks.full_size.figures import FRAME_SAMPLES, HEAD, Figures, figures, line
from benchmarks.full_size.people import Interruption, Person, Speech, Turn
from tests.support.pipelines import held, until_idle
from voice_omni.client.interface import Message
from voice_omni.client.pipeline import PipelineClient
from voice_omni.pipeline.launcher import Launcher

INTERRUPTED = 0.6
"""The share of turns that are."""
REMEMBERED = 6
"""Earlier turns that a request brings along."""
SAMPLES = 120
"""How often memory and files are looked at."""
MEMORY_GROWTH = 0.005
FILES_GROWTH = 8
EXCUSED = frozenset({"stage_died", "stage_unavailable"})
"""What a request may be told while a stage is away."""


@dataclass(frozen=True, slots=True)
class Plan:
    """``killed``: the stage whose process dies half-way."""

    people: int
    seconds: float
    speech: Speech
    killed: str
    seed: int = 1


@dataclass(slots=True)
class Sample:
    gpu: int
    files: int
    resident: int


@dataclass(slots=True)
class Outcome:
    """``before`` and ``after`` the death: what the processes held. ``away_s``: until the killed stage was back.
    ``answered_after``: complete answers to turns that began later. ``excused``: failures owing to the death.
    ``figures``: of the turns that the death did not touch."""

    answered: int = 0
    interrupted: int = 0
    answered_after: int = 0
    figures: Figures | None = None
    away_s: float = float("nan")
    excused: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    left: dict[str, int] = field(default_factory=dict)
    before: list[Sample] = field(default_factory=list)
    after: list[Sample] = field(default_factory=list)

    def faults(self) -> list[str]:
        """What was not as it must be."""
        found = [f"{count} turns failed with {code}" for code, count in self.failed.items()]
        found += [f"still held at the end: {name} {count}" for name, count in self.left.items()]
        if not self.answered_after:
            found.append("no turn succeeded after the death")
        for name, samples in (("before", self.before), ("after", self.after)):
            gpu, files = (growth([getattr(each, kind) for each in samples]) for kind in ("gpu", "files"))
            used = max((each.gpu for each in samples), default=0)
            if gpu > MEMORY_GROWTH * used:
                found.append(f"GPU memory grew by {gpu / 1e6:.0f} MB {name} the death")
            if files > FILES_GROWTH:
                found.append(f"open files grew by {files:.0f} {name} the death")
        return found

    def report(self) -> str:
        lost = sum(self.excused.values())
        lines = [
            f"{self.answered} answers, {self.interrupted} interrupted, {lost} lost with the stage",
            f"the killed stage was back after {self.away_s:.1f} s; {self.answered_after} answers since",
        ]
        for name, samples in (("before", self.before), ("after", self.after)):
            grown = {kind: growth([getattr(each, kind) for each in samples]) for kind in ("gpu", "files", "resident")}
            lines.append(
                f"growth {name} the death: GPU memory {grown['gpu'] / 1e6:+.0f} MB, open files {grown['files']:+.0f},"
                f" resident memory {grown['resident'] / 1e6:+.0f} MB"
            )
        if self.figures is not None:
            lines += ["", HEAD, line("all turns apart from the death's", self.figures, "-"), ""]
        lines += [f"FAULT: {fault}" for fault in self.faults()] or ["nothing is left, nothing has grown"]
        return "\n".join(lines)


def growth(values: Sequence[float]) -> float:
    """How far the last third of the values lies above the second one, at the median: the first is for warming up."""
    third = len(values) // 3
    return median(values[-third:]) - median(values[third : 2 * third]) if third else 0.0


class Endurance:
    """Runs a :class:`Plan`. Everybody's last turn, after the killed stage is back, is not interrupted."""

    def __init__(self, pipeline: Launcher, plan: Plan, memory: Memory) -> None:
        self._pipeline = pipeline
        self._plan = plan
        self._memory = memory
        self._outcome = Outcome()
        self._until = 0.0
        self._died: float | None = None
        self._back: float | None = None
        self._undisturbed: list[Turn] = []

    async def run(self) -> Outcome:
        plan, chance = self._plan, Random(self._plan.seed)
        self._until = time.monotonic() + plan.seconds
        names = [f"person {plan.seed}.{number}" for number in range(plan.people)]
        lives = [self._live(name, Random(chance.getrandbits(64))) for name in names]
        sampling = asyncio.create_task(self._sample())
        try:
            await asyncio.gather(self._kill(), *lives)
        finally:
            sampling.cancel()
        await until_idle(self._pipeline)
        self._outcome.left = held(self._pipeline)
        rate = PipelineClient.of(self._pipeline).output_sample_rate
        self._outcome.figures = figures(self._undisturbed, rate, FRAME_SAMPLES)
        return self._outcome

    async def _live(self, name: str, chance: Random) -> None:
        speech = self._plan.speech
        person = Person(PipelineClient.of(self._pipeline), speech, name, chance)
        history: list[Message] = []
        await asyncio.sleep(chance.uniform(0, speech.duration_s))
        while (began := time.monotonic()) < self._until or self._back is None:
            interruption = None
            if chance.random() < INTERRUPTED:
                # In every state: while the person speaks, before the answer and in it.
                interruption = Interruption(chance.uniform(0, 2.5 * speech.duration_s), once_heard=False)
            turn = await person.turn(interruption=interruption, messages=tuple(history))
            self._count(turn, began)
            if turn.failure is not None:
                await asyncio.sleep(0.2)
            history += [Message("user", f"This is what {name} said."), Message("assistant", "And this the answer.")]
            del history[: -2 * REMEMBERED]
        began = time.monotonic()
        self._count(await person.turn(messages=tuple(history)), began)

    def _count(self, turn: Turn, began: float) -> None:
        outcome = self._outcome
        if self._died is None or (self._back is not None and began > self._back):
            self._undisturbed.append(turn)
        if turn.failure is not None:
            self._failed(turn.failure.code, began)
        elif turn.complete:
            outcome.answered += 1
            outcome.answered_after += self._back is not None and began > self._back
        else:
            outcome.interrupted += 1

    def _failed(self, code: str, began: float) -> None:
        now = time.monotonic()
        # A request that began while the stage was away, or was under way when it died.
        away = self._died is not None and now > self._died and (self._back is None or began < self._back)
        (self._outcome.excused if away and code in EXCUSED else self._outcome.failed)[code] += 1

    async def _kill(self) -> None:
        pipeline = self._pipeline
        await asyncio.sleep(self._plan.seconds / 2)
        process = pipeline.settings.process_of(self._plan.killed)
        worker = pipeline.supervisor.workers[f"{process}.0"]
        if worker.process is None:
            raise RuntimeError(f"{worker.name} does not run")
        self._died = time.monotonic()
        os.kill(worker.process.pid, signal.SIGKILL)
        async with asyncio.timeout(pipeline.settings.limits.start_deadline_s):
            # Nothing reports that a process is back.
            while worker.restarts == 0 or not pipeline.ready:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        self._back = time.monotonic()
        self._outcome.away_s = self._back - self._died
        self._until = max(self._until, self._back + self._plan.seconds / 4)

    async def _sample(self) -> None:
        while True:
            await asyncio.sleep(self._plan.seconds / SAMPLES)
            processes = self._pipeline.health()["processes"].values()
            pids = [each["pid"] or os.getpid() for each in processes]
            resident = sum(each["rss_bytes"] for each in processes)
            sample = Sample(self._memory.total, sum(map(_open_files, pids)), resident)
            if self._died is None:
                self._outcome.before.append(sample)
            elif self._back is not None:
                self._outcome.after.append(sample)


def _open_files(pid: int) -> int:
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return 0  # it has just died
