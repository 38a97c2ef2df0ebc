"""Messages between nodes that are up: their order, and room in the relay."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
import zmq

from tests.pipeline.node.bench import INLINE, LARGE, RELAY, chunk, deliver, opened, pair
from tests.support.nodes import Cluster, Recorder, idle, tensor
from voice_omni.proto import codec
from voice_omni.proto.errors import OmniError
from voice_omni.proto.messages import (
    Abort,
    ArrayMeta,
    Body,
    Credit,
    Deliver,
    End,
    Heartbeat,
    Shutdown,
)

# order


async def test_messages_to_one_node_keep_their_order(cluster: Cluster) -> None:
    left, _, handler = await pair(cluster)
    sent = []
    for number in range(200):
        message = Credit("r", "s", number) if number % 3 else chunk(number, tensor(number))
        sent.append(number)
        if isinstance(message, Deliver):
            await deliver(left, "right", message)
        else:
            left.send("right", "stage", message)
    await handler.count(200)
    numbers = [message.seq if isinstance(message, Deliver) else message.count for message in handler.messages]
    assert numbers == sent


async def test_messages_inside_a_node_keep_their_order_and_come_later(cluster: Cluster) -> None:
    node = await cluster.start("only")
    handler = Recorder()
    node.attach("stage", handler)
    tree = tensor(LARGE)
    node.send("only", "stage", Abort("r"))
    await deliver(node, "only", chunk(0, tree))
    node.send("only", "stage", End("r", "source", 1))
    assert handler.messages == [], "a sender is never called back from within its own call"
    await handler.count(3)
    assert [type(message) for message in handler.messages] == [Abort, Deliver, End]
    assert handler.of(Deliver)[0].body is tree, "handed over by reference"
    assert handler.parcels == [None, None, None]


async def test_a_burst_is_received_whole(cluster: Cluster) -> None:
    """The socket's descriptor tells once of many messages."""
    left, _, handler = await pair(cluster)
    for number in range(1000):
        left.send("right", "stage", Credit("r", "s", number))
    await handler.count(1000)


# small and large


@pytest.mark.parametrize("nbytes", [0, 1, INLINE])
async def test_small_tensors_ride_in_the_message(cluster: Cluster, nbytes: int) -> None:
    left, _, handler = await pair(cluster)
    message = chunk(0, tensor(nbytes, 7))
    assert left.is_immediate("right", message)
    left.prepare_now("right", message)("stage")
    received = await handler.first(Deliver)
    assert handler.parcels == [None]
    assert np.array_equal(received.body["x"], np.full(nbytes, 7))
    assert left.stats()["relay_bytes"] == 0


@pytest.mark.parametrize("nbytes", [INLINE + 1, LARGE])
async def test_large_tensors_go_through_the_relay_and_their_room_comes_back(cluster: Cluster, nbytes: int) -> None:
    left, right, handler = await pair(cluster)
    message = chunk(0, tensor(nbytes, 7))
    assert not left.is_immediate("right", message)
    await deliver(left, "right", message)
    assert left.stats()["relay_bytes"] >= nbytes
    await handler.count(1)
    assert np.array_equal(await opened(handler), np.full(nbytes, 7))
    await cluster.settle()
    assert idle(left)
    assert idle(right)


async def test_the_size_that_decides_is_that_of_the_whole_tree(cluster: Cluster) -> None:
    left, *_ = await pair(cluster)
    data = {"many": [tensor(100), {"deep": tensor(INLINE - 200)["x"]}], "text": "x" * LARGE}
    assert left.is_immediate("right", chunk(0, data)), "text always rides in the message"
    data["many"].append(tensor(200))  # type: ignore[union-attr]
    assert not left.is_immediate("right", chunk(0, data))


async def test_a_parcel_that_is_dropped_gives_its_room_back(cluster: Cluster) -> None:
    left, _, handler = await pair(cluster)
    await deliver(left, "right", chunk(0, tensor(LARGE)))
    await handler.count(1)
    parcel = handler.parcels[0]
    assert parcel is not None
    parcel.drop()
    await cluster.settle()
    assert idle(left)


async def test_a_parcel_for_nobody_gives_its_room_back(cluster: Cluster) -> None:
    left, *_ = await pair(cluster)
    await deliver(left, "right", chunk(0, tensor(LARGE)), target="nobody")
    await cluster.settle()
    assert idle(left)


async def test_writes_wait_for_room_and_many_more_than_fit_get_through(cluster: Cluster) -> None:
    left, _, handler = await pair(cluster)
    sends = asyncio.gather(*(deliver(left, "right", chunk(number, tensor(LARGE, number))) for number in range(20)))
    for number in range(20):
        await handler.count(number + 1)
        assert (await opened(handler, number))[0] == number
    await sends
    await cluster.settle()
    assert idle(left)


async def test_what_no_buffer_can_hold_is_refused(cluster: Cluster) -> None:
    left, *_ = await pair(cluster)
    with pytest.raises(OmniError) as raised:
        await left.prepare("right", chunk(0, tensor(RELAY + 1)))
    assert raised.value.code == "payload_too_large"


@pytest.mark.parametrize("value", [object(), 2**64, np.array([None])])
async def test_what_cannot_travel_is_refused_before_it_is_sent(cluster: Cluster, value: Any) -> None:
    left, *_ = await pair(cluster)
    with pytest.raises(OmniError) as raised:
        left.prepare_now("right", chunk(0, {"x": value}))
    assert raised.value.code == "unsupported_type"


# what is wrong


async def test_a_frame_that_nobody_here_wrote_is_dropped_and_the_next_is_served(cluster: Cluster) -> None:
    _, right, handler = await pair(cluster)
    body = Body(b"no tree", (ArrayMeta("no dtype", (1,), 0),))
    misshapen = Deliver("r", "source", 0, "chunk", body)
    with zmq.Context() as context, context.socket(zmq.PUSH) as stranger:
        stranger.connect(right.endpoint)
        for frames in (
            [b"hello"],
            [b""],
            [codec.encode("stranger", 0, "stage", misshapen)],
            [codec.encode("stranger", 0, "stage", misshapen), b"x"],
            [codec.encode("stranger", 0, "stage", Deliver("r", "source", 0, "chunk", "no body"))],
            [codec.encode("stranger", 0, "nobody", Abort("lost"))],
            [codec.encode("stranger", 0, "stage", Abort("r"))],
        ):
            stranger.send_multipart(frames)
        await handler.count(1)
    assert handler.messages == [Abort("r")]


async def test_a_handler_that_fails_does_not_hold_up_what_is_behind(cluster: Cluster) -> None:
    left, _, handler = await pair(cluster)

    def react(message: object) -> None:
        if message == Abort("bad"):
            raise RuntimeError("a handler's own fault")

    handler.react = react
    for request_id in ("bad", "good"):
        left.send("right", "stage", Abort(request_id))
    await handler.until(lambda: Abort("good") in handler.messages)
    assert [str(failure["exception"]) for failure in cluster.failures] == ["a handler's own fault"]
    cluster.failures.clear()


async def test_messages_to_the_node_itself_reach_its_owner(cluster: Cluster) -> None:
    left, right, _ = await pair(cluster)
    got: list[object] = []
    right.on_control(got.append)
    left.send("right", "", Heartbeat("left", 0, 1, {}))
    left.send("right", "", Shutdown())
    await cluster.settle()
    assert got == [Heartbeat("left", 0, 1, {}), Shutdown()]
