"""What a stage sends: results, chunks and ends, in order, however large."""

from __future__ import annotations

import numpy as np

from tests.pipeline.stage.bench import LARGE, Bench, chunk, opening, result
from tests.support.nodes import tensor
from voice_omni.proto.errors import OmniError
from voice_omni.proto.messages import Credit, Deliver, End, RequestFailed, StageDone
from voice_omni.proto.payload import CLIENT
from voice_omni.scheduling.interface import ConsumedOut, FailedOut, ResultOut, StreamOut


async def test_the_first_use_of_an_edge_opens_the_request_behind_it(bench: Bench) -> None:
    await bench.begun("fed")
    bench.say(StreamOut("r", {"x": 0}, None), StreamOut("r", {"x": 1}, ("out",)), StreamOut("r", {"x": 2}, (CLIENT,)))
    assert await bench.answers() == [chunk("join", 0), Deliver("r", "join", 1, "chunk", {"x": 2})]
    assert bench.others["out"].messages == [opening("join", "fed"), chunk("join", 0), chunk("join", 1)]


async def test_a_result_ends_the_streams_and_then_the_stage_is_done(bench: Bench) -> None:
    bench.now = 1.0
    await bench.begun("full")
    bench.now = 2.0
    bench.receive(End("r", "feed", 0), End("r", CLIENT, 0))
    bench.now = 3.0
    bench.say(StreamOut("r", {"x": 0}, None))
    bench.now = 4.0
    bench.say(StreamOut("r", {"x": 1}, None), ResultOut("r", {"y": 1}))
    assert await bench.answers() == [
        chunk("join", 0),
        chunk("join", 1),
        result("join", 2, {"y": 1}),
        StageDone("r", "join", 1.0, 2.0, 3.0, 4.0, {"there": 0}),
    ]
    assert bench.others["out"].messages == [
        opening("join", "full"),
        chunk("join", 0),
        chunk("join", 1),
        End("r", "join", 2),
    ]
    assert bench.others["after"].messages == [opening("join", "full"), result("join", 0, {"y": 1})]
    bench.told()
    assert await bench.empty()


async def test_large_and_small_output_keeps_its_order(bench: Bench) -> None:
    """More large chunks than the relay holds: what comes behind them waits, and the stage is done when all are out."""
    await bench.begun("fed")
    out = bench.others["out"]
    for seq in range(9):
        data = tensor(LARGE, seq) if seq % 3 else {"x": np.full(1, seq, np.uint8)}
        bench.say(StreamOut("r", data, ("out",)))
    bench.say(ResultOut("r", {}))
    bench.receive(End("r", "feed", 0))
    await bench.cluster.settle()
    assert not bench.client.of(StageDone), "writes are still under way"
    for position in range(1, 10):
        await out.count(position + 1)
        message, parcel = out.messages[position], out.parcels[position]
        assert isinstance(message, Deliver)
        assert message.seq == position - 1
        data = message.body if parcel is None else await parcel.open()
        assert data["x"][0] == message.seq
    await out.count(11)
    assert out.messages[-1] == End("r", "join", 9)
    await bench.client.first(StageDone)
    bench.told()
    assert await bench.empty()


async def test_output_that_is_too_large_fails_its_request_and_holds_up_no_other(bench: Bench) -> None:
    await bench.begun("fed")
    await bench.begun("fed", "other")
    bench.say(StreamOut("r", tensor(1 << 17), ("out",)), StreamOut("other", tensor(LARGE), ("out",)))
    await bench.others["out"].until(lambda: len(bench.others["out"].of(Deliver)) == 1)
    failure = await bench.client.first(RequestFailed)
    assert (failure.request_id, failure.error.code, failure.error.stage) == ("r", "payload_too_large", "join")
    assert bench.others["out"].of(Deliver)[0].request_id == "other"


async def test_output_that_cannot_travel_fails_its_request_and_holds_up_no_other(bench: Bench) -> None:
    await bench.begun("fed")
    await bench.begun("fed", "other")
    bench.say(StreamOut("r", {"x": object()}, None), StreamOut("other", {"x": 0}, ("out",)))
    failure = await bench.client.first(RequestFailed)
    assert (failure.request_id, failure.error.code) == ("r", "unsupported_type")
    await bench.cluster.settle()
    assert [message.request_id for message in bench.others["out"].of(Deliver)] == ["other"]


async def test_what_fails_in_the_scheduler_is_reported_and_forgotten(bench: Bench) -> None:
    await bench.begun("fed")
    bench.say(FailedOut("r", OmniError("invalid_value", "no", param="text")))
    failure = await bench.client.first(RequestFailed)
    error = failure.error
    assert (error.code, error.stage, error.request_id, error.param) == ("invalid_value", "join", "r", "text")
    bench.receive(chunk("feed", 0), opening("feed", "fed"), End("r", "feed", 1), Credit("r", CLIENT, 1))
    assert await bench.empty()


async def test_a_result_before_the_input_has_ended_lets_the_sender_finish(bench: Bench) -> None:
    """All that it has sent and will send is credited, though nobody reads it; the stage is done when it has ended."""
    await bench.begun("fed")
    bench.receive(*(chunk("feed", seq) for seq in range(3)), chunk(CLIENT, 0))
    bench.say(ConsumedOut("r", "feed", 1), ResultOut("r", {}))
    bench.told()
    bench.receive(chunk("feed", 3))
    await bench.cluster.settle()
    credits = bench.others["feed"].of(Credit)
    assert sum(credit.count for credit in credits) == 4
    assert not bench.client.of(StageDone)
    bench.receive(End("r", "feed", 4))
    await bench.client.first(StageDone)
    assert bench.told() == []
    assert await bench.empty()


async def test_the_client_need_not_end_its_input_for_a_stage_to_be_done(bench: Bench) -> None:
    await bench.begun("alone")
    bench.say(ResultOut("r", {}))
    await bench.client.first(StageDone)
    assert await bench.empty()
