"""WebRTC calls per core: an echo on one core, called from another, until its packets no longer leave in time.

    python -m benchmarks.webrtc_calls [--calls 10,20,40,60,80] [--seconds 10] [--fastrtc-python PYTHON]
    python -m benchmarks.webrtc_calls --leaks 500

The same echo by voice_omni's media path, by aiortc with its defaults and by fastrtc's echo handler; every caller speaks
all the time, so that all of it is decoded and encoded. A row is clean when the interval between packets of a call is
off by less than 5 ms at the 99th percentile and at least 99 % of the packets are sent. fastrtc is measured when a
Python that has it is named:

    python -m venv fastrtc && fastrtc/bin/pip install fastrtc

--leaks opens and closes that many calls, every third without a goodbye, and tells what is left of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription

from benchmarks.machine import describe
from tests.support.speech import recordings
from voice_omni.transports.webrtc.codecs import PLAY_FRAME, make_encoder
from voice_omni.transports.webrtc.peer_interface import PLAY_RATE
from voice_omni.transports.webrtc.rtp import RtpPacket

CALLERS_CORE = 1
CLEAN_MS = 5.0


class Echo:
    """The process that is measured."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._turn = asyncio.Lock()

    async def tell(self, **command: Any) -> dict[str, Any]:
        async with self._turn:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            return dict(json.loads(await self._process.stdout.readline()))


@asynccontextmanager
async def echo(library: str, python: str, *options: str) -> AsyncIterator[Echo]:
    process = await asyncio.create_subprocess_exec(
        *(python, "-m", "benchmarks.webrtc_echo", library, *options),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=None,
        cwd=Path(__file__).parent.parent,
        limit=2**28,
    )
    try:
        yield Echo(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), 5)
        except TimeoutError:
            process.kill()
            await process.wait()


class LightCaller:
    """Sends packets that were encoded before and does not look at what comes back, so that one core does for many."""

    def __init__(self) -> None:
        self.connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.transceiver: Any = self.connection.addTransceiver("audio", direction="sendrecv")
        self.transceiver.sender.send = self.transceiver.receiver.receive = self._no_media
        self.opened = asyncio.Event()
        self.connection.createDataChannel("oai-events").on("open", self.opened.set)
        self.frames = 0

    async def call(self, server: Echo) -> None:
        await self.connection.setLocalDescription(await self.connection.createOffer())
        answer = await server.tell(offer=self.connection.localDescription.sdp)
        await self.connection.setRemoteDescription(RTCSessionDescription(answer["answer"], "answer"))
        self.dtls: Any = self.transceiver.receiver.transport
        self.ice = self.dtls.transport._connection
        receive = self.ice.data_received
        self.ice.data_received = lambda data, part: None if 128 <= data[0] <= 191 else receive(data, part)
        async with asyncio.timeout(20):
            await self.opened.wait()

    async def _no_media(self, *parameters: object) -> None: ...

    def send(self, payloads: list[bytes]) -> None:
        pair = self.ice._nominated.get(1)
        if pair is not None and self.dtls.state == "connected":
            number = self.frames
            packet = RtpPacket(96, number & 0xFFFF, 960 * number, 4711, payloads[number % len(payloads)])
            pair.protocol.transport.sendto(self.dtls._tx_srtp.protect(packet.encode()), pair.remote_addr)
        self.frames += 1

    def vanish(self) -> None:
        for protocol in self.ice._protocols:
            protocol.send_stun = lambda *_: None
            protocol.send_data = self._no_media
            protocol.datagram_received = lambda *_: None

    async def hang_up(self) -> None:
        await self.connection.close()


def speech() -> list[bytes]:
    encoder = make_encoder("opus", 32_000, 5, 0)
    sound = np.concatenate([each.samples(PLAY_RATE) for each in recordings()])
    starts = range(0, len(sound) - PLAY_FRAME, PLAY_FRAME)
    return [encoder.encode(sound[start : start + PLAY_FRAME]) for start in starts]


