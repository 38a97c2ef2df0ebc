"""A pipeline in this process that does what a test tells it to: real streams, no models."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import numpy as np

from voice_omni.client.interface import (
    AudioDelta,
    Done,
    Failed,
    GenerateRequest,
    ReplyEvent,
    Samples,
    StageTiming,
    TextDelta,
    ToolCallDelta,
    Transcript,
)
from voice_omni.proto.errors import ErrorInfo, OmniError

OUTPUT_RATE = 22050
TONE_HZ = 440.0


@dataclass
class Script:
    """One answer. Each word lasts ``word_seconds`` and is a chunk of its own: a tone of 440 Hz.

    ``silent``: the sound held no words. ``refuse``: the reply cannot be opened. ``die_after``: it fails after so many
    words. ``hang_after``: nothing comes after so many words. ``gate``: the answer begins when it is set. ``calls``: the
    names and arguments, as JSON text, of the functions that are called after the words; each call comes in two pieces.
    ``understand``: what the sound so far is taken for, told as it grows and instead of ``transcript``; nothing at the
    end means that there were no words.
    """

    transcript: str = "what is the capital of France"
    answer: str = "The capital of France is Paris."
    word_seconds: float = 0.3
    silent: bool = False
    refuse: OmniError | None = None
    die_after: int | None = None
    hang_after: int | None = None
    gate: asyncio.Event | None = None
    calls: tuple[tuple[str, str], ...] = ()
    understand: Callable[[Samples], str] | None = None


@dataclass(eq=False)
class ScriptedReply:
    request: GenerateRequest
    script: Script
    request_id: str
    hold_transcript: asyncio.Event | None = None
    heard: list[Samples] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    aborted: asyncio.Event = field(default_factory=asyncio.Event)
    grown: asyncio.Event = field(default_factory=asyncio.Event)
    taken: int = 0
    finished: bool = False

    @property
    def sound(self) -> Samples:
        return np.concatenate([np.zeros(0, np.float32), *self.heard])

    async def send_audio(self, samples: Samples) -> None:
        if self.ended.is_set():
            raise RuntimeError("sound after the end of the input")
        self.heard.append(samples)
        self.grown.set()

    async def end_audio(self) -> None:
        self.ended.set()
        self.grown.set()

    async def abort(self) -> None:
        self.aborted.set()

    async def __aiter__(self) -> AsyncIterator[ReplyEvent]:
        events = self._events()
        try:
            while True:
                following = asyncio.ensure_future(anext(events))
                stopped = asyncio.ensure_future(self.aborted.wait())
                try:
                    await asyncio.wait((following, stopped), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    stopped.cancel()
                    if not following.done():
                        following.cancel()
                        await asyncio.wait((following,))
                if self.aborted.is_set() or following.cancelled():
                    return
                try:
                    event = following.result()
                except StopAsyncIteration:
                    return
                self.taken += 1
                self.finished = isinstance(event, Done | Failed)
                yield event
        finally:
            self.finished = True

    async def _events(self) -> AsyncIterator[ReplyEvent]:
        script = self.script
        if self.request.input == "speech":
            transcript, silent = script.transcript, script.silent
            if script.understand is not None:
                transcript = ""
                while not self.ended.is_set():
                    self.grown.clear()
                    if (words := script.understand(self.sound)) != transcript:
                        transcript = words
                        yield Transcript(words, final=False)
                    await self.grown.wait()
                transcript = script.understand(self.sound)
                silent = not transcript
            await self.ended.wait()
            if silent:
                yield Failed(ErrorInfo("no_speech", "no words"))
                return
            if self.hold_transcript is not None:
                await self.hold_transcript.wait()
            yield Transcript(transcript, final=True)
        if self.request.output == "transcript":
            yield Done()
            return
        if script.gate is not None:
            await script.gate.wait()
        words = script.answer.split()
        for number, word in enumerate(words):
            if script.die_after == number:
                yield Failed(ErrorInfo("stage_died", "the talker died", stage="talker", retryable=True))
                return
            if script.hang_after == number:
                await asyncio.Event().wait()
            text = word if number == len(words) - 1 else word + " "
            yield TextDelta(text)
            if self.request.output == "audio":
                tone = _tone(number, script.word_seconds)
                yield AudioDelta(tone, ((0, text),))
        for number, (name, arguments) in enumerate(script.calls):
            half = len(arguments) // 2
            yield ToolCallDelta(number, name, arguments[:half])
            yield ToolCallDelta(number, name, arguments[half:], final=True)
        timing = StageTiming(opened=0.0, input_ended=None, first_output=None, finished=0.0)
        yield Done("stop", 12, len(words), {"thinker": timing})


def _tone(number: int, seconds: float) -> Samples:
    count = int(seconds * OUTPUT_RATE)
    clock = np.arange(number * count, (number + 1) * count) / OUTPUT_RATE
    return (0.3 * np.sin(2 * np.pi * TONE_HZ * clock)).astype(np.float32)


class ScriptedClient:
    """A :class:`~voice_omni.client.interface.VoiceClient`; ``replies`` are all that were opened, in order."""

    input_sample_rate = 16000
    output_sample_rate = OUTPUT_RATE

    hold_transcripts: asyncio.Event | None = None
    """Set it to an event, and no reply tells what it heard before the event is set."""

    def __init__(self, script: Script | Callable[[GenerateRequest, int], Script] | None = None) -> None:
        self.script = script or Script()
        self.replies: list[ScriptedReply] = []
        self._numbers = itertools.count()

    async def open(self, request: GenerateRequest) -> ScriptedReply:
        number = next(self._numbers)
        script = self.script(request, number) if callable(self.script) else self.script
        if script.refuse is not None:
            raise OmniError.of(script.refuse.info)
        reply = ScriptedReply(request, script, f"req_{number}", self.hold_transcripts)
        self.replies.append(reply)
        return reply

    @property
    def alive(self) -> list[ScriptedReply]:
        return [reply for reply in self.replies if not reply.finished and not reply.aborted.is_set()]
