"""A long conversation with random interruptions, which checks itself while it goes on."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from tests.support.judge import InlineJudge
from tests.support.scripted import Script, ScriptedClient
from tests.support.speech import recording
from tests.support.talk import RATE, Talk, quiet
from voice_omni.audio.pcm import Samples
from voice_omni.client.interface import GenerateRequest, Message
from voice_omni.session.options import SessionOptions
from voice_omni.session.silero import SileroModel

_WORD_S = 0.4
_WORDS = 25
_QUESTIONS = ("question-01", "question-02", "question-07", "question-10", "human-13")


@dataclass
class Report:
    """``faults``: what was not as it should be. ``drift``: samples at 16 kHz that the session's clock is off."""

    turns: int = 0
    interruptions: int = 0
    seconds: float = 0.0
    drift: int = 0
    faults: list[str] = field(default_factory=list)
    memory_kb: list[float] = field(default_factory=list)


def _question(name: str) -> Samples:
    each = recording(name)
    return each.samples(RATE)[int((each.speech_start - 0.2) * RATE) : int((each.speech_end + 0.2) * RATE)]


class Marathon:
    """``turns`` questions in ``seconds`` of sound; about half of the answers are interrupted by the next question."""

    def __init__(
        self, silero: SileroModel, turns: int, seconds: float, memory: Callable[[], float], seed: int = 1
    ) -> None:
        """``memory``: what the process holds at present, kilobytes; asked after each turn."""
        self._silero = silero
        self._turns = turns
        self._slot = seconds / turns
        self._memory = memory
        self._chance = random.Random(seed)
        self._sent = 0
        self._expected: list[Message] = []
        self.report = Report()

    async def run(self) -> Report:
        client = ScriptedClient(self._script)
        options = SessionOptions(turn_detection="semantic_vad", max_duration_s=1_000_000)
        judge = InlineJudge(lambda sound: 0.9 if self._chance.random() < 0.8 else 0.1, seconds=0.06)
        async with Talk(client, self._silero, options, judge=judge) as talk:
            await self._say(talk, quiet(0.5))
            for _ in range(self._turns):
                await self._turn(talk, client)
                self._forget(talk, client, judge)
                self.report.memory_kb.append(self._memory())
            talk.hearing.cut()
            self.report.drift = talk.hearing.position - math.ceil(self._sent * 16000 / RATE)
        self.report.seconds = self._sent / RATE
        return self.report

    async def _turn(self, talk: Talk, client: ScriptedClient) -> None:
        began = self._sent
        await self._say(talk, _question(self._chance.choice(_QUESTIONS)))
        while not talk.all("response.output_audio.delta"):
            await self._say(talk, quiet(0.1))
        self.report.turns += 1
        heard_from = talk.time_of("response.output_audio.delta")
        asked = client.replies[-1].request.messages
        if asked != tuple(self._expected):
            last = [message.content for message in (*asked[-1:], *self._expected[-1:])]
            self.report.faults.append(f"turn {self.report.turns}: {' instead of '.join(last)}")
        self._expected.append(Message("user", "a question"))
        if self._chance.random() < 0.5:
            words = await self._interrupt(talk, heard_from)
        else:
            words = _WORDS
            await self._say(talk, quiet(_WORDS * _WORD_S))
        answer = " ".join(self._answer(self.report.turns).split()[:words])
        self._expected.append(Message("assistant", answer))
        await self._say(talk, quiet(max(1.0, self._slot - (self._sent - began) / RATE)))

    async def _interrupt(self, talk: Talk, heard_from: float) -> int:
        """How many words of the answer are heard: those played to their end when a sound without words stopped it.

        Of an answer that was stopped before its first word, all: it is given again.
        """
        self.report.interruptions += 1
        await self._say(talk, quiet(self._chance.uniform(0.0, 8.0)))
        talk.client.script = lambda request, number: replace(self._script(request, number), silent=True)
        before = talk.counts()["input_audio_buffer.speech_started"]
        await self._say(talk, _question("question-11")[:RATE])
        await self._say(talk, quiet(5.0))  # long enough for a turn that does not sound complete
        talk.client.script = self._script
        played = talk.time_of("input_audio_buffer.speech_started", before + 1) - heard_from
        return min(_WORDS, int(played / _WORD_S + 1e-3)) or _WORDS

    async def _say(self, talk: Talk, samples: Samples) -> None:
        """In real time on the session's clock, in pieces of any length."""
        position = 0
        while position < len(samples):
            length = self._chance.randint(1, 3000)
            piece = samples[position : position + length]
            await talk.append(piece)
            await asyncio.sleep(len(piece) / RATE)
            position += len(piece)
            self._sent += len(piece)

    def _script(self, request: GenerateRequest, _: int) -> Script:
        answers = sum(message.role == "user" for message in request.messages) + (request.input == "speech")
        return Script(transcript="a question", answer=self._answer(answers), word_seconds=_WORD_S)

    @staticmethod
    def _answer(turn: int) -> str:
        return " ".join(f"{turn}.{number}" for number in range(_WORDS))

    @staticmethod
    def _forget(talk: Talk, client: ScriptedClient, judge: InlineJudge) -> None:
        """What the listener has collected is not the session's memory."""
        talk.events.clear()
        talk.times.clear()
        client.replies.clear()
        judge.asked.clear()


def peak_growth(memory_kb: list[float]) -> float:
    """Kilobytes that the last quarter of a conversation lies above its second quarter, at the median."""
    quarter = len(memory_kb) // 4
    return float(np.median(memory_kb[-quarter:]) - np.median(memory_kb[quarter : 2 * quarter]))
