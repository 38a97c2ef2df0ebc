"""Abort: from the call to the last stage's acknowledgement, at random moments of an answer, on the starter pipeline.

    python -m benchmarks.abort [--rounds 100]

Alone: nothing else runs. Beside others: three more answers are being made, so that an abort may have to wait for the
batch that is being computed.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time

from benchmarks.machine import describe
from voice_omni.client.interface import GenerateRequest, Message
from voice_omni.client.pipeline import PipelineClient
from voice_omni.config.settings import default_settings
from voice_omni.models.starter.pipeline import PIPELINE
from voice_omni.pipeline.launcher import Launcher

REQUEST = GenerateRequest(
    input="text", messages=(Message("user", "Tell me a short story about a brave cat and a lonely dog."),)
)


async def drain(pipeline: Launcher) -> None:
    async for _ in await PipelineClient.of(pipeline).open(REQUEST):
        pass


async def forever(pipeline: Launcher) -> None:
    while True:
        await drain(pipeline)


async def measure(pipeline: Launcher, rounds: int) -> list[float]:
    """Milliseconds of each abort."""
    chance = random.Random(1)
    spent = []
    for _ in range(rounds):
        reply = await PipelineClient.of(pipeline).open(REQUEST)

        async def read(reply=reply) -> None:  # type: ignore[no-untyped-def]
            async for _ in reply:
                pass

        reader = asyncio.create_task(read())
        await asyncio.sleep(chance.random() * 1.5)
        began = time.monotonic()
        await reply.abort()
        spent.append((time.monotonic() - began) * 1000)
        await reader
    return sorted(spent)


async def main() -> None:
    parser = argparse.ArgumentParser(description="abort latency")
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    print(describe())
    async with Launcher(PIPELINE, default_settings(PIPELINE)) as pipeline:
        await drain(pipeline)
        alone = await measure(pipeline, options.rounds)
        others = [asyncio.create_task(forever(pipeline)) for _ in range(3)]
        beside = await measure(pipeline, options.rounds)
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
    print(f"{'milliseconds':>14} {'p50':>7} {'p95':>7} {'max':>7}")
    for name, spent in (("alone", alone), ("beside 3", beside)):
        print(f"{name:>14} {spent[len(spent) // 2]:>7.1f} {spent[int(len(spent) * 0.95)]:>7.1f} {spent[-1]:>7.1f}")


if __name__ == "__main__":
    asyncio.run(main())
