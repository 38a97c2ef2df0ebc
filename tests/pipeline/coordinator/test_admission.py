"""Which requests are admitted, and which are waited for."""

from __future__ import annotations

import asyncio

import pytest

from tests.pipeline.coordinator.bench import (
    SOON,
    SPEECH,
    Bench,
    everything,
)
from tests.support.nodes import Cluster
from voice_omni.pipeline.coordinator import RequestHandle
from voice_omni.proto.errors import OmniError


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
