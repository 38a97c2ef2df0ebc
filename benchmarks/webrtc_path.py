"""What arrives of a caller's sound over a bad network, and how late: our receive path and stock aiortc's, side by side.

    python -m benchmarks.webrtc_path [--minutes 5] [--seed 1]

A model of a path (seeded) decides when which packet arrives; both get the same packets at the same moments of a clock
that is not the machine's, so that minutes take seconds. Ours is the receiver of a call as it is. aiortc's is its jitter
buffer as its audio receiver sets it up; its decoder adds nothing to the delay.

missing: the caller's sound that was not handed on, of what was sent. wait: from the arrival of a packet to its being
handed on, on average and at the 99th percentile. back: after a burst, how long until the wait is no longer than before.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from aiortc.jitterbuffer import JitterBuffer
from aiortc.rtp import RtpPacket as AiortcPacket

from benchmarks.machine import describe
from tests.support.impaired_path import ImpairedPath
from tests.support.speech import recordings
from voice_omni.transports.webrtc.codecs import PLAY_FRAME, make_decoder, make_encoder
from voice_omni.transports.webrtc.peer_interface import PLAY_RATE, PeerSettings, ReceivedSound
from voice_omni.transports.webrtc.receiver import AudioReceiver
from voice_omni.transports.webrtc.rtp import RtpPacket

FRAME_S = 0.02
PATHS = {
    "clean": ImpairedPath(),
    "one packet lost": ImpairedPath(stalls=()),
    "1 % loss": ImpairedPath(loss=0.01),
    "1 % loss, jitter, reordering": ImpairedPath(loss=0.01, jitter=0.012, reordering=0.02, duplicates=0.005),
    "5 % loss, jitter, reordering": ImpairedPath(loss=0.05, jitter=0.02, reordering=0.05),
    "bursts: 0.6 s every 10 s": ImpairedPath(loss=0.01, jitter=0.012),
}


@dataclass
class Heard:
    """One run: when each frame that arrived was handed on, and when it had arrived. Seconds, by frame."""

    arrived: dict[int, float]
    handed_on: dict[int, float]
    sent: int

    @property
    def missing(self) -> float:
        return 1 - len(self.handed_on) / self.sent

    def waits(self) -> list[tuple[float, float]]:
        """When, and how long, by frame."""
        return [(when, when - self.arrived[frame]) for frame, when in sorted(self.handed_on.items())]


def ours(arrivals: list[tuple[float, int]], payloads: list[bytes]) -> Heard:
    heard = Heard({}, {}, len(payloads))
    now = 0.0

    def take(sound: ReceivedSound) -> None:
        if not sound.concealed:
            frame = round((sound.position + len(sound.samples)) / PLAY_FRAME) - 1 + first
            heard.handed_on[frame] = now

    receiver = AudioReceiver(make_decoder("opus"), 111, PeerSettings(), take)
    first, ticked = arrivals[0][1], 0.0
    for arrival, frame in arrivals:
        while ticked + FRAME_S <= arrival:
            ticked = now = ticked + FRAME_S
            receiver.tick(now, held_up=False)
        now = arrival
        heard.arrived.setdefault(frame, arrival)
        receiver.packet(RtpPacket(111, frame & 0xFFFF, frame * 960, 7, payloads[frame]), arrival)
    return heard


def aiortc(arrivals: list[tuple[float, int]], payloads: list[bytes]) -> Heard:
    heard = Heard({}, {}, len(payloads))
    buffer = JitterBuffer(capacity=16, prefetch=4)
    for arrival, frame in arrivals:
        heard.arrived.setdefault(frame, arrival)
        packet = AiortcPacket(111, 0, frame & 0xFFFF, frame * 960, 7, payloads[frame])
        packet._data = packet.payload  # type: ignore[attr-defined]
        _, ready = buffer.add(packet)
        if ready is not None:
            heard.handed_on[ready.timestamp // 960] = arrival
    return heard


def back_after(heard: Heard, bursts: tuple[tuple[float, float], ...]) -> float | None:
    """The longest time after a burst until the mean wait of half a second is again what it was before, within 20 ms."""
    waits = np.array(heard.waits())
    longest = 0.0
    for start, end in bursts:
        before = waits[(waits[:, 0] >= start - 3) & (waits[:, 0] < start), 1].mean()
        for step in range(1, 100):
            since = end + 0.1 * step
            window = waits[(waits[:, 0] >= since) & (waits[:, 0] < since + 0.5), 1]
            if len(window) and window.mean() < before + 0.02:
                break
        longest = max(longest, 0.1 * step)
    return longest if bursts else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    frames = int(arguments.minutes * 60 * 50)
    encoder = make_encoder("opus", 32_000, 1, 0)
    sound = np.concatenate([each.samples(PLAY_RATE) for each in recordings()])
    starts = range(0, len(sound) - PLAY_FRAME, PLAY_FRAME)
    speech = [encoder.encode(sound[start : start + PLAY_FRAME]) for start in starts]
    payloads = [speech[frame % len(speech)] for frame in range(frames)]
    print(f"{describe()}; {time.strftime('%Y-%m-%d')}; {arguments.minutes:g} minutes, seed {arguments.seed}\n")
    print(f"{'path':<32}{'':<12}{'missing %':>10}{'wait ms':>10}{'p99':>8}{'back after s':>14}")
    sides: dict[str, Callable[[list[tuple[float, int]], list[bytes]], Heard]] = {"voice_omni": ours, "aiortc": aiortc}
    for name, path in PATHS.items():
        bursts: tuple[tuple[float, float], ...] = ()
        if name.startswith("bursts"):
            bursts = tuple((start, start + 0.6) for start in np.arange(10, arguments.minutes * 60 - 10, 10.0))
        arrivals = replace(path, seed=arguments.seed, stalls=bursts).arrivals([FRAME_S * n for n in range(frames)])
        if name == "one packet lost":
            arrivals = [each for each in arrivals if each[1] != 500]
        for side, run in sides.items():
            heard = run(arrivals, payloads)
            wait = 1000 * np.array([each for _, each in heard.waits()])
            back = back_after(heard, bursts)
            print(
                f"{name:<32}{side:<12}{100 * heard.missing:>10.2f}{wait.mean():>10.1f}{np.percentile(wait, 99):>8.0f}"
                + (f"{back:>14.1f}" if back is not None else "")
            )


if __name__ == "__main__":
    main()
