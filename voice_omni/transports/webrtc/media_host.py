"""The media processes of a server: which of them takes a call, and what becomes of those that die."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from voice_omni.proto.errors import OmniError
from voice_omni.transports.webrtc import wire
from voice_omni.transports.webrtc.media_remote import CallEvents, MediaRemote
from voice_omni.transports.webrtc.peer_interface import PeerSettings

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Slot:
    """The place of one process. It is empty until the first call, and after a death until the next one."""

    remote: MediaRemote | None = None
    starting: asyncio.Task[MediaRemote] | None = None
    starts: int = 0
    load: int = 0
    """Calls in it, and those that are on their way."""

    @property
    def lives(self) -> bool:
        """Whether there is a process, or is about to be."""
        return self.starting is not None or (self.remote is not None and self.remote.alive)


class MediaHost:
    """Starts processes as calls need them: a server that nobody calls holds none, and :meth:`warm` hides the wait."""

    def __init__(self, processes: int) -> None:
        self._slots = [_Slot() for _ in range(processes)]
        self._dead: set[asyncio.Task[None]] = set()
        self._closed = False

    def warm(self) -> None:
        """Somebody is about to call."""
        if not self._closed and not any(slot.lives for slot in self._slots):
            self._begin(self._slots[0])

    async def open(self, call_id: str, offer: str, settings: PeerSettings, events: CallEvents) -> tuple[str, CallLine]:
        """Give a call to the process that has the fewest; returns the answer and the way to the call.

        Raises :class:`OmniError`: what is wrong with the offer; ``call_failed`` and ``start_failed``, for which nobody
        can be blamed.
        """
        slot = min(self._slots, key=lambda slot: slot.load)
        slot.load += 1
        try:
            remote = await self._remote(slot)
            answer = await remote.open(call_id, offer, settings, events)
        except BaseException:
            slot.load -= 1
            raise
        return answer, CallLine(remote, slot, call_id)

    def health(self) -> list[dict[str, Any]]:
        """What there is to say about each process that runs or has run."""
        return [_described(slot) for slot in self._slots if slot.starts]

    async def close(self) -> None:
        """End all processes; the calls that are left in them are told."""
        self._closed = True
        for slot in self._slots:
            if slot.starting is not None:
                slot.starting.cancel()
                await asyncio.wait([slot.starting])
            if slot.remote is not None:
                await slot.remote.stop()
        if self._dead:
            await asyncio.wait(self._dead)

    async def _remote(self, slot: _Slot) -> MediaRemote:
        if slot.remote is not None and slot.remote.alive:
            return slot.remote
        if self._closed:
            raise OmniError("server_shutting_down", "The server is shutting down.", retryable=True)
        # Whoever waits for it may leave; the process is wanted by all.
        return await asyncio.shield(slot.starting or self._begin(slot))

    def _begin(self, slot: _Slot) -> asyncio.Task[MediaRemote]:
        if slot.remote is not None:
            bury = asyncio.create_task(slot.remote.stop())
            self._dead.add(bury)
            bury.add_done_callback(self._dead.discard)
        slot.remote = None
        slot.starting = asyncio.create_task(self._start(slot))
        slot.starting.add_done_callback(_look_at)
        return slot.starting

    async def _start(self, slot: _Slot) -> MediaRemote:
        remote = MediaRemote()
        slot.starts += 1
        try:
            await remote.start()
            slot.remote = remote
            return remote
        except asyncio.CancelledError:
            await remote.stop()
            raise
        finally:
            slot.starting = None


class CallLine:
    """The way to one call in its media process."""

    def __init__(self, remote: MediaRemote, slot: _Slot, call_id: str) -> None:
        self._remote = remote
        self._slot: _Slot | None = slot
        self._id = call_id

    def say(self, text: str) -> None:
        """A message on the event channel."""
        self._remote.send(wire.Say(self._id, text))

    def play(self, samples: bytes) -> None:
        self._remote.send(wire.Play(self._id, samples))

    def flush(self, generation: int) -> None:
        self._remote.send(wire.Flush(self._id, generation))

    def hang_up(self, *, linger: bool) -> None:
        """``linger``: what was said last is still to arrive."""
        self._remote.send(wire.HangUp(self._id, linger))

    def release(self) -> None:
        """The call is over, and its process is free for another."""
        slot, self._slot = self._slot, None
        if slot is not None:
            slot.load -= 1


def _described(slot: _Slot) -> dict[str, Any]:
    remote = slot.remote
    alive = remote is not None and remote.alive
    beat = remote.beat if remote is not None else None
    return {
        "state": "ready" if alive else "starting" if slot.starting is not None else "down",
        "pid": remote.pid if remote is not None else None,
        "restarts": slot.starts - 1,
        "calls": remote.calls if remote is not None else 0,
        "rss_bytes": beat.rss_bytes if beat is not None else 0,
        "late_ms": round(beat.late_ms, 1) if beat is not None else 0.0,
    }


def _look_at(task: asyncio.Task[MediaRemote]) -> None:
    """Somebody may have wanted it ready in good time, and not be waiting for it."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("a media process could not be started: %s", error)
