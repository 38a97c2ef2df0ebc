"""An echo over WebRTC, made by one of three libraries, for others to call and to measure.

    python -m benchmarks.webrtc_echo voice_omni|server|aiortc|fastrtc [SECONDS]

``voice_omni`` is the media path alone; ``server`` is the way that a server's sound takes, to a media process and back.
``SECONDS``: after which voice_omni gives up a caller who vanished.

Reads one JSON command a line and answers with one: ``{"offer": SDP}`` with an SDP answer, ``{"start": true}`` begins a
measurement, ``{"stop": true}`` ends it with processor seconds and the intervals between packets, ``{"memory": true}``
tells what the process holds. It runs on one core. Only the library that is asked for is imported.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import sys
import threading
import time
from asyncio import selector_events
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

CORE = 0


class Departures:
    """When media packets leave, read off the socket calls, which all three libraries make through asyncio."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[float, int]] = {}
        self.late_ms: list[float] = []
        self.packets = 0
        self.measuring = False
        transport: Any = selector_events._SelectorDatagramTransport  # type: ignore[attr-defined]
        send = transport.sendto

        def noted(itself: Any, data: bytes, addr: Any = None) -> None:
            send(itself, data, addr)
            if self.measuring and 128 <= data[0] <= 191 and not 192 <= data[1] <= 223:
                self._note(id(itself), time.perf_counter(), int.from_bytes(data[4:8]))

        transport.sendto = noted

    def start(self) -> None:
        self._last.clear()
        self.late_ms.clear()
        self.packets = 0
        self.measuring = True

    def _note(self, stream: int, now: float, timestamp: int) -> None:
        """How far the interval since the packet before is from what the timestamps say. All streams are Opus."""
        self.packets += 1
        if (before := self._last.get(stream)) is not None:
            meant = ((timestamp - before[1]) % 2**32) / 48_000
            self.late_ms.append(abs(now - before[0] - meant) * 1000)
        self._last[stream] = (now, timestamp)


def memory() -> dict[str, int]:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "resident": pages * resource.getpagesize(),
        "files": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "tasks": len(asyncio.all_tasks()),
    }


def voice_omni() -> Callable[[str], Awaitable[str]]:
    timeout = float(sys.argv[2]) if len(sys.argv) > 2 else 20.0
    from voice_omni.transports.webrtc.peer import Peer
    from voice_omni.transports.webrtc.peer_interface import CloseReason, PeerSettings, ReceivedSound

    class Echo:
        def __init__(self) -> None:
            self.peer = Peer(PeerSettings(disconnect_timeout_s=timeout), self)

        def opened(self) -> None: ...

        def message(self, text: str) -> None: ...

        def audio(self, sound: ReceivedSound) -> None:
            self.peer.play(sound.samples)

        def played(self, total_samples: int) -> None: ...

        def closed(self, reason: CloseReason) -> None: ...

    async def answer(offer: str) -> str:
        return await Echo().peer.answer(offer)

    return answer


def server() -> Callable[[str], Awaitable[str]]:
    from voice_omni.audio.pcm import Samples
    from voice_omni.proto.errors import ErrorInfo
    from voice_omni.transports.webrtc import wire
    from voice_omni.transports.webrtc.media_host import CallLine, MediaHost
    from voice_omni.transports.webrtc.peer_interface import PeerSettings, PeerStats

    class Echo:
        line: CallLine | None = None

        def opened(self) -> None: ...

        def message(self, text: str) -> None: ...

        def sound(self, position: int, samples: Samples) -> None:
            if self.line is not None:
                self.line.play(wire.to_bytes(samples))

        def played(self, generation: int, samples: int) -> None: ...

        def undelivered(self, error: ErrorInfo) -> None: ...

        def closed(self, reason: str, stats: PeerStats | None) -> None: ...

    host = MediaHost(1)
    calls = iter(range(1_000_000))

    async def answer(offer: str) -> str:
        echo = Echo()
        sdp, echo.line = await host.open(str(next(calls)), offer, PeerSettings(), echo)
        return sdp

    return answer


def aiortc() -> Callable[[str], Awaitable[str]]:
    from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription

    connections = set()

    async def answer(offer: str) -> str:
        connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        connections.add(connection)
        connection.on("track", connection.addTrack)
        connection.on("connectionstatechange", lambda: connection.connectionState == "closed" and forget(connection))
        await connection.setRemoteDescription(RTCSessionDescription(offer, "offer"))
        await connection.setLocalDescription(await connection.createAnswer())
        return connection.localDescription.sdp

    def forget(connection: Any) -> None:
        connections.discard(connection)

    return answer


def fastrtc() -> Callable[[str], Awaitable[str]]:
    from fastrtc import AsyncStreamHandler, Stream, wait_for_item
    from fastrtc.stream import Body

    class Echo(AsyncStreamHandler):
        """The echo of its documentation."""

        def __init__(self) -> None:
            super().__init__()
            self.queue: asyncio.Queue[Any] = asyncio.Queue()

        async def receive(self, frame: Any) -> None:
            await self.queue.put(frame)

        async def emit(self) -> Any:
            return await wait_for_item(self.queue)

        def copy(self) -> Echo:
            return Echo()

        async def start_up(self) -> None: ...

    stream = Stream(
        Echo(),
        modality="audio",
        mode="send-receive",
        concurrency_limit=1000,
        server_rtc_configuration={"iceServers": []},
    )
    calls = iter(range(1_000_000))

    async def answer(offer: str) -> str:
        return (await stream.offer(Body(sdp=offer, type="offer", webrtc_id=str(next(calls)))))["sdp"]

    return answer


async def serve(answer: Callable[[str], Awaitable[str]]) -> None:
    departures = Departures()
    began = (0.0, 0.0)
    reader = asyncio.StreamReader(limit=2**20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints does not go between the replies
    while line := await reader.readline():
        command = json.loads(line)
        if "offer" in command:
            reply: dict[str, Any] = {"answer": await answer(command["offer"])}
        elif "start" in command:
            departures.start()
            began = (time.process_time(), time.perf_counter())
            reply = {}
        elif "stop" in command:
            departures.measuring = False
            reply = {
                "cpu": time.process_time() - began[0],
                "seconds": time.perf_counter() - began[1],
                "packets": departures.packets,
                "late_ms": departures.late_ms,
            }
        else:
            reply = memory()
        print(json.dumps(reply), file=replies, flush=True)


LIBRARIES = {"voice_omni": voice_omni, "server": server, "aiortc": aiortc, "fastrtc": fastrtc}

if __name__ == "__main__":
    os.sched_setaffinity(0, {CORE})
    asyncio.run(serve(LIBRARIES[sys.argv[1]]()))
