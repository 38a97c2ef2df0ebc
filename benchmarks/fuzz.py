"""A hundred thousand random and mutated client messages against a server, and whether it is healthy afterwards.

    python -m benchmarks.fuzz [--messages 100000] [--seed 1]

Nine tenths go to sessions in this process, in virtual time, each message judged: at most one error, with its id, and
nothing changed by what was refused; a session beside them must not notice, and nothing may be left of one that ended.
One tenth goes over a real socket, with forbidden frames and malformed HTTP requests beside it. Sessions take turns in
connecting: in both dialects, for a conversation or a transcription, as a browser does, with and without binary sound.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import random
import time
from collections import Counter

from benchmarks.machine import describe
from tests.fuzz.mutations import wrong_types
from tests.fuzz.session import Tally, Witness, fuzz_session, judge_all, misbehaving
from tests.fuzz.variants import VARIANTS
from tests.fuzz.wire import FRAMES, REQUESTS, fuzz_connection, fuzz_frames, fuzz_http
from tests.support.caller import eventually, services
from tests.support.scripted import ScriptedClient
from tests.support.serving import serving
from tests.support.talk import Talk
from tests.support.virtual_time import VirtualTimeLoop
from voice_omni.server import create_app
from voice_omni.session.options import SessionOptions
from voice_omni.session.silero import SileroModel
from voice_omni.session.weights import SILERO_VAD
from voice_omni.weights.store import fetch

PER_SESSION = 200
PER_CONNECTION = 250


class Faults(logging.Handler):
    """Everything that is logged as an error or with a traceback."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR or record.exc_info:
            self.seen[f"{record.name}: {record.getMessage()}"] += 1


def resident_mb() -> float:
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


async def in_process(messages: int, seed: int, silero: SileroModel, tally: Tally) -> list[float]:
    """Resident memory, MB, after each tenth of the sessions."""
    memory = []
    rng = random.Random(seed)
    client = misbehaving(rng)
    names = list(VARIANTS)
    sessions = max(1, messages // PER_SESSION)
    async with Talk(client, silero, SessionOptions(max_duration_s=10**9)) as beside:
        witness = Witness(beside)
        for number in range(sessions):
            variant = names[number % len(names)]
            await fuzz_session(client, silero, PER_SESSION, rng, tally, VARIANTS[variant].connection)
            await witness.turn()
            if (number + 1) % max(1, sessions // 10) == 0:
                memory.append(resident_mb())
    return memory


async def over_the_wire(messages: int, seed: int, silero: SileroModel, tally: Tally, hostile: Tally) -> None:
    rng = random.Random(seed)
    client = misbehaving(rng)
    app = create_app(services(client, silero))
    variants = list(VARIANTS.values())
    async with serving(app) as address:
        for number in range(max(1, messages // PER_CONNECTION)):
            await fuzz_connection(address, PER_CONNECTION, rng, tally, variants[number % len(variants)])
            for _, make in FRAMES.values():
                await fuzz_frames(address, make(rng), hostile)
            for make in REQUESTS:
                await fuzz_http(address, make(rng), hostile)
        await eventually(lambda: len(app.state.sessions) == 0 and client.alive == [])


def show(title: str, tally: Tally, seconds: float) -> None:
    total = tally.messages.total()
    print(f"\n{title}: {total} messages, {tally.sessions} sessions, {tally.responses} responses, {seconds:.0f} s")
    for name, counts in (("sent", tally.messages), ("answered", tally.answers), ("closed", tally.closes)):
        for what, count in counts.most_common():
            print(f"  {name:<9}{what:<42}{count:>8}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(describe())
    faults = Faults()
    logging.getLogger().addHandler(faults)
    silero = SileroModel(fetch(SILERO_VAD) / SILERO_VAD.files[0])

    began, every = time.monotonic(), Tally()
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(judge_all(ScriptedClient(), silero, wrong_types(), every))
    show("every wrong type of every field", every, time.monotonic() - began)

    began, bulk = time.monotonic(), Tally()
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        memory = runner.run(in_process(options.messages * 9 // 10, options.seed, silero, bulk))
    show("sessions in this process", bulk, time.monotonic() - began)
    print(f"  resident memory after each tenth, MB: {' '.join(f'{each:.0f}' for each in memory)}")

    began, wire, hostile = time.monotonic(), Tally(), Tally()
    asyncio.run(over_the_wire(options.messages // 10, options.seed, silero, wire, hostile))
    show("over a socket", wire, time.monotonic() - began)
    show("frames and requests that are none", hostile, time.monotonic() - began)

    print(f"\nfaults logged: {faults.seen.total()}")
    for what, count in faults.seen.most_common():
        print(f"  {count:>6} {what}")
    raise SystemExit(1 if faults.seen else 0)


if __name__ == "__main__":
    main()
