"""What the death of a node means for the requests that it may hold."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tests.pipeline.coordinator.bench import (
    NODE_OF,
    SPEECH,
    Bench,
    everything,
    failure,
)
from voice_omni.pipeline.coordinator import RequestHandle
from voice_omni.proto.messages import (
    Abort,
    AbortAck,
)


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
