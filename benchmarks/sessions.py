"""Sessions on a busy machine: how late the server's event loop is, and how much memory an ended session keeps.

    python -m benchmarks.sessions [--callers 20] [--seconds 20] [--sessions 200]

A server process over a scripted pipeline; callers who send 20 ms of speech every 20 ms and get their answers; and a
busy process for every core. The lateness is the time from a WebSocket ping to its pong, in a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from websockets.asyncio.client import ClientConnection, connect

from benchmarks.machine import describe
from tests.support.caller import Caller
from tests.support.speech import recording
from tests.support.talk import RATE
from voice_omni.audio.pcm import Samples

FRAME = RATE // 50
SERVER = """
import asyncio
from tests.support.caller import services
from tests.support.scripted import ScriptedClient
from tests.support.serving import serving
from voice_omni.server import create_app
from voice_omni.session.silero import SileroModel
from voice_omni.session.weights import SILERO_VAD
from voice_omni.weights.store import fetch

class Client(ScriptedClient):
    async def open(self, request):
        self.replies.clear()
        return await super().open(request)

async def main():
    silero = SileroModel(fetch(SILERO_VAD) / SILERO_VAD.files[0])
    async with serving(create_app(services(Client(), silero, max_sessions=256))) as address:
        print(address, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""

PROBE = """
import asyncio, json, sys, time
from websockets.asyncio.client import connect

async def main(url, seconds):
    spent = []
    async with connect(url, max_size=None) as connection:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            began = time.perf_counter()
            await (await connection.ping())
            spent.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(0.01)
    print(json.dumps(sorted(spent)))

asyncio.run(main(sys.argv[1], float(sys.argv[2])))
"""


def resident_kb(pid: int) -> int:
    with open(f"/proc/{pid}/status") as status:
        match = re.search(r"VmRSS:\s+(\d+)", status.read())
    return int(match[1]) if match else 0


async def talk(connection: ClientConnection, sound: Samples, until: float) -> None:
    """In real time, over and over; what comes back is read and thrown away."""

    async def read() -> None:
        async for _ in connection:
            pass

    reading = asyncio.create_task(read())
    caller, loop = Caller(connection), asyncio.get_running_loop()
    due, position = loop.time(), 0
    while loop.time() < until:
        await caller.say(sound[position : position + FRAME])
        position = (position + FRAME) % (len(sound) - FRAME)
        due += FRAME / RATE
        await asyncio.sleep(due - loop.time())
    reading.cancel()


async def lateness(url: str, callers: int, seconds: float) -> list[float]:
    """Milliseconds of each ping, in order of size."""
    sound = np.concatenate([recording("question-10").samples(RATE), np.zeros(2 * RATE, np.float32)])
    connections = [await connect(url, max_size=None) for _ in range(callers)]
    until = asyncio.get_running_loop().time() + seconds
    talking = [asyncio.create_task(talk(connection, sound, until)) for connection in connections]
    probe = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROBE, url, str(seconds)), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await probe.communicate()
    await asyncio.gather(*talking)
    codes = {connection.close_code for connection in connections}
    if codes != {None}:
        raise RuntimeError(f"connections were closed: {codes}")
    await asyncio.gather(*(connection.close() for connection in connections))
    spent: list[float] = json.loads(output)
    return spent


async def one_session(url: str) -> None:
    async with connect(url) as connection:
        caller = Caller(connection)
        await caller.say(np.concatenate([recording("question-10").samples(RATE), np.zeros(RATE, np.float32)]), RATE)
        await caller.until("response.done")


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that compute without end."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


async def run(options: argparse.Namespace, address: str, pid: int) -> None:
    url = f"ws://{address}/v1/realtime"
    print(f"{'ping to pong, ms':<28}{'p50':>8}{'p99':>8}{'max':>8}")
    for name, hogs in (("idle machine", 0), ("a busy process per core", os.cpu_count() or 1)):
        with busy(hogs):
            spent = await lateness(url, options.callers, options.seconds)
        p50, p99 = statistics.median(spent), spent[int(len(spent) * 0.99)]
        print(f"{name:<28}{p50:>8.1f}{p99:>8.1f}{spent[-1]:>8.1f}")
    for _ in range(options.sessions // 4):
        await one_session(url)
    before = resident_kb(pid)
    for _ in range(options.sessions):
        await one_session(url)
    grown = resident_kb(pid) - before
    print(f"memory after {options.sessions} more sessions: {grown:+} KB, {grown / options.sessions:.1f} KB each")


def main() -> None:
    parser = argparse.ArgumentParser(description="loop lateness and memory of many sessions")
    parser.add_argument("--callers", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--sessions", type=int, default=200)
    options = parser.parse_args()
    print(describe())
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as server:
        try:
            address = server.stdout.readline().strip() if server.stdout else ""
            asyncio.run(run(options, address, server.pid))
        finally:
            server.kill()


if __name__ == "__main__":
    main()
