"""A session without a socket: what a client sends goes in, what it would receive is collected with its time."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import numpy as np

from voice_omni.audio.pcm import Samples, decode_pcm16, encode_pcm16
from voice_omni.client.interface import VoiceClient
from voice_omni.realtime.connection import PLAIN, Connection
from voice_omni.realtime.core import Facts, RealtimeCore
from voice_omni.realtime.dialect import Dialect
from voice_omni.realtime.settings import CONTRACT_RATES, EXTENDED_RATES
from voice_omni.realtime.transcription_session import transcribing
from voice_omni.session.activity import VoiceActivity
from voice_omni.session.counters import TurnCounters
from voice_omni.session.fence import EpochFence
from voice_omni.session.hearing import Hearing
from voice_omni.session.judge import TurnJudge
from voice_omni.session.options import SessionOptions
from voice_omni.session.outbox import BinaryFrame, Close, Outbox
from voice_omni.session.parts import SessionParts
from voice_omni.session.session import VoiceSession
from voice_omni.session.silero import SileroModel
from voice_omni.session.track_speaker import SoundSink

RATE = 24000
Event = dict[str, Any]


def counting_ids() -> Callable[[str], str]:
    """``item_1``, ``item_2``, ``resp_1``, ..."""
    counters: defaultdict[str, itertools.count[int]] = defaultdict(lambda: itertools.count(1))
    return lambda prefix: f"{prefix}_{next(counters[prefix])}"


def quiet(seconds: float, rate: int = RATE) -> Samples:
    return np.zeros(int(seconds * rate), np.float32)


def _event(frame: bytes | BinaryFrame) -> Event:
    """Sound that came as bytes is shown as the base64 that it stands for."""
    if isinstance(frame, bytes):
        event: Event = json.loads(frame)
        return event
    header, _, sound = frame.data.partition(b"\n")
    return {**json.loads(header), "delta": base64.b64encode(sound).decode()}


class Talk:
    """Use as an async context. ``reading`` False is a client that does not read; ``sink``: plays the answers out."""

    def __init__(
        self,
        client: VoiceClient,
        silero: SileroModel,
        options: SessionOptions | None = None,
        *,
        judge: TurnJudge | None = None,
        reading: bool = True,
        connection: Connection = PLAIN,
        sink: SoundSink | None = None,
        transcribes: bool = True,
        images: bool = False,
        voices: tuple[str, ...] = ("default", "other"),
    ) -> None:
        loop = asyncio.get_running_loop()
        options = options or SessionOptions()
        settings = options.initial_session("scripted", voices[0])
        if connection.transcription:
            settings = transcribing(settings)
        fence = EpochFence()
        ids = counting_ids()
        self.client = client
        self.counters = TurnCounters()
        self.clock = loop.time
        dialect = Dialect(beta=connection.beta)
        self.outbox = Outbox(fence, dialect.outgoing, binary=connection.binary_audio)
        facts = Facts(
            voices,
            client.output_sample_rate,
            expires_at=3600,
            pcm_rates=EXTENDED_RATES if connection.pcm_rates else CONTRACT_RATES,
            binary_audio=connection.binary_audio,
            owns_playback=sink is not None,
            max_buffer_ms=options.max_buffer_ms,
            images=images,
        )
        self.core = RealtimeCore(settings, facts, ids)
        detection = settings.audio.input.turn_detection
        self.hearing = Hearing(VoiceActivity(silero), client.input_sample_rate, detection, options)
        self.session = VoiceSession(
            SessionParts(
                client=client,
                core=self.core,
                hearing=self.hearing,
                fence=fence,
                outbox=self.outbox,
                options=options,
                voices=voices,
                ids=ids,
                dialect=dialect,
                judge=judge,
                counters=self.counters,
                clock=loop.time,
                include_timings=connection.timings,
                sink=sink,
                transcribes=transcribes,
            )
        )
        self.reading = asyncio.Event()
        if reading:
            self.reading.set()
        self.events: list[Event] = []
        self.times: list[float] = []
        self.closed: Close | None = None
        self._arrived = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._collector = asyncio.create_task(self._collect())
        self.session.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._collector.cancel()
        await asyncio.wait((self._collector,))
        await self.session.close()

    async def _collect(self) -> None:
        while True:
            await self.reading.wait()
            frame = await self.outbox.get()
            if isinstance(frame, Close):
                self.closed = frame
                self._arrived.set()
                return
            self.events.append(_event(frame))
            self.times.append(self.clock())
            self._arrived.set()

    async def read_all(self) -> None:
        """Let the collector take what waits for it now: one turn to wake up, one to read it all."""
        for _ in range(2):
            await asyncio.sleep(0)

    async def send(self, kind: str, **fields: Any) -> None:
        await self.session.receive(json.dumps({"type": kind, **fields}))

    async def append(self, samples: Samples) -> None:
        await self.send("input_audio_buffer.append", audio=base64.b64encode(encode_pcm16(samples)).decode())

    async def say(self, *sounds: Samples, chunk: int = RATE // 50) -> None:
        """Play sounds into the session in real time, 20 ms at a time."""
        samples = np.concatenate(sounds)
        for start in range(0, len(samples), chunk):
            await self.append(samples[start : start + chunk])
            await asyncio.sleep(chunk / RATE)

    async def until(self, kind: str, count: int = 1, within: float = 60.0, **fields: Any) -> Event:
        """Wait for the ``count``-th event of a kind with these fields."""
        async with asyncio.timeout(within):
            while len(found := [each for each in self.all(kind) if fields.items() <= each.items()]) < count:
                self._arrived.clear()
                await self._arrived.wait()
        return found[count - 1]

    def all(self, kind: str) -> list[Event]:
        return [event for event in self.events if event["type"] == kind]

    def kinds(self, *without: str) -> list[str]:
        """The types of all events, consecutive equal ones once, without those that begin with ``without``."""
        kinds = [event["type"] for event in self.events if not event["type"].startswith(without or ("?",))]
        return [kind for kind, _ in itertools.groupby(kinds)]

    def time_of(self, kind: str, count: int = 1) -> float:
        times = [time for event, time in zip(self.events, self.times, strict=True) if event["type"] == kind]
        return times[count - 1]

    def sound(self, response_id: str | None = None) -> Samples:
        """All sound of the answers."""
        data = b"".join(
            base64.b64decode(event["delta"])
            for event in self.all("response.output_audio.delta")
            if response_id in (None, event["response_id"])
        )
        return decode_pcm16(data)

    def counts(self) -> Counter[str]:
        return Counter(event["type"] for event in self.events)
