"""Who calls over WebRTC, as aiortc does it: another implementation than the server's media path."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from aiortc import (
    MediaStreamTrack,
    RTCConfiguration,
    RTCDataChannel,
    RTCPeerConnection,
    RTCRtpSender,
    RTCSessionDescription,
)
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame

from tests.support.patience import PATIENCE_S
from voice_omni.audio.pcm import Samples, encode_pcm16

RATE = 48_000
FRAME = RATE // 50


class Microphone(MediaStreamTrack):
    """Speaks ``sound`` (float32 at 48 kHz) once, and is silent after it."""

    kind = "audio"

    def __init__(self, sound: Samples) -> None:
        super().__init__()
        self._sound = sound
        self._frames = 0
        self._started: float | None = None

    async def recv(self) -> AudioFrame:
        loop = asyncio.get_running_loop()
        if self._started is None:
            self._started = loop.time()
        await asyncio.sleep(self._started + self._frames * 0.02 - loop.time())
        samples = np.zeros(FRAME, np.float32)
        part = self._sound[self._frames * FRAME : (self._frames + 1) * FRAME]
        samples[: len(part)] = part
        frame = AudioFrame("s16", "mono", FRAME)
        frame.planes[0].update(encode_pcm16(samples))
        frame.sample_rate, frame.pts, frame.time_base = RATE, self._frames * FRAME, Fraction(1, RATE)
        self._frames += 1
        return frame


class Caller:
    """A browser's side of a call."""

    def __init__(
        self,
        sound: Samples | None = None,
        *,
        codec: str | None = None,
        direction: str = "sendrecv",
        channel: str | None = "oai-events",
        video: bool = False,
    ) -> None:
        """``sound``: what the microphone says, float32 at 48 kHz. ``codec``: the only one offered, such as PCMU."""
        self.connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.messages: list[str] = []
        self.frames: list[AudioFrame] = []
        self.channel: RTCDataChannel | None = None
        self._opened = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.connection.on("track", self._on_track)
        microphone = Microphone(np.zeros(0, np.float32) if sound is None else sound)
        transceiver = self.connection.addTransceiver(microphone, direction=direction)
        if codec is not None:
            capabilities = RTCRtpSender.getCapabilities("audio").codecs
            transceiver.setCodecPreferences([each for each in capabilities if each.mimeType == f"audio/{codec}"])
        if video:
            self.connection.addTransceiver("video", direction="sendrecv")
        if channel is not None:
            self.channel = self.connection.createDataChannel(channel)
            self.channel.on("open", self._opened.set)
            self.channel.on("message", self.messages.append)

    async def offer(self) -> str:
        await self.connection.setLocalDescription(await self.connection.createOffer())
        return self.connection.localDescription.sdp

    async def accept(self, answer: str) -> None:
        await self.connection.setRemoteDescription(RTCSessionDescription(answer, "answer"))

    async def call(self, answer: Callable[[str], Any]) -> None:
        """Offer, and accept what ``await answer(offer)`` returns; the event channel is open afterwards."""
        await self.accept(await answer(await self.offer()))
        if self.channel is not None:
            async with asyncio.timeout(PATIENCE_S):
                await self._opened.wait()

    def say(self, message: str | bytes) -> None:
        assert self.channel is not None
        self.channel.send(message)

    @property
    def heard(self) -> Samples:
        """float32 mono at 48 kHz, or at 8 kHz for G.711."""
        pieces = []
        for frame in self.frames:
            channels = len(frame.layout.channels)
            data = np.frombuffer(bytes(frame.planes[0]), np.int16)[: frame.samples * channels : channels]
            pieces.append(data.astype(np.float32) / 32768)
        return np.concatenate([*pieces, np.zeros(0, np.float32)])

    def vanish(self) -> None:
        """Fall silent without a word: nothing is sent or taken from now on."""
        for protocol in self._protocols():
            protocol.transport = _Mute(protocol.transport)
            protocol.datagram_received = lambda data, address: None

    async def close(self) -> None:
        await self.connection.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _protocols(self) -> list[Any]:
        """aioice's sockets."""
        transports: set[Any] = self.connection._RTCPeerConnection__iceTransports  # type: ignore[attr-defined]
        return [protocol for transport in transports for protocol in transport._connection._protocols]

    def _on_track(self, track: MediaStreamTrack) -> None:
        self._tasks.add(asyncio.ensure_future(self._listen(track)))

    async def _listen(self, track: MediaStreamTrack) -> None:
        try:
            while True:
                frame = await track.recv()
                assert isinstance(frame, AudioFrame)
                self.frames.append(frame)
        except MediaStreamError:
            return


class _Mute:
    """A datagram transport that sends nothing."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def sendto(self, data: bytes, address: tuple[str, int]) -> None:
        """Lost."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
