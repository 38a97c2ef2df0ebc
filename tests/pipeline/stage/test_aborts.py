"""An abort ends a request at a stage, whatever the stage does for it just then."""

from __future__ import annotations

import pytest

from tests.pipeline.stage.bench import LARGE, Bench, chunk, opening, result
from tests.support.nodes import tensor
from voice_omni.proto.errors import OmniError
from voice_omni.proto.messages import Abort, AbortAck, Credit, Deliver, End, StageDone
from voice_omni.proto.payload import CLIENT
from voice_omni.scheduling.interface import (
    AbortedOut,
    AbortIn,
    ChunkIn,
    ConsumedOut,
    FailedOut,
    Outgoing,
    ResultOut,
    StreamOut,
)

ACK = AbortAck("r", "join", "here")


async def test_an_abort_of_an_unknown_request_is_acknowledged_and_what_comes_later_is_dropped(bench: Bench) -> None:
    bench.receive(Abort("r"), opening(CLIENT), chunk(CLIENT, 0), End("r", CLIENT, 1), Credit("r", CLIENT, 1))
    assert await bench.answers() == [ACK]
    assert bench.told() == []
    assert await bench.empty()


async def test_tensors_of_an_aborted_request_still_give_their_room_back(bench: Bench) -> None:
    bench.receive(Abort("r"))
    for seq in range(5):
        await bench.send(chunk("feed", seq, tensor(LARGE)))
    assert await bench.empty()


async def test_an_abort_while_it_waits_for_its_payload_needs_no_scheduler(bench: Bench) -> None:
    bench.receive(opening("feed", "full"), chunk("feed", 0), Abort("r"), result("left", 0, {}), result("right", 0, {}))
    assert await bench.answers() == [ACK]
    assert bench.told() == []
    assert await bench.empty()


@pytest.mark.parametrize(
    "last",
    [AbortedOut("r"), ResultOut("r", {"y": 1}), FailedOut("r", OmniError("internal_error", "x"))],
    ids=lambda message: type(message).__name__,
)
async def test_a_running_request_is_acknowledged_when_the_scheduler_has_let_go(bench: Bench, last: Outgoing) -> None:
    """Whatever it says last: a result or a failure may have been faster than the abort."""
    await bench.begun("fed")
    bench.receive(Abort("r"), Abort("r"))
    assert bench.told() == [AbortIn("r")]
    bench.say(StreamOut("r", {"x": 0}, None), ConsumedOut("r", "feed", 1))
    bench.receive(chunk("feed", 0))
    assert await bench.answers() == []
    bench.say(last)
    assert await bench.answers() == [ACK]
    assert bench.others["out"].messages == []
    assert bench.told() == []
    assert await bench.empty()


async def test_an_abort_while_it_writes_cancels_the_writes(bench: Bench) -> None:
    await bench.begun("fed")
    bench.say(*(StreamOut("r", tensor(LARGE, seq), ("out",)) for seq in range(6)))
    await bench.others["out"].count(4)
    bench.receive(Abort("r"))
    bench.say(AbortedOut("r"))
    bench.told()
    assert await bench.answers() == [ACK]
    for parcel in bench.others["out"].parcels:
        if parcel is not None:
            parcel.drop()
    await bench.cluster.settle()
    assert len(bench.others["out"].of(Deliver)) == 3, "those that had room; the others were never sent"
    assert await bench.empty()


async def test_an_abort_while_the_last_writes_are_under_way_is_acknowledged_at_once(bench: Bench) -> None:
    await bench.begun("fed")
    bench.say(*(StreamOut("r", tensor(LARGE, seq), ("out",)) for seq in range(6)), ResultOut("r", {}))
    bench.receive(End("r", "feed", 0))
    await bench.others["out"].count(4)
    bench.told()
    bench.receive(Abort("r"))
    answers = await bench.answers()
    assert [message for message in answers if not isinstance(message, Deliver)] == [ACK]
    assert bench.told() == []
    for parcel in bench.others["out"].parcels:
        if parcel is not None:
            parcel.drop()
    assert await bench.empty()
    assert not bench.client.of(StageDone)


async def test_an_abort_after_the_end_is_acknowledged_all_the_same(bench: Bench) -> None:
    await bench.begun("alone")
    bench.say(ResultOut("r", {}))
    bench.receive(Abort("r"))
    answers = await bench.answers()
    assert [type(message) for message in answers] == [Deliver, StageDone, AbortAck]


async def test_a_request_beside_an_aborted_one_goes_on(bench: Bench) -> None:
    await bench.begun("fed")
    await bench.begun("fed", "other")
    bench.receive(Abort("r"), chunk("feed", 0, request_id="other"))
    assert bench.told() == [AbortIn("r"), ChunkIn("other", "feed", {"x": 0})]
