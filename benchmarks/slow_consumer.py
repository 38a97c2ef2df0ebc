"""A listener that stops taking sound for half a minute: what it costs the server and the others.

    python -m benchmarks.slow_consumer [--seconds 30]

One request speaks a long text and is not read; meanwhile others are spoken one after another. Printed: resident memory
of each stage process at the beginning and the end of the stall, whether the slow request's stages worked meanwhile, and
the others' time to first sound before and during the stall.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time

from benchmarks.machine import describe
from voice_omni.client.interface import AudioDelta, GenerateRequest
from voice_omni.client.pipeline import PipelineClient
from voice_omni.config.settings import default_settings
from voice_omni.models.starter.pipeline import PIPELINE
from voice_omni.pipeline.launcher import Launcher

LONG = GenerateRequest(input="speak", text="This sentence is spoken again and again, until somebody listens. " * 100)
SHORT = GenerateRequest(input="speak", text="Good morning, and welcome back.")


async def first_sound(pipeline: Launcher) -> float:
    """Milliseconds to the first sound of a short sentence, which is then read to its end."""
    began = time.monotonic()
    first: float | None = None
    async for event in await PipelineClient.of(pipeline).open(SHORT):
        if first is None and isinstance(event, AudioDelta):
            first = (time.monotonic() - began) * 1000
    return first or float("nan")


async def for_a_while(pipeline: Launcher, seconds: float) -> list[float]:
    until = time.monotonic() + seconds
    latencies = []
    while time.monotonic() < until:
        latencies.append(await first_sound(pipeline))
    return latencies


def megabytes(pipeline: Launcher) -> dict[str, float]:
    processes = pipeline.health()["processes"]
    return {name: process["rss_bytes"] / 1e6 for name, process in processes.items()}


async def main() -> None:
    parser = argparse.ArgumentParser(description="a consumer that stops reading")
    parser.add_argument("--seconds", type=float, default=30)
    options = parser.parse_args()
    print(describe())
    async with Launcher(PIPELINE, default_settings(PIPELINE), stages=PIPELINE.routes["speak"]) as pipeline:
        await for_a_while(pipeline, 3)
        before = await for_a_while(pipeline, 5)
        slow = await PipelineClient.of(pipeline).open(LONG)
        events = aiter(slow)
        await anext(events)
        await asyncio.sleep(3)
        memory, waiting = megabytes(pipeline), pipeline.coordinator.stats()["output"]
        during = await for_a_while(pipeline, options.seconds)
        later, still = megabytes(pipeline), pipeline.coordinator.stats()["output"]
        rest = sum([len(event.samples) async for event in events if isinstance(event, AudioDelta)])
    print(f"{'process':>12} {'MB before':>10} {'MB after':>9}")
    for name, size in memory.items():
        print(f"{name:>12} {size:>10.1f} {later[name]:>9.1f}")
    print(f"chunks that wait for the listener: {waiting} at the beginning, {still} after {options.seconds:g} s")
    print(f"sound that came after it listened again: {rest / PIPELINE.output_sample_rate:.0f} s")
    medians = statistics.median(before), statistics.median(during)
    print(f"others, median ms to first sound: {medians[0]:.0f} before, {medians[1]:.0f} during the stall")


if __name__ == "__main__":
    asyncio.run(main())
