"""From mouth to ear over WebRTC: how long a sound takes to an echo and back.

    python -m benchmarks.webrtc_delay [--seconds 30] [--fastrtc-python PYTHON]

The caller sends a short tone twice a second and listens to the packets themselves, so nothing of its own player counts.
A sound leaves the mouth when it is captured, which is up to 20 ms before its packet goes, and reaches the ear when the
packet that holds it has come, at its place in it. The codec's own delay is part of it.

``server`` is the way of a server's sound: media process, server, media process; ``voice_omni`` is the media path alone.
The same echo by aiortc with its defaults and, when a Python that has it is named, by fastrtc.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from typing import Any

import numpy as np

from benchmarks.machine import describe
from benchmarks.webrtc_calls import LightCaller, echo
from voice_omni.transports.webrtc.codecs import PLAY_FRAME, make_decoder, make_encoder
from voice_omni.transports.webrtc.peer_interface import PLAY_RATE
from voice_omni.transports.webrtc.rtp import decode_rtp

FRAME_S = 0.02
PERIOD_FRAMES = 25
SETTLED_S = 3.0
"""Jitter buffers have found their size by then."""
_LOUD = 0.1


def tones() -> list[bytes]:
    """One period, in Opus: 20 ms of 1 kHz that begin with a packet, then silence."""
    sound = np.zeros(PERIOD_FRAMES * PLAY_FRAME, np.float32)
    # The second period is sent, in which the encoder has a past.
    sound[:PLAY_FRAME] = 0.5 * np.sin(2 * np.pi * 1000 * np.arange(PLAY_FRAME) / PLAY_RATE)
    encoder = make_encoder("opus", 32_000, 5, 0)
    payloads = [
        encoder.encode(sound[start : start + PLAY_FRAME])
        for _ in range(2)
        for start in range(0, len(sound), PLAY_FRAME)
    ]
    return payloads[PERIOD_FRAMES:]


class Listener:
    """When each tone that comes back is heard, by the event loop's clock."""

    def __init__(self, caller: LightCaller) -> None:
        self._dtls = caller.dtls
        self._decoder = make_decoder("opus")
        self._quiet_until = 0.0
        self.heard: list[float] = []
        others = caller.ice.data_received
        caller.ice.data_received = lambda data, part: others(data, part) if not self._take(data) else None
        self._now = asyncio.get_running_loop().time

    def _take(self, data: bytes) -> bool:
        media = 128 <= data[0] <= 191 and not 192 <= data[1] <= 223
        if media and (packet := decode_rtp(self._dtls._rx_srtp.unprotect(data))) is not None:
            now = self._now()
            samples = self._decoder.decode(packet.payload)
            loud = np.flatnonzero(np.abs(samples) > _LOUD) if samples is not None else ()
            if len(loud) and now > self._quiet_until:
                self.heard.append(now + float(loud[0]) / self._decoder.clock_rate)
                self._quiet_until = now + PERIOD_FRAMES * FRAME_S / 2
        return media


async def measure(library: str, python: str, seconds: float, payloads: list[bytes]) -> list[float]:
    """Milliseconds of each tone."""
    async with echo(library, python) as server:
        caller = LightCaller()
        await caller.call(server)
        listener = Listener(caller)
        loop = asyncio.get_running_loop()
        began, spoken = loop.time(), []
        for slot in range(int((SETTLED_S + seconds) / FRAME_S)):
            await asyncio.sleep(max(0.0, began + slot * FRAME_S - loop.time()))
            if slot % PERIOD_FRAMES == 0:
                spoken.append(loop.time() - FRAME_S)
            caller.send(payloads)
        await asyncio.sleep(1.0)
        await caller.hang_up()
    delays = []
    for moment in spoken:
        back = next((heard for heard in listener.heard if moment < heard), None)
        if back is not None and moment > began + SETTLED_S:
            delays.append((back - moment) * 1000)
    return delays


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fastrtc-python", help="a Python that has fastrtc")
    arguments = parser.parse_args()
    print(f"{describe()}; {time.strftime('%Y-%m-%d')}\n")
    libraries: dict[str, Any] = {"server": sys.executable, "voice_omni": sys.executable, "aiortc": sys.executable}
    if arguments.fastrtc_python:
        libraries["fastrtc"] = arguments.fastrtc_python
    payloads = tones()
    print(f"{'echo by':<12}{'tones':>6}{'p50 ms':>10}{'p95 ms':>10}")
    for library, python in libraries.items():
        delays = await measure(library, python, arguments.seconds, payloads)
        p50, p95 = np.percentile(delays, [50, 95]) if delays else (np.nan, np.nan)
        print(f"{library:<12}{len(delays):>6}{p50:>10.1f}{p95:>10.1f}", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