async def speak(callers: list[LightCaller], payloads: list[bytes], seconds: float) -> None:
    """Everybody at once, each at another moment of the 20 ms."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for slot in range(int(seconds * 50)):
        for index, caller in enumerate(callers):
            due = began + slot * 0.02 + 0.02 * index / len(callers)
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            caller.send(payloads)
        await asyncio.sleep(0)


async def measure(library: str, python: str, calls: int, seconds: float, payloads: list[bytes]) -> bool:
    """Print one row; returns whether it was clean."""
    async with echo(library, python) as server:
        callers = [LightCaller() for _ in range(calls)]
        for caller in callers:
            await caller.call(server)
        talking = asyncio.create_task(speak(callers, payloads, seconds + 3))
        await asyncio.sleep(2)
        await server.tell(start=True)
        await asyncio.sleep(seconds)
        result = await server.tell(stop=True)
        talking.cancel()
        await asyncio.wait([talking])
        await asyncio.gather(*(caller.hang_up() for caller in callers))
    jitter = np.percentile(result["late_ms"], [50, 99]) if result["late_ms"] else [np.inf, np.inf]
    sent = result["packets"] / (calls * 50 * result["seconds"])
    clean = bool(jitter[1] < CLEAN_MS and sent > 0.99)
    used = 100 * result["cpu"] / result["seconds"]
    figures = (used / calls, used, jitter[0], jitter[1], 100 * sent)
    print(f"{library:<12}{calls:>6}" + "".join(f"{each:>12.2f}" for each in figures), "clean" * clean, flush=True)
    return clean


async def calls_per_core(libraries: dict[str, str], steps: list[int], seconds: float) -> None:
    payloads = speech()
    heads = ("core %/call", "core %", "p50 off ms", "p99 off ms", "sent %")
    print(f"{'echo by':<12}{'calls':>6}" + "".join(f"{each:>12}" for each in heads))
    for library, python in libraries.items():
        most, failures = 0, 0
        for calls in steps:
            clean = await measure(library, python, calls, seconds, payloads)
            most, failures = (calls, 0) if clean else (most, failures + 1)
            if failures == 2:
                break
        print(f"{library}: {most} calls on a core with clean pacing\n", flush=True)


async def leaks(count: int) -> None:
    payloads = speech()
    async with echo("voice_omni", sys.executable, "2") as server:

        async def one(number: int) -> None:
            caller = LightCaller()
            await caller.call(server)
            await speak([caller], payloads, 0.3)
            if number % 3 == 0:
                caller.vanish()
            await caller.hang_up()

        print(f"{'calls':>6}{'resident KB':>14}{'files':>8}{'threads':>9}{'tasks':>7}")
        points = []
        for done in range(0, count + 1, 50):
            await asyncio.sleep(4)  # those who vanished are given up after 2 s
            held = await server.tell(memory=True)
            points.append((done, held["resident"] / 1024))
            print(f"{done:>6}{held['resident'] / 1024:>14.0f}{held['files']:>8}{held['threads']:>9}{held['tasks']:>7}")
            if done < count:
                for start in range(0, 50, 10):
                    await asyncio.gather(*(one(number) for number in range(start, start + 10)))
        warm = [point for point in points if point[0] >= 100] or points
        slope = np.polyfit(*zip(*warm, strict=True), 1)[0]
        print(f"{slope:.1f} KB a call after warm-up")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", default="10,20,30,40,50,60,70,80")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--only", help="one library")
    parser.add_argument("--fastrtc-python", help="a Python that has fastrtc")
    parser.add_argument("--leaks", type=int, help="open and close so many calls instead")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {CALLERS_CORE})
    print(f"{describe()}; {time.strftime('%Y-%m-%d')}\n")
    if arguments.leaks:
        await leaks(arguments.leaks)
        return
    libraries = {"voice_omni": sys.executable, "aiortc": sys.executable}
    if arguments.fastrtc_python:
        libraries["fastrtc"] = arguments.fastrtc_python
    if arguments.only:
        libraries = {arguments.only: libraries[arguments.only]}
    await calls_per_core(libraries, [int(each) for each in arguments.calls.split(",")], arguments.seconds)


if __name__ == "__main__":
    asyncio.run(main())
