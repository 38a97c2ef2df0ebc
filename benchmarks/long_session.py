"""A session that lasts an hour of audio time and a hundred turns, half of them interrupted, on a clock that jumps.

    python -m benchmarks.long_session [--turns 100] [--minutes 60]

Real voice activity, a scripted pipeline and judge. What the model is told of each answer must be what was played of it,
the session's clock must count every sample, and memory must not grow. Ends with status 1 if one of that does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
import time

from benchmarks.machine import describe
from tests.support.marathon import Marathon, peak_growth
from tests.support.virtual_time import VirtualTimeLoop
from voice_omni.session.silero import SileroModel
from voice_omni.session.weights import SILERO_VAD
from voice_omni.weights import fetch

_MAX_GROWTH_KB = 2048


def resident_kb() -> float:
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description="a long conversation")
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=60.0)
    options = parser.parse_args()
    print(describe())
    silero = SileroModel(fetch(SILERO_VAD) / SILERO_VAD.files[0])
    began = time.monotonic()
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        report = runner.run(Marathon(silero, options.turns, options.minutes * 60, resident_kb).run())
    growth = peak_growth(report.memory_kb)
    print(f"{report.seconds / 60:.1f} minutes of sound in {time.monotonic() - began:.0f} s")
    print(
        f"{report.turns} turns, {report.interruptions} interruptions, {len(report.faults)} of them remembered wrongly"
    )
    print(f"clock: {report.drift:+d} samples at 16 kHz")
    print(f"memory: {report.memory_kb[-1] / 1024:.0f} MB, {growth:+.0f} KB from the second quarter to the last")
    for fault in report.faults[:3]:
        print(fault)
    return int(bool(report.faults) or abs(report.drift) > 1 or growth > _MAX_GROWTH_KB)


if __name__ == "__main__":
    sys.exit(main())
