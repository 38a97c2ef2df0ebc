"""People who talk with a pipeline through its client: they speak, hear the answer, and interrupt it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from random import Random

import numpy as np

from voice_omni.client.interface import (
    AudioDelta,
    Done,
    Failed,
    GenerateRequest,
    Message,
    Reply,
    StageTiming,
    VoiceClient,
)
from voice_omni.proto.errors import ErrorInfo, OmniError

SETTLED_S = 0.1
"""Between the last sound and the commit: what was said has been taken in by then, as it has in the silence that tells
that a turn is over."""


@dataclass(frozen=True, slots=True)
class Speech:
    """How people speak: for so many seconds, in chunks of so many, ``pace`` times as fast as in life; and how long
    an answer is, in text tokens."""

    seconds: float = 5.0
    chunk_s: float = 0.02
    pace: float = 1.0
    tokens: int = 100

    @property
    def duration_s(self) -> float:
        return self.seconds / self.pace


@dataclass(slots=True)
class Turn:
    """One turn as a person had it; moments in seconds on the monotonic clock. ``sounds``: when each chunk of the
    answer came, and its samples. ``abort_s``: how long an interruption took until every stage had acknowledged it."""

    committed: float | None = None
    sounds: list[tuple[float, int]] = field(default_factory=list)
    timings: Mapping[str, StageTiming] | None = None
    abort_s: float | None = None
    failure: ErrorInfo | None = None

    @property
    def complete(self) -> bool:
        return self.timings is not None


@dataclass(frozen=True, slots=True)
class Interruption:
    """``seconds`` after the answer's first sound, or after the request was opened, whatever has become of it by then.

    Where figures are taken, only what is heard is interrupted: else answers that begin late would drop out of them.
    """

    seconds: float
    once_heard: bool = True


def noise(seconds: float, rate: int, seed: int) -> np.ndarray:
    """Sound that becomes no louder, so that what was encoded early stays valid; another one for each seed."""
    count = round(seconds * rate)
    drawn = np.random.default_rng(seed).normal(size=count) * np.linspace(0.2, 0.1, count)
    return drawn.astype(np.float32)


async def _at_once() -> None:
    """Nobody else is waited for."""


class Person:
    """One conversation after the other, in a session of its own."""

    def __init__(self, client: VoiceClient, speech: Speech, name: str, chance: Random) -> None:
        self._client = client
        self._speech = speech
        self._name = name
        self._chance = chance

    async def turn(
        self,
        *,
        interruption: Interruption | None = None,
        before_commit: Callable[[], Awaitable[object]] = _at_once,
        messages: tuple[Message, ...] = (),
    ) -> Turn:
        """Speak, and hear the answer or interrupt it."""
        turn, heard = Turn(), asyncio.Event()
        seed = self._chance.getrandbits(32)
        request = GenerateRequest(
            messages=messages, max_output_tokens=self._speech.tokens, seed=seed, session_id=self._name
        )
        try:
            reply = await self._client.open(request)
        except OmniError as error:
            turn.failure = error.info
            return turn
        acting = [asyncio.create_task(self._speak(reply, turn, seed, before_commit))]
        if interruption is not None:
            acting.append(asyncio.create_task(_interrupt(reply, turn, interruption, heard)))
        try:
            await _hear(reply, turn, heard)
        finally:
            # Where an interruption has ended the answer, its acknowledgement is still to come.
            for task in acting if turn.complete or turn.failure is not None else acting[:1]:
                task.cancel()
            outcomes = await asyncio.gather(*acting, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, OmniError):
                turn.failure = outcome.info
            elif isinstance(outcome, Exception):
                raise outcome
        return turn

    async def _speak(self, reply: Reply, turn: Turn, seed: int, before_commit: Callable[[], Awaitable[object]]) -> None:
        rate, speech = self._client.input_sample_rate, self._speech
        samples = noise(speech.seconds, rate, seed)
        step = round(speech.chunk_s * rate)
        began = time.monotonic()
        for start in range(0, len(samples), step):
            await asyncio.sleep(began + start / rate / speech.pace - time.monotonic())
            await reply.send_audio(samples[start : start + step])
        await asyncio.sleep(began + speech.duration_s + SETTLED_S - time.monotonic())
        await before_commit()
        turn.committed = time.monotonic()
        await reply.end_audio()


async def _hear(reply: Reply, turn: Turn, heard: asyncio.Event) -> None:
    async for event in reply:
        match event:
            case AudioDelta(samples):
                turn.sounds.append((time.monotonic(), len(samples)))
                heard.set()
            case Done(timings=timings):
                turn.timings = timings
            case Failed(error):
                turn.failure = error


async def _interrupt(reply: Reply, turn: Turn, interruption: Interruption, heard: asyncio.Event) -> None:
    if interruption.once_heard:
        await heard.wait()
    await asyncio.sleep(interruption.seconds)
    began = time.monotonic()
    await reply.abort()
    turn.abort_s = time.monotonic() - began


async def crowd(
    client: VoiceClient, speech: Speech, count: int, rounds: int, seed: int, *, patience_s: float, at_once: bool = False
) -> list[Turn]:
    """``count`` people, each of whom has ``rounds`` times a turn and one that they interrupt when they have heard it
    for at most ``patience_s``.

    They begin at random over the length of one speech, like people who know nothing of each other; ``at_once``: they
    begin together, interrupt nobody, and all commit in one moment.
    """
    chance = Random(seed)
    barrier = asyncio.Barrier(count)

    async def live(person: Person, start_s: float, interruptions: list[float]) -> list[Turn]:
        await asyncio.sleep(start_s)
        turns = []
        for seconds in interruptions:
            if at_once:
                turns.append(await person.turn(before_commit=barrier.wait))
                continue
            turns.append(await person.turn())
            turns.append(await person.turn(interruption=Interruption(seconds)))
        return turns

    lives = []
    for number in range(count):
        person = Person(client, speech, f"person {seed}.{number}", Random(chance.getrandbits(64)))
        start_s = 0.0 if at_once or count == 1 else chance.uniform(0, speech.duration_s)
        lives.append(live(person, start_s, [chance.uniform(0, patience_s) for _ in range(rounds)]))
    return [turn for turns in await asyncio.gather(*lives) for turn in turns]
