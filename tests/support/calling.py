"""A call over WebRTC, HTTP included: aiortc with its defaults, like a browser with a microphone and a loudspeaker."""

from __future__ import annotations

import asyncio
import contextlib
import fractions
import json
import urllib.error
import urllib.request
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import av
import numpy as np
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import AudioStreamTrack, MediaStreamError

from tests.support.patience import PATIENCE_S
from voice_omni.audio.pcm import Samples
from voice_omni.audio.resample import StreamResampler

Event = dict[str, Any]
RATE = 48_000
FRAME = RATE // 50


@dataclass(frozen=True)
class Answer:
    """Of the HTTP side: status, body as text, headers in lower case."""

    status: int
    text: str
    headers: Mapping[str, str]

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = json.loads(self.text)["error"]
        return error

    @property
    def call_id(self) -> str:
        return self.headers["location"].rpartition("/")[2]


async def request(
    address: str, path: str, body: bytes | None = None, *, method: str = "POST", **headers: str
) -> Answer:
    """``headers``: with underscores for hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    asked = urllib.request.Request(f"http://{address}{path}", body, named, method=method)

    def fetch() -> Answer:
        try:
            answer = urllib.request.urlopen(asked, timeout=PATIENCE_S)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            named = {name.lower(): value for name, value in answer.headers.items()}
            return Answer(answer.status, answer.read().decode(), named)

    return await asyncio.to_thread(fetch)


async def offer(address: str, sdp: str, session: Any = None, **headers: str) -> Answer:
    """As raw SDP, or with a session as a form."""
    path = "/v1/realtime/calls"
    if session is None:
        return await request(address, path, sdp.encode(), Content_Type="application/sdp", **headers)
    boundary = uuid.uuid4().hex
    parts = (("sdp", "application/sdp", sdp), ("session", "application/json", json.dumps(session)))
    form = "".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\nContent-Type: {kind}\r\n\r\n{content}\r\n'
        for name, kind, content in parts
    )
    kind = f"multipart/form-data; boundary={boundary}"
    return await request(address, path, f"{form}--{boundary}--\r\n".encode(), Content_Type=kind, **headers)


class Voice(AudioStreamTrack):
    """Speaks what it is given in real time, and is silent otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: Samples = np.zeros(0, np.float32)
        self._position = 0
        self._began = 0.0
        self._sending = asyncio.Event()
        self._sending.set()

    def pause(self) -> None:
        """Send nothing any more, not even silence."""
        self._sending.clear()

    def resume(self) -> None:
        self._sending.set()

    def say(self, samples: Samples, rate: int) -> None:
        resampler = StreamResampler(rate, RATE)
        self._waiting = np.concatenate([self._waiting, resampler.push(samples), resampler.flush()])

    @property
    def quiet(self) -> bool:
        return not len(self._waiting)

    async def recv(self) -> av.AudioFrame:
        loop = asyncio.get_running_loop()
        self._began = self._began or loop.time()
        if not self._sending.is_set():
            await self._sending.wait()
            # A microphone's clock goes on while nothing is sent.
            self._position = int((loop.time() - self._began) * RATE)
        now = loop.time()
        await asyncio.sleep(max(0.0, self._began + self._position / RATE - now))
        sound, self._waiting = self._waiting[:FRAME], self._waiting[FRAME:]
        pcm = (np.pad(sound, (0, FRAME - len(sound))) * 32767).astype(np.int16)
        frame = av.AudioFrame.from_ndarray(pcm[None, :], format="s16", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = RATE, self._position, fractions.Fraction(1, RATE)
        self._position += FRAME
        return frame


class RtcCaller:
    """Use :func:`calling` to make one that is connected."""

    def __init__(self) -> None:
        self.connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.voice = Voice()
        self.events: list[Event] = []
        self.sound: list[tuple[float, Samples]] = []
        """When each frame is to be played, in seconds of the track, and its samples: float32 at 48 kHz, mono."""
        self.call_id = ""
        self.hung_up = asyncio.Event()
        self._arrived = asyncio.Event()
        self._sounded = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None
        self.connection.addTrack(self.voice)
        self.channel = self.connection.createDataChannel("oai-events")
        self.channel.on("message", self._on_message)
        self.channel.on("close", self.hung_up.set)
        self.connection.on("track", self._on_track)

    async def offer(self) -> str:
        await self.connection.setLocalDescription(await self.connection.createOffer())
        return self.connection.localDescription.sdp

    async def accept(self, answer: str) -> None:
        await self.connection.setRemoteDescription(RTCSessionDescription(answer, "answer"))

    async def close(self) -> None:
        await self.connection.close()
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])

    def vanish(self) -> None:
        """Like a machine whose network is gone: nothing is sent any more, not even a goodbye."""
        assert self.connection.sctp is not None
        for protocol in self.connection.sctp.transport.transport._connection._protocols:
            protocol.transport.close()

    def send(self, kind: str, **fields: Any) -> None:
        self.channel.send(json.dumps({"type": kind, **fields}))

    async def say(self, samples: Samples, rate: int) -> None:
        """Returns when it has been spoken."""
        self.voice.say(samples, rate)
        while not self.voice.quiet:
            await asyncio.sleep(0.02)

    async def until(self, kind: str, count: int = 1, within: float = PATIENCE_S, **fields: Any) -> Event:
        """Wait for the ``count``-th event of a kind with these fields."""
        async with asyncio.timeout(within):
            while len(found := [each for each in self.all(kind) if fields.items() <= each.items()]) < count:
                self._arrived.clear()
                await self._arrived.wait()
        return found[count - 1]

    def all(self, kind: str) -> list[Event]:
        return [event for event in self.events if event["type"] == kind]

    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events]

    def heard(self) -> Samples:
        """All frames in which there is sound."""
        return np.concatenate([np.zeros(0, np.float32), *(samples for _, samples in self.sound if _loud(samples))])

    async def hear(self, seconds: float) -> None:
        """Wait until there was so much sound."""
        await self._listened(lambda: len(self.heard()) >= seconds * RATE)

    async def silence(self, seconds: float = 0.3) -> None:
        """Wait until the last so many seconds of the track are silent."""
        count = round(seconds * RATE / FRAME)
        await self._listened(
            lambda: len(self.sound) >= count and not any(_loud(samples) for _, samples in self.sound[-count:])
        )

    async def _listened(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self._sounded.clear()
                await self._sounded.wait()

    def _on_message(self, message: str) -> None:
        self.events.append(json.loads(message))
        self._arrived.set()

    def _on_track(self, track: Any) -> None:
        self._listening = asyncio.create_task(self._listen(track))

    async def _listen(self, track: Any) -> None:
        with contextlib.suppress(MediaStreamError):
            while True:
                frame = await track.recv()
                sound = frame.to_ndarray().reshape(-1, len(frame.layout.channels)).astype(np.float32)
                self.sound.append((float(frame.pts * frame.time_base), sound.mean(axis=1) / 32768))
                self._sounded.set()


def _loud(samples: Samples) -> bool:
    return bool(np.abs(samples).max() > 0.02)


@contextlib.asynccontextmanager
async def calling(address: str, session: Any = None, **headers: str) -> AsyncIterator[RtcCaller]:
    """A call that is answered, and has been greeted."""
    caller = RtcCaller()
    try:
        answer = await offer(address, await caller.offer(), session, **headers)
        assert answer.status == 201, answer.text
        caller.call_id = answer.call_id
        await caller.accept(answer.text)
        await caller.until("session.created")
        yield caller
    finally:
        await caller.close()
