"""The life of a request, with real nodes and stages that the test plays itself."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.nodes import PATIENCE_S, Cluster, Recorder, idle, tensor
from tests.support.toy import PIPELINE
from voice_omni.config.settings import LimitSettings
from voice_omni.pipeline.binding import Binder, Replicas
from voice_omni.pipeline.coordinator import Coordinator, RequestHandle
from voice_omni.pipeline.node import MAIN
from voice_omni.pipeline.request import RequestState, StageOutput
from voice_omni.pipeline.topology import Topology
from voice_omni.proto.errors import ErrorInfo, OmniError
from voice_omni.proto.messages import (
    Abort,
    AbortAck,
    Credit,
    Deliver,
    End,
    Message,
    Open,
    RequestFailed,
    StageDone,
)
from voice_omni.proto.payload import CLIENT, OmniRequest

PROCESSES = {
    "front": Replicas(("listen", "think"), ("front.0",)),
    "voice": Replicas(("speak", "vocode"), ("voice.0",)),
}
NODE_OF = {"listen": "front.0", "think": "front.0", "speak": "voice.0", "vocode": "voice.0"}
SPEECH = ("listen", "think", "speak", "vocode")
TERMINALS = ("listen", "think", "vocode")
LARGE = 20_000
CREDITS = 3
SOON = 0.02
"""Seconds; for deadlines that are meant to pass."""


class Bench:
    """A coordinator on the main node; the stages are recorders on two others, which acknowledge aborts if asked to."""

    def __init__(self, cluster: Cluster, **limits: Any) -> None:
        self.cluster = cluster
        self.limits = LimitSettings(**limits)
        self.stages: dict[str, Recorder] = {}
        self.acknowledging = True
        self.coordinator: Coordinator
        self._sequence: dict[tuple[str, str], int] = {}

    async def start(self) -> Bench:
        main = await self.cluster.start(MAIN)
        self.coordinator = Coordinator(
            Topology(PIPELINE), main, Binder(PROCESSES), dict.fromkeys(SPEECH, CREDITS), self.limits
        )
        main.attach(CLIENT, self.coordinator)
        for name in ("front.0", "voice.0"):
            await self.bring_up(name)
        return self

    async def bring_up(self, name: str, incarnation: int = 0) -> None:
        node = await self.cluster.start(name, incarnation)
        for stage in SPEECH:
            if NODE_OF[stage] == name:
                self.stages[stage] = Recorder()
                self.stages[stage].react = lambda message, stage=stage: self._react(stage, message)
                node.attach(stage, self.stages[stage])
        self.cluster.introduce(*self.cluster.nodes)
        await self.cluster.settle()
        self.coordinator.node_up(name)

    def _react(self, stage: str, message: Message) -> None:
        if isinstance(message, Abort) and self.acknowledging:
            self.say(stage, AbortAck(message.request_id, stage, NODE_OF[stage]))

    # -- as the stages ---------------------------------------------------------------------------------------------

    def say(self, stage: str, *messages: Message) -> None:
        for message in messages:
            self.cluster.nodes[NODE_OF[stage]].send(MAIN, CLIENT, message)

    async def deliver(self, stage: str, data: dict[str, Any], kind: Any = "chunk", request_id: str = "r") -> None:
        seq = self._sequence.get((request_id, stage), 0)
        self._sequence[request_id, stage] = seq + 1
        node = self.cluster.nodes[NODE_OF[stage]]
        (await node.prepare(MAIN, Deliver(request_id, stage, seq, kind, data)))(CLIENT)

    async def finish(self, *stages: str, request_id: str = "r", handed_to: dict[str, int] | None = None) -> None:
        for stage in stages:
            if stage in TERMINALS:
                await self.deliver(stage, {"by": stage}, "result", request_id)
            self.say(stage, done(stage, request_id, handed_to))

    async def die(self, name: str, *, told: bool = True) -> None:
        others = tuple(other for other in self.cluster.nodes if other != name)
        await self.cluster.kill(name, tell=others if told else ())
        await self.cluster.settle()

    # -- as the client ---------------------------------------------------------------------------------------------

    async def submit(self, route: str = "speech", request_id: str = "r", **params: Any) -> RequestHandle:
        return await self.coordinator.submit(OmniRequest(request_id=request_id, route=route, params=params))

    async def settle(self) -> None:
        await self.cluster.settle()

    async def empty(self) -> bool:
        await self.settle()
        return not any(self.coordinator.stats().values()) and all(idle(node) for node in self.cluster.nodes.values())

    def aborted(self) -> set[str]:
        """The stages that were told to stop."""
        return {name for name, stage in self.stages.items() if stage.of(Abort)}


def done(stage: str, request_id: str = "r", handed_to: dict[str, int] | None = None) -> StageDone:
    return StageDone(request_id, stage, 1.0, 2.0, 3.0, 4.0, handed_to or {})


async def everything(handle: RequestHandle) -> list[StageOutput]:
    async with asyncio.timeout(PATIENCE_S):
        return [output async for output in handle]


async def failure(handle: RequestHandle) -> OmniError:
    with pytest.raises(OmniError) as raised:
        await everything(handle)
    return raised.value


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path, inline_bytes=1 << 10, relay_bytes=1 << 16) as made:
        yield made


@pytest.fixture
async def bench(cluster: Cluster) -> Bench:
    return await Bench(cluster).start()


# -- a life ------------------------------------------------------------------------------------------------------------


async def test_a_request_is_opened_at_its_entry_with_its_bindings(bench: Bench) -> None:
    handle = await bench.submit(voice="joe")
    await bench.settle()
    header = OmniRequest(request_id="r", route="speech", params={"voice": "joe"})
    assert bench.stages["listen"].messages == [Open(header, CLIENT, NODE_OF)]
    assert not any(bench.stages[name].messages for name in ("think", "speak", "vocode"))
    assert handle.record.state is RequestState.PENDING
    assert bench.coordinator.stats()["requests"] == 1


async def test_only_the_routes_stages_are_bound(bench: Bench) -> None:
    handle = await bench.submit("speak")
    assert handle.record.bindings == {"speak": "voice.0", "vocode": "voice.0"}
    await bench.settle()
    assert [name for name in SPEECH if bench.stages[name].messages] == ["speak"]


async def test_the_output_of_all_terminals_is_merged_in_the_order_in_which_it_comes(bench: Bench) -> None:
    handle = await bench.submit()
    reader = asyncio.create_task(everything(handle))
    said = [("listen", 0), ("think", 1), ("vocode", 2), ("think", 3), ("vocode", 4)]
    for stage, number in said:
        await bench.deliver(stage, {"x": number})
        await bench.settle()
    await bench.finish(*SPEECH)
    assert await reader == [StageOutput(stage, {"x": number}) for stage, number in said]
    assert handle.record.state is RequestState.COMPLETED
    assert handle.record.results == {name: {"by": name} for name in TERMINALS}
    assert handle.record.done == {name: done(name) for name in SPEECH}
    assert await bench.empty()


ENDS = [("done", name) for name in SPEECH] + [("result", name) for name in TERMINALS]


@pytest.mark.parametrize("last", ENDS, ids=lambda end: " of ".join(end))
async def test_it_is_complete_with_the_last_result_and_the_last_stage(bench: Bench, last: tuple[str, str]) -> None:
    handle = await bench.submit()
    for kind, stage in (*(end for end in ENDS if end != last), last):
        assert not handle.record.state.final
        if kind == "done":
            bench.say(stage, done(stage))
        else:
            await bench.deliver(stage, {}, "result")
        await bench.settle()
    assert handle.record.state is RequestState.COMPLETED
    assert bench.coordinator.counts == {"submitted": 1, "completed": 1}


async def test_large_output_keeps_its_place_and_gives_its_room_back(bench: Bench) -> None:
    handle = await bench.submit("speak")
    reader = asyncio.create_task(everything(handle))
    for number in range(8):
        await bench.deliver("vocode", tensor(LARGE if number % 2 else 10, number))
    await bench.finish("speak", "vocode")
    assert [output.data["x"][0] for output in await reader] == list(range(8))
    assert await bench.empty()


async def test_taking_a_chunk_returns_its_credit(bench: Bench) -> None:
    handle = await bench.submit()
    for _ in range(2):
        await bench.deliver("think", {"x": 0})
    await bench.settle()
    assert not bench.stages["think"].of(Credit), "a client that does not read pauses the stages behind it"
    await anext(handle)
    await bench.settle()
    assert bench.stages["think"].of(Credit) == [Credit("r", CLIENT, 1)]


async def test_chunks_that_were_not_taken_outlive_completion(bench: Bench) -> None:
    handle = await bench.submit("text_text")
    await bench.deliver("think", {"x": 0})
    await bench.finish("think")
    assert await bench.empty()
    assert await everything(handle) == [StageOutput("think", {"x": 0})]


# -- input -------------------------------------------------------------------------------------------------------------


async def test_input_is_numbered_and_bounded_by_credits(bench: Bench) -> None:
    handle = await bench.submit()
    for number in range(CREDITS):
        await handle.append({"x": number})
    waiting = asyncio.create_task(handle.append({"x": CREDITS}))
    await bench.settle()
    assert not waiting.done()
    bench.say("listen", Credit("r", "listen", 1))
    await waiting
    await handle.end_input()
    await handle.end_input()
    await bench.settle()
    chunks = [Deliver("r", CLIENT, number, "chunk", {"x": number}) for number in range(CREDITS + 1)]
    assert bench.stages["listen"].messages[1:] == [*chunks, End("r", CLIENT, CREDITS + 1)]


async def test_the_end_does_not_overtake_a_chunk_that_waits_for_room(cluster: Cluster) -> None:
    bench = await Bench(cluster).start()
    handle = await bench.submit()
    listen = bench.stages["listen"]
    appends = [asyncio.create_task(handle.append(tensor(30_000, number))) for number in range(CREDITS)]
    await asyncio.sleep(0)
    await handle.end_input()
    for position in range(1, CREDITS + 1):
        await listen.count(position + 1)
        message, parcel = listen.messages[position], listen.parcels[position]
        assert isinstance(message, Deliver)
        assert parcel is not None
        assert (await parcel.open())["x"][0] == message.seq == position - 1
    await listen.count(CREDITS + 2)
    assert listen.messages[-1] == End("r", CLIENT, CREDITS)
    await asyncio.gather(*appends)


async def test_input_after_its_end_is_dropped(bench: Bench) -> None:
    handle = await bench.submit()
    await handle.end_input()
    for number in range(CREDITS + 1):
        await handle.append({"x": number})
    await bench.settle()
    assert not bench.stages["listen"].of(Deliver)


async def test_input_for_a_request_that_has_ended_is_dropped_and_waits_for_nothing(bench: Bench) -> None:
    handle = await bench.submit()
    for number in range(CREDITS):
        await handle.append({"x": number})
    waiting = asyncio.create_task(handle.append({"x": CREDITS}))
    await bench.settle()
    await handle.abort()
    await waiting
    await handle.end_input()
    await bench.settle()
    assert len(bench.stages["listen"].of(Deliver)) == CREDITS


async def test_input_for_a_stage_that_has_all_it_needs_is_dropped(bench: Bench) -> None:
    """The stage gave its result early; the others still work."""
    handle = await bench.submit()
    for number in range(CREDITS):
        await handle.append({"x": number})
    waiting = asyncio.create_task(handle.append({"x": CREDITS}))
    await bench.finish("listen")
    await waiting
    assert handle.record.state is RequestState.RUNNING


@pytest.mark.parametrize(
    ("data", "code"), [(tensor(1 << 17), "payload_too_large"), ({"x": object()}, "unsupported_type")]
)
async def test_input_that_cannot_travel_fails_the_request(bench: Bench, data: dict[str, Any], code: str) -> None:
    handle = await bench.submit()
    await handle.append(data)
    assert (await failure(handle)).code == code
    assert await bench.empty()


async def test_a_route_without_an_input_stream_takes_none(bench: Bench) -> None:
    handle = await bench.submit("text_text")
    await handle.append({"x": 0})
    await handle.end_input()
    await bench.settle()
    assert [type(message) for message in bench.stages["think"].messages] == [Open]


# -- admission ---------------------------------------------------------------------------------------------------------


async def test_one_request_too_many_is_refused_until_another_ends(cluster: Cluster) -> None:
    bench = await Bench(cluster, max_requests=2).start()
    await bench.submit("text_text", "a")
    await bench.submit("text_text", "b")
    with pytest.raises(OmniError) as raised:
        await bench.submit("text_text", "c")
    assert (raised.value.code, raised.value.info.retryable) == ("overloaded", True)
    await bench.finish("think", request_id="a")
    await bench.settle()
    await bench.submit("text_text", "c")
    assert bench.coordinator.counts["refused"] == 1


async def test_an_unknown_route_is_refused(bench: Bench) -> None:
    with pytest.raises(OmniError) as raised:
        await bench.submit("dance")
    assert raised.value.code == "unsupported_route"


async def test_a_header_that_cannot_travel_is_refused_and_leaves_nothing(bench: Bench) -> None:
    with pytest.raises(OmniError) as raised:
        await bench.submit(seed=2**70)
    assert raised.value.code == "unsupported_type"
    assert await bench.empty()


async def test_a_request_waits_for_a_stage_that_is_being_restarted(bench: Bench) -> None:
    await bench.die("voice.0")
    waiting = asyncio.create_task(bench.submit())
    await bench.settle()
    assert not waiting.done()
    await bench.bring_up("voice.0", 1)
    handle = await waiting
    await bench.finish(*SPEECH)
    await everything(handle)


async def test_a_stage_that_does_not_come_back_in_time_is_unavailable(cluster: Cluster) -> None:
    bench = await Bench(cluster, restart_wait_s=SOON).start()
    await bench.die("voice.0")
    with pytest.raises(OmniError, match="speak, vocode") as raised:
        await bench.submit()
    assert (raised.value.code, raised.value.info.retryable) == ("stage_unavailable", True)
    await bench.submit("text_text")


async def test_those_who_wait_for_a_restart_are_not_admitted_beyond_the_limit(cluster: Cluster) -> None:
    bench = await Bench(cluster, max_requests=1).start()
    await bench.die("voice.0")
    waiting = [asyncio.create_task(bench.submit(request_id=name)) for name in "ab"]
    await bench.settle()
    await bench.bring_up("voice.0", 1)
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [RequestHandle, OmniError]


# -- failures ----------------------------------------------------------------------------------------------------------

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


# -- aborts ------------------------------------------------------------------------------------------------------------


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


# -- deaths ------------------------------------------------------------------------------------------------------------


async def hold_at(bench: Bench, request_id: str, finished: Sequence[str]) -> RequestHandle:
    handle = await bench.submit(request_id=request_id)
    await bench.finish(*finished, request_id=request_id)
    await bench.settle()
    return handle


@pytest.mark.parametrize(
    ("finished", "dies", "stage"),
    [
        ((), "front.0", "listen"),
        (("listen",), "front.0", "think"),
        (("listen", "think"), "voice.0", "speak"),
        (("listen", "think", "speak"), "voice.0", "vocode"),
        (("listen", "think", "speak"), "front.0", None),
        (("listen", "think"), "front.0", None),
        ((), "voice.0", None),
        (("listen",), "voice.0", None),
    ],
)
async def test_a_death_fails_only_what_the_node_may_hold(
    bench: Bench, finished: Sequence[str], dies: str, stage: str | None
) -> None:
    handle = await hold_at(bench, "r", finished)
    await bench.die(dies)
    if stage is None:
        assert not handle.record.state.final
        return
    error = await failure(handle)
    assert (error.code, error.info.stage, error.info.retryable) == ("stage_died", stage, True)
    await bench.settle()
    assert bench.aborted() == {name for name in SPEECH if NODE_OF[name] != dies}
    assert not any(bench.coordinator.stats().values()), "the dead acknowledge by having died"


async def test_a_death_fails_what_was_handed_to_the_node_by_a_stage_that_did_not_know_yet(bench: Bench) -> None:
    """The thinker is done and has forgotten the request before the news of the talker's death reaches it."""
    handle = await hold_at(bench, "r", ("listen",))
    await bench.die("voice.0")
    assert not handle.record.state.final
    await bench.finish("think", handed_to={"voice.0": 0})
    error = await failure(handle)
    assert (error.code, error.info.stage) == ("stage_died", "speak")


