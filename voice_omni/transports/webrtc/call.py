"""One call, between its media process and its session: sound and events in both directions, and how it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import msgspec

from voice_omni.audio.pcm import Samples
from voice_omni.proto.errors import ErrorInfo
from voice_omni.realtime.events import EventWriter
from voice_omni.session.outbox import BinaryFrame, Close, Outbox
from voice_omni.session.session import VoiceSession
from voice_omni.transports.webrtc import wire
from voice_omni.transports.webrtc.inbox import Inbox
from voice_omni.transports.webrtc.media_host import CallLine, MediaHost
from voice_omni.transports.webrtc.peer_interface import PLAY_RATE, PeerSettings, PeerStats

HUNG_UP: Final = Close(1001, "hung up", told=True)
"""The end of a call that somebody asked for: there is nothing to explain."""
_CLOSE_S: Final = 5.0
_GOODBYES: Final = {1001: "server_shutting_down", 1008: "policy_violation", 1011: "internal_error", 1013: "overloaded"}
"""A data channel has no close codes: the last event says why the call ends."""

logger = logging.getLogger(__name__)


class Call:
    """A sink for the session's sound (:class:`~voice_omni.session.track_speaker.SoundSink`), and whom the media
    process tells what comes of the call (:class:`~voice_omni.transports.webrtc.media_remote.CallEvents`).
    """

    sample_rate = PLAY_RATE

    def __init__(self, call_id: str, input_rate: int, writer: EventWriter) -> None:
        """``input_rate``: Hz, of the caller's sound as the media process hands it over."""
        self.id = call_id
        self._writer = writer
        self._input_rate = input_rate
        self._inbox = Inbox(input_rate)
        self._line: CallLine | None = None
        self._outbox: Outbox | None = None
        self._generation = 0
        self._told: Callable[[int], None] = lambda samples: None
        self._opened = asyncio.Event()
        self._ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def answer(self, host: MediaHost, offer: str, settings: PeerSettings) -> str:
        """Have the offer answered. Raises :class:`OmniError`, and then there is no call."""
        answer, self._line = await host.open(self.id, offer, settings, self)
        return answer

    async def run(self, session: VoiceSession, outbox: Outbox) -> str:
        """Serve the caller from the moment when the event channel opens. Returns how the call ended."""
        self._outbox = outbox
        writing = asyncio.create_task(self._write(outbox))
        reading = asyncio.create_task(self._read(session, outbox))
        try:
            await asyncio.wait((writing, reading, self._ended), return_when=asyncio.FIRST_COMPLETED)
            if writing.done() and not writing.cancelled() and writing.exception() is None:
                await asyncio.wait((self._ended,), timeout=_CLOSE_S)
        finally:
            reading.cancel()
            writing.cancel()
            await asyncio.wait((reading, writing))
            self._hang_up(linger=False)
        for task in (reading, writing):
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error
        return self._ended.result() if self._ended.done() else "local"

    # The session's sound

    def play(self, samples: Samples) -> None:
        if self._line is not None:
            self._line.play(wire.to_bytes(samples))

    def flush(self) -> None:
        self._generation += 1
        if self._line is not None:
            self._line.flush(self._generation)

    def on_played(self, told: Callable[[int], None]) -> None:
        self._told = told

    # What the media process reports

    def opened(self) -> None:
        self._opened.set()

    def message(self, text: str) -> None:
        if not self._inbox.put_message(text):
            self._end(Close(1013, "too many events are waiting to be worked through"))

    def sound(self, position: int, samples: Samples) -> None:
        """What is said before the session can answer belongs to nobody."""
        if self._opened.is_set():
            self._inbox.put_sound(position, samples)

    def played(self, generation: int, samples: int) -> None:
        """A report that was on its way when the sound was flushed counts what is gone."""
        if generation == self._generation:
            self._told(samples)

    def undelivered(self, error: ErrorInfo) -> None:
        logger.warning("call %s: %s", self.id, error.message)
        if error.code == "overloaded":
            self._end(Close(1013, "the events that wait for the caller are too many"))
        elif self._outbox is not None:
            self._outbox.put([self._writer.error(error.code, error.message, kind="server_error")])

    def closed(self, reason: str, stats: PeerStats | None) -> None:
        if not self._ended.done():
            self._ended.set_result(reason)

    def _end(self, close: Close) -> None:
        if self._outbox is not None:
            self._outbox.close(close)

    # Serving

    async def _read(self, session: VoiceSession, outbox: Outbox) -> None:
        await self._opened.wait()
        session.open()
        try:
            while True:
                come = await self._inbox.get()
                if isinstance(come, str):
                    await session.receive(come)
                else:
                    await session.listen(come, self._input_rate)
        except Exception:
            # The state of this session can no longer be trusted. All others go on.
            logger.exception("call %s: its session failed", self.id)
            outbox.close(Close(1011, "internal error"))
            await asyncio.Event().wait()  # until the writer has said so

    async def _write(self, outbox: Outbox) -> None:
        while not isinstance(frame := await outbox.get(), Close):
            if isinstance(frame, BinaryFrame):
                raise TypeError("an event channel carries text")
            self._say(frame)
        if frame.code in _GOODBYES and not frame.told:
            message = f"The call ends: {frame.reason}."
            self._say(msgspec.json.encode(self._writer.error(_GOODBYES[frame.code], message, kind="server_error")))
        self._hang_up(linger=True)

    def _say(self, event: bytes) -> None:
        if self._line is not None:
            self._line.say(event.decode())

    def _hang_up(self, *, linger: bool) -> None:
        """A call that has ended by itself is not there any more; then this is nothing to its process."""
        if self._line is not None:
            self._line.hang_up(linger=linger)
            if not linger:
                self._line.release()
                self._line = None
