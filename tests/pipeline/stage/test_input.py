"""What comes into a stage: payloads, chunks and ends, each edge in its order."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipeline.stage.bench import CREDITS, LARGE, SPEC, Bench, chunk, header, opening, result
from tests.support.nodes import Cluster, tensor
from voice_omni.pipeline.stage import Stage
from voice_omni.pipeline.topology import Topology
from voice_omni.proto.messages import End, Message, RequestFailed
from voice_omni.proto.payload import CLIENT
from voice_omni.scheduling.interface import ChunkIn, EndIn, Incoming, New, ResultOut


async def test_a_request_without_payload_sources_begins_when_it_opens(bench: Bench) -> None:
    bench.receive(opening(CLIENT))
    [new] = bench.told()
    assert isinstance(new, New)
    assert new.payload.request == header()
    assert new.payload.results == {}
    assert new.credits == CREDITS


async def test_chunks_reach_the_scheduler_and_the_end_comes_when_all_streams_have_ended(bench: Bench) -> None:
    await bench.begun("fed")
    bench.receive(chunk("feed", 0), chunk(CLIENT, 0), chunk("feed", 1), End("r", "feed", 2))
    told = bench.told()
    assert told == [ChunkIn("r", "feed", {"x": 0}), ChunkIn("r", CLIENT, {"x": 0}), ChunkIn("r", "feed", {"x": 1})]
    bench.receive(End("r", CLIENT, 1))
    assert bench.told() == [EndIn("r")]


async def test_each_source_opens_it_and_it_begins_once(bench: Bench) -> None:
    bench.receive(opening("feed", "fed"), opening(CLIENT, "fed"), chunk("feed", 0), opening("feed", "fed"))
    assert [type(message) for message in bench.told()] == [New, ChunkIn]


async def test_chunks_wait_for_the_payload(bench: Bench) -> None:
    bench.receive(opening("feed", "full"), chunk("feed", 0), chunk(CLIENT, 0), opening("left", "full"))
    assert bench.told() == []
    assert bench.stage.stats()["held"] == 2
    bench.receive(result("left", 0, {"from": "left"}))
    assert bench.told() == []
    bench.receive(opening("right", "full"), result("right", 0, {"from": "right"}))
    new, *chunks = bench.told()
    assert isinstance(new, New)
    assert new.payload.results == {"left": {"from": "left"}, "right": {"from": "right"}}
    assert chunks == [ChunkIn("r", "feed", {"x": 0}), ChunkIn("r", CLIENT, {"x": 0})]
    assert bench.stage.stats()["held"] == 0


EDGES: dict[str, list[Message]] = {
    "left": [opening("left", "full"), result("left", 0, {"from": "left"})],
    "right": [opening("right", "full"), result("right", 0, {"from": "right"})],
    "feed": [opening("feed", "full"), chunk("feed", 0), chunk("feed", 1), End("r", "feed", 2)],
    CLIENT: [opening(CLIENT, "full"), chunk(CLIENT, 0), End("r", CLIENT, 1)],
}


@settings(max_examples=40, deadline=None)
@given(st.permutations([name for name, messages in EDGES.items() for _ in messages]))
def test_edges_may_interleave_in_any_way(turns: Sequence[str]) -> None:
    """Each edge keeps its own order; the scheduler gets the payload first, each stream in order, and one end."""

    async def scenario() -> list[Incoming]:
        with tempfile.TemporaryDirectory() as folder:
            async with Cluster(Path(folder)) as cluster:
                bench = Bench(cluster)
                node = await cluster.start("here")
                bench.stage = Stage("join", Topology(SPEC), bench.scheduler, node, credits=CREDITS)
                left = {name: list(messages) for name, messages in EDGES.items()}
                for name in turns:
                    bench.receive(left[name].pop(0))
                return bench.told()

    new, *rest = asyncio.run(scenario())
    assert isinstance(new, New)
    assert new.payload.results == {"left": {"from": "left"}, "right": {"from": "right"}}
    assert rest[-1] == EndIn("r")
    assert rest.count(EndIn("r")) == 1
    for name in ("feed", CLIENT):
        chunks = [message.data["x"] for message in rest if isinstance(message, ChunkIn) and message.source == name]
        assert chunks == list(range(len(EDGES[name]) - 2))


async def test_tensors_out_of_the_relay_keep_their_place_among_the_others(bench: Bench) -> None:
    await bench.begun("fed")
    for seq in range(6):
        if seq % 3 == 2:
            bench.cluster.nodes["there"].prepare_now("here", chunk("feed", seq))("join")
        else:
            await bench.send(chunk("feed", seq, tensor(LARGE if seq % 2 else 5000, seq)))
    await bench.cluster.settle()
    order = [int(np.ravel(message.data["x"])[0]) for message in bench.told() if isinstance(message, ChunkIn)]
    assert order == list(range(6))
    bench.say(ResultOut("r", {}))
    bench.receive(End("r", "feed", 6))
    assert await bench.empty()


@pytest.mark.parametrize(
    "late", [chunk("feed", 2), chunk("feed", 0), End("r", "feed", 5)], ids=["a gap", "a repetition", "an early end"]
)
async def test_a_message_out_of_sequence_fails_the_request(bench: Bench, late: Message) -> None:
    await bench.begun("fed")
    bench.receive(chunk("feed", 0), late)
    assert bench.told() == [ChunkIn("r", "feed", {"x": 0})]
    [failure] = await bench.answers()
    assert isinstance(failure, RequestFailed)
    assert (failure.stage, failure.error.code, failure.error.request_id) == ("join", "protocol_error", "r")


async def test_a_tensor_whose_sender_died_before_it_was_read_fails_the_request(bench: Bench) -> None:
    await bench.begun("fed")
    there = bench.cluster.nodes["there"]
    send = await there.prepare("here", chunk("feed", 0, tensor(LARGE)))
    bench.cluster.nodes["here"].peer_down("there", 0)
    send("join")
    failure = await bench.client.first(RequestFailed)
    assert (failure.error.code, failure.error.retryable) == ("stage_died", True)
