"""From the end of speech to the first audible sample of the answer, against a naive cascade of the same models.

    python -m benchmarks.voice_to_voice [--sessions 1 2 4] [--turns 11]

A server is started; each session plays labelled recordings to it in real time, 20 ms at a time, and listens as a client
with a plain player would. Latency is counted from the *labelled* end of speech, so the turn decision is part of it. The
stages' share is what the server reports for each answer.

The naive cascade (:mod:`benchmarks.naive_cascade`) waits for 500 ms of silence, transcribes, generates the whole
answer, speaks all of it, and then sends it, with the same weights on the same machine and as many sessions at once.

Barge-in: a second recording begins while the answer plays; counted from its labelled onset to the last moment at which
stale sound is heard: when the client, told that speech has started, clears its player, or when the last stale delta
comes, whichever is later.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr

from benchmarks.machine import describe
from benchmarks.naive_cascade import NaiveCascade
from voice_omni.audio.pcm import decode_pcm16
from voice_omni.cli.playback import Playback
from voice_omni.cli.realtime_client import RATE, RealtimeClient, open_session

SPEECH = Path(__file__).parent.parent / "tests" / "data" / "speech"
FRAME = RATE // 50
QUESTIONS = [f"question-{number:02}.flac" for number in (1, 2, 4, 6, 10, 3, 8, 5, 7, 9, 12)]
"""Every question of the set; question 11 is the interruption."""

STORY = "question-12.flac"
INTERRUPTION = "question-11.flac"


@dataclass(frozen=True)
class Recording:
    """float32 ``[samples]`` at 24 kHz, and where the speech in it begins and ends, in seconds."""

    name: str
    samples: np.ndarray
    onset: float
    end: float


@dataclass
class Result:
    """Seconds of each turn, and what the server says about it in milliseconds."""

    latencies: list[float] = field(default_factory=list)
    interruptions: list[float] = field(default_factory=list)
    timings: list[dict[str, Any]] = field(default_factory=list)
    unanswered: int = 0


def load(name: str) -> Recording:
    labels = (json.loads(line) for line in (SPEECH / "manifest.jsonl").read_text().splitlines())
    label = next(label for label in labels if label["file"] == name)
    samples, rate = soundfile.read(SPEECH / name, dtype="float32")
    return Recording(name, soxr.resample(samples, rate, RATE), label["speech_start"], label["speech_end"])


@asynccontextmanager
async def server() -> AsyncIterator[str]:
    """A server of its own process; gives its address."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "voice_omni.cli.main", "serve", "--port", "0"), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async for line in process.stdout:
            if address := re.search(rb"http://[\w.:]+", line):
                drain = asyncio.create_task(process.stdout.read())
                yield address.group().decode()
                drain.cancel()
                return
        raise SystemExit("the server did not start")
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


class Caller:
    """One session: a microphone that never stops, and a player."""

    def __init__(self, client: RealtimeClient) -> None:
        self._client = client
        self._now = asyncio.get_running_loop().time
        self._playback = Playback()
        self._queue: list[tuple[Recording, asyncio.Future[float]]] = []
        self._events: asyncio.Queue[tuple[float, dict[str, Any]]] = asyncio.Queue()
        self._tasks = [asyncio.create_task(self._speak()), asyncio.create_task(self._listen())]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _speak(self) -> None:
        """20 ms of a recording or of silence at a time, on absolute deadlines; a frame goes out when it is spoken."""
        silence = np.zeros(FRAME, np.float32)
        due, position = self._now(), 0
        current: Recording | None = None
        while True:
            if current is None and self._queue:
                current, began = self._queue.pop(0)
                position = 0
                began.set_result(due)
            frame = silence
            if current is not None:
                frame = current.samples[position : position + FRAME]
                position += FRAME
                if position >= len(current.samples):
                    current = None
            due += FRAME / RATE
            await asyncio.sleep(due - self._now())
            await self._client.append(np.pad(frame, (0, FRAME - len(frame))))

    async def _listen(self) -> None:
        async for event in self._client:
            self._events.put_nowait((self._now(), event))

    async def say(self, recording: Recording) -> float:
        """Begins with the next frame; when its first sample is spoken."""
        began: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._queue.append((recording, began))
        return await began

    async def ask(self, recording: Recording, result: Result) -> None:
        """One question, and its whole answer until that has been played."""
        ended = await self.say(recording) + recording.end
        audible: float | None = None
        try:
            async with asyncio.timeout(30):
                while True:
                    moment, event = await self._events.get()
                    if event["type"] == "response.output_audio.delta":
                        item = event["item_id"]
                        self._playback.push(item, decode_pcm16(_decode(event["delta"])), moment)
                        if audible is None and (audible := self._playback.first_audible(item)) is not None:
                            result.latencies.append(audible - ended)
                    elif event["type"] == "response.done" and event["response"]["status"] == "completed":
                        result.timings.append(event["response"].get("timings") or {})
                        break
        except TimeoutError:
            pass
        if audible is None:
            result.unanswered += 1
        await asyncio.sleep(max(0.3, self._playback.ends - self._now()))

    async def interrupt(self, question: Recording, words: Recording, result: Result) -> None:
        """Ask, wait until the answer is heard, speak over it."""
        await self.say(question)
        response: str | None = None
        stale: float | None = None
        speaking: asyncio.Task[float] | None = None
        complete = False
        while stale is None or not complete:
            moment, event = await asyncio.wait_for(self._events.get(), 30)
            match event["type"]:
                case "response.output_audio.delta":
                    if response is None:
                        response = event["response_id"]
                        speaking = asyncio.create_task(self._speak_later(words))
                    if stale is not None and event["response_id"] == response:
                        stale = moment
                case "input_audio_buffer.speech_started" if response is not None:
                    stale = moment
                case "response.done" if event["response"]["id"] == response:
                    complete = True
        assert speaking is not None
        onset = await speaking + words.onset
        result.interruptions.append(stale - onset)
        await self._quiet()

    async def _speak_later(self, words: Recording) -> float:
        await asyncio.sleep(0.3)
        return await self.say(words)

    async def _quiet(self) -> None:
        """Until the answer to the interruption is complete too."""
        while True:
            _, event = await asyncio.wait_for(self._events.get(), 30)
            if event["type"] == "response.done":
                await asyncio.sleep(0.5)
                return


