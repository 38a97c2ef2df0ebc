"""A media process as the server sees it: started, watched, given calls, and missed when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
from typing import Final, Protocol

from voice_omni.audio.pcm import Samples
from voice_omni.proto.errors import ErrorInfo, OmniError
from voice_omni.transports.webrtc import wire
from voice_omni.transports.webrtc.peer_interface import PeerSettings, PeerStats

START_S: Final = 20.0
ANSWER_S: Final = 15.0
"""An offer that is not answered by then is not going to be."""
_HANG_BEATS: Final = 5
_CHECK_S: Final = 1.0
_END_S: Final = 3.0

logger = logging.getLogger(__name__)


class CallEvents(Protocol):
    """Whoever holds a call. Everything is called on the event loop and must return at once."""

    def opened(self) -> None: ...

    def message(self, text: str) -> None: ...

    def sound(self, position: int, samples: Samples) -> None: ...

    def played(self, generation: int, samples: int) -> None: ...

    def undelivered(self, error: ErrorInfo) -> None: ...

    def closed(self, reason: str, stats: PeerStats | None) -> None:
        """The call is over; nothing follows. Also told, as ``media_process_died``, when its process is gone."""
        ...


class MediaRemote:
    """One process, from its start to its end. It is not started again: another one takes its place."""

    def __init__(self) -> None:
        self._link = wire.Link(self._on_message, self._on_lost)
        self._calls: dict[str, CallEvents] = {}
        self._answers: dict[str, asyncio.Future[str]] = {}
        self._ready = False
        self._decided = asyncio.Event()  # whether it has started
        self._process: asyncio.subprocess.Process | None = None
        self._watching: asyncio.Task[None] | None = None
        self._heard = False
        self._leaving = False
        self.alive = True
        self.beat: wire.Beat | None = None

    @property
    def calls(self) -> int:
        """How many are in it."""
        return len(self._calls)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        """Raises :class:`OmniError` ``start_failed``."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        level = logging.getLogger().getEffectiveLevel()
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "voice_omni.transports.webrtc.media_process", str(theirs.fileno()), str(level)),
                pass_fds=(theirs.fileno(),),
            )
        await asyncio.get_running_loop().create_connection(lambda: self._link, sock=ours)
        self._watching = asyncio.create_task(self._watch(self._process))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_S):
                await self._decided.wait()
        if not self._ready:
            await self.stop()
            raise OmniError("start_failed", "The media process did not start.", retryable=True)

    async def stop(self) -> None:
        """End the process, and with it the calls that are left in it."""
        self._leaving = True
        self._link.close()
        if self._process is not None:
            try:
                async with asyncio.timeout(_END_S):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        if self._watching is not None:
            await asyncio.wait([self._watching])

    async def open(self, call_id: str, offer: str, settings: PeerSettings, events: CallEvents) -> str:
        """Take a call; returns the answer. Raises :class:`OmniError`: what is wrong with the offer, or ``call_failed``.

        When it raises there is no call, and ``events`` are not told of it any more.
        """
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._calls[call_id], self._answers[call_id] = events, answer
        self._link.send(wire.Open(call_id, offer, settings))
        try:
            async with asyncio.timeout(ANSWER_S):
                return await answer
        except TimeoutError:
            raise OmniError("call_failed", "The call was not answered in time.", retryable=True) from None
        finally:
            del self._answers[call_id]
            if not answer.done() or answer.cancelled() or answer.exception() is not None:
                self._calls.pop(call_id, None)
                self._link.send(wire.HangUp(call_id, linger=False))

    def send(self, message: wire.FromServer) -> None:
        self._link.send(message)

    # What comes from the process

    def _on_message(self, message: wire.WireMessage) -> None:
        self._heard = True
        match message:
            case wire.Ready():
                self._ready = True
                self._decided.set()
            case wire.Beat():
                self.beat = message
            case wire.Answered(call_id, text):
                if (answer := self._answers.get(call_id)) is not None and not answer.done():
                    answer.set_result(text)
            case wire.Refused(call_id, error):
                if (answer := self._answers.get(call_id)) is not None and not answer.done():
                    answer.set_exception(OmniError.of(error))
            case wire.Open() | wire.Say() | wire.Play() | wire.Flush() | wire.HangUp():
                raise TypeError(f"a media process does not say {type(message).__name__}")
            case _:
                self._tell(message)

    def _tell(
        self, message: wire.Opened | wire.Said | wire.Sound | wire.Played | wire.Undelivered | wire.Closed
    ) -> None:
        events = self._calls.get(message.call)
        if events is None:
            return
        match message:
            case wire.Opened():
                events.opened()
            case wire.Said(_, text):
                events.message(text)
            case wire.Sound(_, position, samples):
                events.sound(position, wire.to_samples(samples))
            case wire.Played(_, generation, count):
                events.played(generation, count)
            case wire.Undelivered(_, error):
                events.undelivered(error)
            case wire.Closed(call_id, reason, stats):
                del self._calls[call_id]
                if (answer := self._answers.get(call_id)) is not None and not answer.done():
                    answer.set_exception(OmniError("call_failed", "The call ended before it was answered."))
                events.closed(reason, stats)

    def _on_lost(self) -> None:
        """Nothing can reach its calls any more. Its exit, which may still be to come, is watched for."""
        self.alive = False
        self._decided.set()
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(OmniError("call_failed", "The media process of the call died.", retryable=True))
        calls, self._calls = self._calls, {}
        for events in calls.values():
            events.closed("media_process_died", None)
        if not self._leaving:
            logger.error("a media process died with %d calls in it", len(calls))

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        """Returns when the process has ended, after killing it if it hangs.

        What is counted are looks that found nothing new, not time: when the whole machine was asleep nobody hangs.
        """
        exited = asyncio.create_task(process.wait())
        missed = 0
        while not (await asyncio.wait([exited], timeout=_CHECK_S))[0]:
            missed = 0 if self._heard or not self._ready else missed + 1
            self._heard = False
            if missed == _HANG_BEATS:
                logger.error("the media process %d hangs; it is killed", process.pid)
                process.kill()
        self._link.close()
