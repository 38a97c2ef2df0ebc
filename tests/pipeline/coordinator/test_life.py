"""A request from its admission to its last result."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.pipeline.coordinator.bench import (
    CREDITS,
    LARGE,
    NODE_OF,
    SPEECH,
    TERMINALS,
    Bench,
    done,
    everything,
    failure,
)
from tests.support.nodes import Cluster, tensor
from voice_omni.pipeline.request import RequestState, StageOutput
from voice_omni.proto.messages import (
    Credit,
    Deliver,
    End,
    Open,
)
from voice_omni.proto.payload import CLIENT, OmniRequest

# a life


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


# input


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