def _decode(delta: str) -> bytes:
    import base64

    return base64.b64decode(delta)


async def measure(url: str, sessions: int, questions: Sequence[Recording]) -> Result:
    result = Result()

    async def one(number: int) -> None:
        async with open_session(url) as client:
            caller = Caller(client)
            await asyncio.sleep(number * 0.7)
            for turn in range(len(questions)):
                await caller.ask(questions[(turn + number) % len(questions)], result)
            await caller.close()

    await asyncio.gather(*(one(number) for number in range(sessions)))
    return result


async def measure_interruptions(url: str, question: Recording, words: Recording, rounds: int) -> Result:
    result = Result()
    for _ in range(rounds):
        async with open_session(url) as client:
            caller = Caller(client)
            await caller.interrupt(question, words, result)
            await caller.close()
    return result


async def measure_naive(sessions: int, questions: Sequence[Recording]) -> list[float]:
    """The same questions at the same pace; each session's answers are computed on a thread of its own."""
    cascade = await asyncio.to_thread(NaiveCascade)
    latencies: list[float] = []

    async def one(number: int) -> None:
        await asyncio.sleep(number * 0.7)
        for turn in range(len(questions)):
            question = questions[(turn + number) % len(questions)]
            heard = cascade.until_silence(question.samples, RATE)
            await asyncio.sleep(heard)
            began = time.monotonic()
            answer = await asyncio.to_thread(cascade.answer, question.samples[: int(heard * RATE)], RATE)
            spent = time.monotonic() - began
            latencies.append(heard - question.end + spent + answer.silence)
            await asyncio.sleep(answer.seconds + 0.3)

    await asyncio.gather(*(one(number) for number in range(sessions)))
    return latencies


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def stage_lines(timings: Sequence[dict[str, Any]]) -> list[str]:
    """Median milliseconds after the end of speech of what happened where."""
    lines = []
    for group in ("turn", "stages"):
        moments: dict[str, list[float]] = {}
        for timing in timings:
            for name, value in _flat(timing.get(group, {})):
                if value is not None:
                    moments.setdefault(name, []).append(value)
        ordered = sorted((statistics.median(values), name) for name, values in moments.items())
        lines += [f"    {median:>7.0f}  {name}" for median, name in ordered]
    return lines


def _flat(tree: dict[str, Any], prefix: str = "") -> list[tuple[str, float | None]]:
    flat: list[tuple[str, float | None]] = []
    for name, value in tree.items():
        flat += _flat(value, f"{prefix}{name} ") if isinstance(value, dict) else [(f"{prefix}{name}", value)]
    return flat


async def main() -> None:
    parser = argparse.ArgumentParser(description="voice-to-voice latency")
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--turns", type=int, default=11)
    parser.add_argument("--interruptions", type=int, default=12)
    options = parser.parse_args()
    print(describe())
    questions = [load(name) for name in QUESTIONS[: options.turns]]
    async with server() as url:
        await measure(url, 1, questions[:1])
        rows = [(sessions, await measure(url, sessions, questions)) for sessions in options.sessions]
        barge_in = await measure_interruptions(url, load(STORY), load(INTERRUPTION), options.interruptions)
    naive = {sessions: await measure_naive(sessions, questions) for sessions in options.sessions}
    print(f"{os.cpu_count()} cores; seconds from the labelled end of speech to the first audible sample")
    print("sessions  turns missed    p50    p95  naive p50    p95  ratio p50")
    for sessions, result in rows:
        mine, other = result.latencies, naive[sessions]
        p50 = percentile(mine, 0.5)
        print(
            f"{sessions:>8} {len(mine):>6} {result.unanswered:>6} {p50:>6.2f} {percentile(mine, 0.95):>6.2f}"
            f" {percentile(other, 0.5):>10.2f} {percentile(other, 0.95):>6.2f} {p50 / percentile(other, 0.5):>10.2f}"
        )
    for sessions, result in rows:
        print(f"\nmilliseconds after the end of speech as the server heard it, medians at {sessions} sessions")
        print("\n".join(stage_lines(result.timings)))
    stale = [seconds * 1000 for seconds in barge_in.interruptions]
    print(f"\nbarge-in, labelled onset to last stale sample: p50 {percentile(stale, 0.5):.0f} ms,", end=" ")
    print(f"p95 {percentile(stale, 0.95):.0f} ms ({len(stale)} interruptions)")


if __name__ == "__main__":
    asyncio.run(main())
