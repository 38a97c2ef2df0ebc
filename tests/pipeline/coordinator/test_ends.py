"""Requests that fail or are aborted."""

from __future__ import annotations

import asyncio
import itertools

import numpy as np
import pytest

from tests.pipeline.coordinator.bench import (
    LARGE,
    NODE_OF,
    SOON,
    SPEECH,
    Bench,
    done,
    everything,
    failure,
)
from tests.support.nodes import Cluster, tensor
from voice_omni.pipeline.node import MAIN
from voice_omni.pipeline.request import RequestState
from voice_omni.proto.errors import ErrorInfo, OmniError
from voice_omni.proto.messages import (
    Abort,
    AbortAck,
    Credit,
    Deliver,
    RequestFailed,
)
from voice_omni.proto.payload import CLIENT

# failures


REPORTED = ErrorInfo("internal_error", "boom", stage="speak", request_id="r")


async def test_a_failure_stops_every_stage_and_reaches_the_client(bench: Bench) -> None:
    handle = await bench.submit()
    await bench.deliver("think", {"x": "not read yet"})
    bench.say("speak", RequestFailed("r", "speak", REPORTED))
    assert (await failure(handle)).info == REPORTED
    await bench.settle()
    assert bench.aborted() == set(SPEECH)
    assert bench.coordinator.counts == {"submitted": 1, "failed": 1}
    assert await bench.empty()


async def test_the_first_failure_counts(bench: Bench) -> None:
    handle = await bench.submit()
    bench.say("speak", RequestFailed("r", "speak", REPORTED))
    await bench.settle()
    bench.say("think", RequestFailed("r", "think", ErrorInfo("other", "later", stage="think")))
    await bench.finish(*SPEECH)
    await bench.settle()
    assert (await failure(handle)).info == REPORTED
    assert (await failure(handle)).info == REPORTED, "however often one asks"
    assert all(len(stage.of(Abort)) == 1 for stage in bench.stages.values())


async def test_a_failure_of_a_stage_that_is_done_changes_nothing(bench: Bench) -> None:
    handle = await bench.submit()
    await bench.finish("listen")
    bench.say("think", RequestFailed("r", "think", ErrorInfo("stage_died", "too late", stage="listen")))
    await bench.finish("think", "speak", "vocode")
    await everything(handle)


async def test_a_request_that_takes_too_long_fails(cluster: Cluster) -> None:
    bench = await Bench(cluster, request_deadline_s=SOON).start()
    handle = await bench.submit()
    error = await failure(handle)
    assert (error.code, error.info.request_id) == ("deadline_exceeded", "r")
    await bench.settle()
    assert bench.aborted() == set(SPEECH)
    assert await bench.empty()


# aborts


async def test_an_abort_returns_when_every_stage_has_acknowledged(bench: Bench) -> None:
    bench.acknowledging = False
    handle = await bench.submit()
    await bench.deliver("think", {"x": "not read yet"})
    aborts = [asyncio.create_task(handle.abort()) for _ in range(2)]
    await asyncio.sleep(0)
    assert await everything(handle) == [], "its client is done with it at once"
    for stage in SPEECH:
        await bench.settle()
        assert not any(abort.done() for abort in aborts)
        assert bench.coordinator.stats()["aborting"] == 1
        bench.say(stage, AbortAck("r", stage, NODE_OF[stage]))
    await asyncio.gather(*aborts)
    assert handle.record.state is RequestState.ABORTED
    assert bench.aborted() == set(SPEECH)
    assert bench.coordinator.counts == {"submitted": 1, "aborted": 1}
    assert await bench.empty()


async def test_an_abort_that_is_not_acknowledged_in_time_names_who_is_late(cluster: Cluster) -> None:
    bench = await Bench(cluster, abort_deadline_s=SOON).start()
    bench.acknowledging = False
    handle = await bench.submit()
    with pytest.raises(OmniError, match="from listen, speak, think, vocode") as raised:
        await handle.abort()
    assert (raised.value.code, raised.value.info.request_id) == ("deadline_exceeded", "r")
    for stage in SPEECH:
        bench.say(stage, AbortAck("r", stage, NODE_OF[stage]))
    assert await bench.empty()
    await handle.abort()


@pytest.mark.parametrize("how", ["completed", "failed", "aborted"])
async def test_an_abort_after_the_end_returns(bench: Bench, how: str) -> None:
    handle = await bench.submit()
    match how:
        case "completed":
            await bench.finish(*SPEECH)
        case "failed":
            bench.say("speak", RequestFailed("r", "speak", REPORTED))
        case "aborted":
            await handle.abort()
    await bench.settle()
    await handle.abort()
    assert handle.record.state.value == how


async def test_room_is_made_by_the_end_of_a_request_not_by_the_last_acknowledgement(cluster: Cluster) -> None:
    bench = await Bench(cluster, max_requests=1).start()
    bench.acknowledging = False
    handle = await bench.submit(request_id="a")
    abort = asyncio.create_task(handle.abort())
    await asyncio.sleep(0)
    await bench.submit(request_id="b")
    abort.cancel()


# what nobody waits for


async def test_messages_about_unknown_requests_are_ignored(bench: Bench) -> None:
    bench.say(
        "think",
        done("think", "nobody"),
        Credit("nobody", "listen", 3),
        RequestFailed("nobody", "think", REPORTED),
        AbortAck("nobody", "think", "front.0"),
    )
    await bench.deliver("think", {"x": 0}, request_id="nobody")
    await bench.deliver("think", {}, "result", request_id="nobody")
    assert await bench.empty()


async def test_large_output_of_a_request_that_has_ended_gives_its_room_back(bench: Bench) -> None:
    handle = await bench.submit()
    await handle.abort()
    for number in range(5):
        await bench.deliver("vocode", tensor(LARGE, number))
    assert await bench.empty()


async def test_large_output_that_is_lost_with_its_sender_fails_the_request(bench: Bench) -> None:
    handle = await bench.submit("speak")
    send = await bench.cluster.nodes["voice.0"].prepare(MAIN, Deliver("r", "vocode", 0, "chunk", tensor(LARGE)))
    bench.cluster.nodes[MAIN].peer_down("voice.0", 0)
    send(CLIENT)
    assert (await failure(handle)).code == "stage_died"


async def test_requests_beside_each_other_keep_apart(bench: Bench) -> None:
    handles = {name: await bench.submit("text_text", name) for name in "abc"}
    readers = {name: asyncio.create_task(everything(handle)) for name, handle in handles.items()}
    for number, name in itertools.product(range(3), "abc"):
        await bench.deliver("think", {"x": np.full(number, ord(name))}, request_id=name)
    await handles["b"].abort()
    for name in "ac":
        await bench.finish("think", request_id=name)
    for name in "ac":
        assert [len(output.data["x"]) for output in await readers[name]] == [0, 1, 2]
        assert all(set(output.data["x"]) <= {ord(name)} for output in await readers[name])
    await readers["b"]
    assert await bench.empty()
