"""Nodes that come up, go down and come back, and what a death leaves behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.pipeline.node.bench import LARGE, RELAY, buffers, chunk, deliver, opened, pair
from tests.support.nodes import Cluster, Recorder, idle, tensor
from voice_omni.proto.errors import OmniError
from voice_omni.proto.messages import (
    Abort,
    Credit,
    Deliver,
    PeerDown,
    PeerUp,
    Region,
)
from voice_omni.relay.shm import ShmInbound

# coming up


async def test_what_is_sent_before_a_node_is_up_waits_for_it(cluster: Cluster) -> None:
    left, right = await cluster.start("left"), await cluster.start("right")
    handler = Recorder()
    right.attach("stage", handler)
    left.send("right", "stage", Abort("early"))
    large = asyncio.create_task(deliver(left, "right", chunk(1, tensor(LARGE, 3))))
    left.prepare_now("right", chunk(0, tensor(1)))("stage")
    await asyncio.sleep(0)
    assert left.stats()["backlog"] == 2
    cluster.introduce("left", "right")
    await large
    await handler.count(3)
    assert [type(message) for message in handler.messages] == [Abort, Deliver, Deliver]
    assert (await opened(handler))[0] == 3
    await cluster.settle()
    assert idle(left)


async def test_a_buffer_may_be_offered_before_the_word_that_its_node_is_up(cluster: Cluster) -> None:
    """The two come over different links."""
    left, right = await cluster.start("left"), await cluster.start("right")
    handler = Recorder()
    right.attach("stage", handler)
    cluster.tell("right", PeerUp("left", 0, left.endpoint))
    waiting = asyncio.create_task(deliver(left, "right", chunk(0, tensor(LARGE, 4))))
    offered = Recorder()
    left.attach("probe", offered)
    await asyncio.sleep(0)
    right.send("left", "probe", Abort("behind the offer"))
    await offered.count(1)
    assert not waiting.done()
    cluster.tell("left", PeerUp("right", 0, right.endpoint))
    await waiting
    await handler.count(1)
    assert (await opened(handler))[0] == 4


async def test_an_incarnation_that_is_known_already_changes_nothing(cluster: Cluster) -> None:
    left, right, handler = await pair(cluster)
    cluster.tell("left", PeerUp("right", 0, right.endpoint))
    await deliver(left, "right", chunk(0, tensor(LARGE)))
    await handler.count(1)
    await opened(handler)
    await cluster.settle()
    assert idle(left)


async def test_three_nodes_have_a_buffer_for_each_direction(cluster: Cluster) -> None:
    names = ("a", "b", "c")
    handlers = {}
    for name in names:
        handlers[name] = Recorder()
        (await cluster.start(name)).attach("stage", handlers[name])
    cluster.introduce(*names)
    pairs = [(sender, receiver) for sender in names for receiver in names if sender != receiver]
    await asyncio.gather(
        *(
            deliver(cluster.nodes[sender], receiver, chunk(number, tensor(LARGE, number), f"{sender}{receiver}"))
            for number, (sender, receiver) in enumerate(pairs)
        )
    )
    for name in names:
        await handlers[name].count(2)
        for index, message in enumerate(handlers[name].of(Deliver)):
            assert message.request_id[1] == name
            assert set(await opened(handlers[name], index)) == {message.seq}
    await cluster.settle()
    assert all(idle(node) for node in cluster.nodes.values())


# going down


async def test_handlers_are_told_that_a_node_is_down_once(cluster: Cluster) -> None:
    _, right, handler = await pair(cluster)
    await cluster.kill("left", tell=("right", "right"))
    cluster.tell("right", PeerDown("left", 0))
    await cluster.settle()
    assert handler.lost == ["left"]
    assert right.incarnations(("left", "right")) == {}


async def test_the_death_of_an_earlier_incarnation_is_no_news(cluster: Cluster) -> None:
    _, right, handler = await pair(cluster)
    await cluster.kill("left", tell=("right",))
    await cluster.start("left", 1)
    cluster.introduce("left", "right")
    cluster.tell("right", PeerDown("left", 0))
    await cluster.settle()
    assert handler.lost == ["left"]
    assert right.incarnations(("left",)) == {"left": 1}


async def test_a_new_incarnation_implies_the_death_of_the_old_one(cluster: Cluster) -> None:
    _, right, handler = await pair(cluster)
    await cluster.kill("left", tell=())
    await cluster.start("left", 1)
    cluster.introduce("left", "right")
    await cluster.settle()
    assert handler.lost == ["left"]
    assert right.incarnations(("left",)) == {"left": 1}


async def test_writers_that_wait_for_room_are_told(cluster: Cluster) -> None:
    left, *_ = await pair(cluster)
    await left.prepare("right", chunk(0, tensor(RELAY)))
    waiting = asyncio.create_task(left.prepare("right", chunk(1, tensor(LARGE))))
    await asyncio.sleep(0)
    await cluster.kill("right", tell=("left",))
    with pytest.raises(OmniError) as raised:
        await waiting
    assert raised.value.code == "stage_died"
    assert idle(left)


async def test_what_the_dead_have_sent_and_nobody_has_read_is_reported_as_lost(cluster: Cluster) -> None:
    left, _, handler = await pair(cluster)
    await deliver(left, "right", chunk(0, tensor(LARGE)))
    await handler.count(1)
    await cluster.kill("left", tell=("right",))
    await cluster.settle()
    with pytest.raises(OmniError) as raised:
        await opened(handler)
    assert raised.value.code == "stage_died"
    assert raised.value.info.retryable


async def test_what_the_dead_have_sent_and_comes_after_the_news_is_reported_as_lost(cluster: Cluster) -> None:
    """It is not dropped in silence: who waits for it would wait for ever."""
    left, right, handler = await pair(cluster)
    send = await left.prepare("right", chunk(0, tensor(LARGE)))
    right.peer_down("left", 0)
    send("stage")
    await handler.count(1)
    with pytest.raises(OmniError) as raised:
        await opened(handler)
    assert raised.value.code == "stage_died"


async def test_what_the_dead_have_sent_is_not_looked_for_in_their_successors_buffer(cluster: Cluster) -> None:
    left, right, handler = await pair(cluster)
    send = await left.prepare("right", chunk(0, tensor(LARGE, 1)))
    right.peer_up("left", 1, left.endpoint)
    send("stage")
    await handler.count(1)
    with pytest.raises(OmniError) as raised:
        await opened(handler)
    assert raised.value.code == "stage_died"


async def test_a_place_written_for_a_dead_node_is_not_named_to_its_successor(cluster: Cluster) -> None:
    left, *_ = await pair(cluster)
    before = await left.prepare("right", chunk(0, tensor(LARGE, 1)))
    await cluster.kill("right", tell=("left",))
    await cluster.settle()
    before("stage")
    assert left.stats()["backlog"] == 0, "sent while it is down"
    again = await cluster.start("right", 1)
    handler = Recorder()
    again.attach("stage", handler)
    cluster.introduce("left", "right")
    await cluster.settle()
    before("stage")
    await deliver(left, "right", chunk(1, tensor(LARGE, 2)))
    await handler.count(1)
    assert [message.seq for message in handler.of(Deliver)] == [1]
    assert (await opened(handler))[0] == 2
    await cluster.settle()
    assert idle(left)


async def test_room_of_a_dead_writer_is_not_given_back_to_its_successor(cluster: Cluster) -> None:
    """The successor has its own allocations at the same offsets."""
    left, _, handler = await pair(cluster)
    await deliver(left, "right", chunk(0, tensor(LARGE, 1)))
    await handler.count(1)
    await cluster.kill("left", tell=("right",))
    left = await cluster.start("left", 1)
    cluster.introduce("left", "right")
    await deliver(left, "right", chunk(0, tensor(LARGE, 2)))
    await handler.count(2)
    stale = handler.parcels[0]
    assert stale is not None
    stale.drop()
    with pytest.raises(OmniError):
        await stale.open()
    await cluster.settle()
    assert left.stats()["relay_bytes"] >= LARGE, "its own parcel has not been read"
    assert (await opened(handler, 1))[0] == 2
    await cluster.settle()
    assert idle(left)


async def test_an_offer_of_a_node_that_is_down_is_not_taken(cluster: Cluster, tmp_path: Path) -> None:
    left = await cluster.start("left")
    buffer = ShmInbound(tmp_path / "offered", RELAY)
    left.peer_up("right", 0, f"ipc://{tmp_path}/nobody.sock")
    left.peer_down("right", 0)
    left.send("left", "", Region("right", 0, buffer.descriptor))
    await cluster.settle()
    waiting = asyncio.create_task(left.prepare("right", chunk(0, tensor(LARGE))))
    await cluster.settle()
    assert not waiting.done(), "it waits for the next incarnation"
    waiting.cancel()
    buffer.close()


async def test_a_node_whose_files_are_gone_already_counts_as_down(cluster: Cluster) -> None:
    """It died right after its offer, and the word that it did is still on its way."""
    left, right = await cluster.start("left"), await cluster.start("right")
    cluster.tell("right", PeerUp("left", 0, left.endpoint))
    await asyncio.sleep(0)
    await cluster.kill("right", tell=())
    cluster.tell("left", PeerUp("right", 0, right.endpoint))
    await cluster.settle()
    handler = Recorder()
    left.attach("stage", handler)
    cluster.tell("left", PeerDown("right", 0))
    left.send("left", "stage", Abort("still served"))
    await handler.count(1)
    assert handler.lost == ["right"]


async def test_an_older_offer_does_not_replace_a_newer_one(cluster: Cluster) -> None:
    left, right = await cluster.start("left"), await cluster.start("right", 1)
    handler = Recorder()
    right.attach("stage", handler)
    cluster.tell("right", PeerUp("left", 0, left.endpoint))
    await cluster.settle()
    right.send("left", "", Region("right", 0, b"of an earlier life"))
    await cluster.settle()
    cluster.tell("left", PeerUp("right", 1, right.endpoint))
    await cluster.settle()
    await deliver(left, "right", chunk(0, tensor(LARGE)))
    await handler.count(1)
    await opened(handler)
    await cluster.settle()
    assert idle(left)


# closing


async def test_the_last_words_of_a_node_that_leaves_arrive(cluster: Cluster) -> None:
    left, _, handler = await pair(cluster)
    for number in range(5000):
        left.send("right", "stage", Credit("r", "s", number))
    await left.close()
    del cluster.nodes["left"]
    await handler.count(5000)


async def test_closing_ends_the_work_it_has_started_and_removes_its_buffers(cluster: Cluster, tmp_path: Path) -> None:
    left, _, _ = await pair(cluster)
    task = left.spawn(asyncio.sleep(3600))
    assert left.stats()["tasks"] == 1
    await left.close()
    del cluster.nodes["left"]
    assert task.cancelled()
    assert buffers(tmp_path) == ["left.0@right.0.relay"], "its own are gone, the other's stay"
