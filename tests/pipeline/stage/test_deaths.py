"""A node of a stage behind this one that dies."""

from __future__ import annotations

from tests.pipeline.stage.bench import LARGE, Bench
from tests.support.nodes import Recorder, tensor
from voice_omni.pipeline.node import MAIN
from voice_omni.proto.messages import Deliver, Open, RequestFailed
from voice_omni.scheduling.interface import StreamOut


async def test_requests_that_were_handed_to_a_dead_node_are_reported(bench: Bench) -> None:
    for request_id in ("handed", "not yet"):
        await bench.begun("fed", request_id)
    bench.say(StreamOut("handed", {"x": 0}, ("out",)))
    await bench.cluster.settle()
    await bench.cluster.kill("there", tell=("here", MAIN))
    [failure] = [message for message in await bench.answers() if isinstance(message, RequestFailed)]
    error = failure.error
    assert (failure.request_id, error.code, error.stage, error.retryable) == ("handed", "stage_died", "out", True)


async def test_an_edge_that_is_first_used_while_its_node_is_down_waits_for_the_next(bench: Bench) -> None:
    await bench.begun("fed")
    await bench.cluster.kill("there", tell=("here", MAIN))
    await bench.cluster.settle()
    bench.say(StreamOut("r", {"x": 0}, ("out",)), StreamOut("r", tensor(LARGE, 1), ("out",)))
    out = Recorder()
    (await bench.cluster.start("there", 1)).attach("out", out)
    bench.cluster.introduce(MAIN, "here", "there")
    await out.count(3)
    assert [type(message) for message in out.messages] == [Open, Deliver, Deliver]
    parcel = out.parcels[-1]
    assert parcel is not None
    assert (await parcel.open())["x"][0] == 1
    assert not bench.client.of(RequestFailed)
