"""Many sessions at once and many one after the other: nobody is dropped, nothing is kept, nothing gets mixed up."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.support.caller import Caller, eventually, services
from tests.support.patience import PATIENCE_S
from tests.support.scripted import Script, ScriptedClient
from tests.support.serving import serving
from tests.support.speech import recording
from tests.support.talk import RATE
from voice_omni.client.interface import GenerateRequest
from voice_omni.server import create_app
from voice_omni.session.silero import SileroModel

CALLERS = 20
FRAME = RATE // 50


@pytest.fixture
def hogs() -> Iterator[None]:
    """Every core of the machine is busy with something else."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    yield
    for process in busy:
        process.kill()
        process.wait()


async def _call(connection: ClientConnection) -> Caller:
    """A question at the pace at which it is spoken, and its answer."""
    caller = Caller(connection)
    question = recording("question-10").samples(RATE)
    loop = asyncio.get_running_loop()
    due = loop.time()
    for start in range(0, len(question), FRAME):
        await caller.say(question[start : start + FRAME])
        due += FRAME / RATE
        await asyncio.sleep(due - loop.time())
    await caller.say(np.zeros(RATE, np.float32), chunk=FRAME)
    await caller.until("response.done", within=PATIENCE_S)
    return caller


async def test_twenty_callers_on_a_busy_machine_all_stay_and_one_more_is_told_to_come_back(
    silero: SileroModel, hogs: None
) -> None:
    app = create_app(services(ScriptedClient(), silero, max_sessions=CALLERS))
    # Pings far oftener than usual: whoever could not answer them in time would be closed with 1011.
    async with serving(app, ws_ping_interval=0.5, ws_ping_timeout=PATIENCE_S) as address:
        url = f"ws://{address}/v1/realtime"
        connections = [await connect(url, ping_interval=0.5, ping_timeout=PATIENCE_S) for _ in range(CALLERS)]
        calls = [asyncio.create_task(_call(connection)) for connection in connections]
        async with connect(url) as refused:
            assert (await Caller(refused).until("error"))["error"]["code"] == "overloaded"
            with pytest.raises(ConnectionClosed) as closed:
                await refused.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1013
        for caller in await asyncio.gather(*calls):
            assert [event for event in caller.events if event["type"] == "error"] == []
            assert caller.events[-1]["response"]["status"] == "completed"
        for connection in connections:
            await (await connection.ping())
            await connection.close()


def _resident_kb() -> float:
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1024


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="resident memory is read from /proc")
async def test_sessions_that_have_ended_keep_no_memory(silero: SileroModel) -> None:
    client = ScriptedClient(Script(answer="word " * 10, word_seconds=0.05))
    app = create_app(services(client, silero))
    question = np.concatenate([recording("question-10").samples(RATE), np.zeros(RATE, np.float32)])

    async def sessions(count: int) -> None:
        for _ in range(count):
            async with connect(f"ws://{address}/v1/realtime") as connection:
                caller = Caller(connection)
                await caller.say(question, chunk=RATE)
                await caller.until("response.done")
            client.replies.clear()

    async with serving(app) as address:
        await sessions(60)
        before = _resident_kb()
        await sessions(200)
        await eventually(lambda: len(app.state.sessions) == 0)
        assert (_resident_kb() - before) / 200 < 50


async def test_who_reconnects_at_once_gets_his_own_answer_and_nothing_of_the_one_before(silero: SileroModel) -> None:
    """Fifty times, in the middle of an answer and in the middle of a word."""

    def script(request: GenerateRequest, number: int) -> Script:
        return Script(answer=f"answer-{request.session_id} " * 30, word_seconds=0.1)

    client = ScriptedClient(script)
    app = create_app(services(client, silero))
    question = np.concatenate([recording("question-10").samples(RATE), np.zeros(RATE, np.float32)])
    async with serving(app) as address:
        for number in range(50):
            async with connect(f"ws://{address}/v1/realtime") as connection:
                caller = Caller(connection)
                own = (await caller.until("session.created"))["session"]["id"]
                if number % 2:
                    await caller.say(question[: len(question) // 3], chunk=RATE)
                else:
                    await caller.say(question, chunk=RATE)
                    for _ in range(3):
                        delta = await caller.until("response.output_audio_transcript.delta")
                        assert delta["delta"].strip() == f"answer-{own}"
                connection.transport.abort()
        await eventually(lambda: len(app.state.sessions) == 0 and client.alive == [])
