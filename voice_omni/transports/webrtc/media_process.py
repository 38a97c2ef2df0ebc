"""The main function of a media process: ``python -m voice_omni.transports.webrtc.media_process FD LOG_LEVEL``.

``FD`` is its end of the socket pair over which the server gives it calls. It does nothing but these calls, so nothing
else can make a frame late. It ends when the server closes the other end, or is gone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from voice_omni.proto.errors import OmniError, as_omni_error
from voice_omni.transports.webrtc import wire
from voice_omni.transports.webrtc.peer import Peer
from voice_omni.transports.webrtc.peer_interface import CloseReason, PeerInterface, ReceivedSound

BEAT_S: Final = 1.0
_LINGER_S: Final = 0.3
"""What was said last needs about a round trip to arrive; more than this is not worth waiting for."""
_CLOSE_S: Final = 2.0

logger = logging.getLogger(__name__)


class MediaCall:
    """One call: passes on what its peer reports, and to its peer what the server wants."""

    def __init__(self, opening: wire.Open, link: wire.Link, ended: Callable[[str], None]) -> None:
        """``ended`` is called with the call's id when the call is over."""
        self.id = opening.call
        self._link = link
        self._ended = ended
        self._generation = 0
        self._base = 0
        self._peer: PeerInterface = Peer(opening.settings, self)

    async def answer(self, offer: str) -> None:
        try:
            answer = await self._peer.answer(offer)
        except Exception as error:  # noqa: BLE001 - an offer comes from outside, and whatever it breaks is its own call
            self._ended(self.id)
            self._link.send(wire.Refused(self.id, as_omni_error(error).info))
        else:
            self._link.send(wire.Answered(self.id, answer))

    def obey(self, message: wire.Say | wire.Play | wire.Flush) -> None:
        try:
            match message:
                case wire.Say(_, text):
                    self._peer.send_message(text)
                case wire.Play(_, samples):
                    self._peer.play(wire.to_samples(samples))
                case wire.Flush(_, generation):
                    self._base = self._peer.flush()
                    self._generation = generation
        except OmniError as error:
            self._link.send(wire.Undelivered(self.id, error.info))

    async def close(self, linger: bool) -> None:
        if linger:
            await asyncio.sleep(_LINGER_S)
        await self._peer.close()

    # What the peer reports

    def opened(self) -> None:
        self._link.send(wire.Opened(self.id))

    def message(self, text: str) -> None:
        self._link.send(wire.Said(self.id, text))

    def audio(self, sound: ReceivedSound) -> None:
        """A server that is held up is not buried under sound: it sees from the next position what is missing."""
        if not self._link.congested:
            self._link.send(wire.Sound(self.id, sound.position, wire.to_bytes(sound.samples)))

    def played(self, total_samples: int) -> None:
        self._link.send(wire.Played(self.id, self._generation, max(0, total_samples - self._base)))

    def closed(self, reason: CloseReason) -> None:
        self._ended(self.id)
        self._link.send(wire.Closed(self.id, reason, self._peer.stats()))


class MediaProcess:
    """The calls of this process."""

    def __init__(self) -> None:
        self._link = wire.Link(self._on_message, self._on_lost)
        self._calls: dict[str, MediaCall] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._finished = asyncio.Event()

    async def serve(self, connection: socket.socket) -> None:
        """Returns when the server is gone, or wants this process to be."""
        await asyncio.get_running_loop().create_connection(lambda: self._link, sock=connection)
        self._link.send(wire.Ready())
        beating = asyncio.create_task(self._beat())
        await self._finished.wait()
        beating.cancel()
        for call in list(self._calls.values()):
            self._spawn(call.close(linger=False))
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSE_S)

    def _on_lost(self) -> None:
        self._finished.set()

    def _on_message(self, message: wire.WireMessage) -> None:
        """A message for a call that has ended in the meantime is for nobody."""
        match message:
            case wire.Open():
                call = MediaCall(message, self._link, self._forget)
                self._calls[call.id] = call
                self._spawn(call.answer(message.offer))
            case wire.Say() | wire.Play() | wire.Flush():
                if (known := self._calls.get(message.call)) is not None:
                    known.obey(message)
            case wire.HangUp(call_id, linger):
                if (known := self._calls.get(call_id)) is not None:
                    self._spawn(known.close(linger))
            case _:
                raise TypeError(f"nobody tells a media process {type(message).__name__}")

    def _forget(self, call_id: str) -> None:
        self._calls.pop(call_id, None)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a call ended unexpectedly", exc_info=error)

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            late = loop.time() - due
            self._link.send(wire.Beat(resident_bytes(), late * 1000))
            due = loop.time() + BEAT_S
            await asyncio.sleep(BEAT_S)


def resident_bytes() -> int:
    """Resident memory of this process; 0 where the system does not tell it through /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    # The server decides when its calls end: a signal from a terminal or a service manager reaches the whole group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        descriptor, log_level = int(sys.argv[1]), int(sys.argv[2])
    except (IndexError, ValueError):
        sys.exit("a media process is started by the server, which hands it a socket")
    logging.basicConfig(level=log_level, format="%(asctime)s %(levelname)s media: %(message)s")
    logging.getLogger("aioice").setLevel(log_level if log_level <= logging.DEBUG else logging.WARNING)
    asyncio.run(MediaProcess().serve(socket.socket(fileno=descriptor)))


if __name__ == "__main__":
    main()