async def test_what_was_handed_to_a_node_that_died_and_is_back_is_lost_too(bench: Bench) -> None:
    handle = await hold_at(bench, "r", ("listen",))
    await bench.die("voice.0")
    await bench.bring_up("voice.0", 1)
    await bench.finish("think", handed_to={"voice.0": 0})
    assert (await failure(handle)).code == "stage_died"


async def test_what_was_handed_to_a_living_node_goes_on(bench: Bench) -> None:
    handle = await hold_at(bench, "r", ("listen",))
    await bench.die("voice.0")
    await bench.bring_up("voice.0", 1)
    await bench.finish("think", handed_to={"voice.0": 1})
    await bench.finish("speak", "vocode")
    await everything(handle)


async def test_a_stage_that_was_done_before_its_listener_died_has_not_lost_anything(bench: Bench) -> None:
    handle = await bench.submit("text")
    await bench.finish("speak", "vocode")
    await bench.settle()
    await bench.die("voice.0")
    await bench.finish("think", handed_to={"voice.0": 0})
    await everything(handle)


async def test_the_dead_acknowledge_the_aborts_that_wait_for_them(bench: Bench) -> None:
    bench.acknowledging = False
    handle = await bench.submit()
    abort = asyncio.create_task(handle.abort())
    await bench.settle()
    for stage in ("listen", "think"):
        bench.say(stage, AbortAck("r", stage, "front.0"))
    await bench.settle()
    assert not abort.done()
    await bench.die("voice.0")
    await abort
    assert await bench.empty()


async def test_a_node_that_comes_back_is_told_of_what_has_ended_meanwhile(bench: Bench) -> None:
    """Another stage may have tried to open the request there while it was down."""
    handle = await hold_at(bench, "r", ("listen",))
    await bench.die("voice.0")
    await handle.abort()
    await bench.bring_up("voice.0", 1)
    await bench.stages["speak"].first(Abort)
    assert await bench.empty()


# -- what nobody waits for ---------------------------------------------------------------------------------------------


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
