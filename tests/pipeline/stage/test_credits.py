"""What a stage's readers and its scheduler have consumed."""

from __future__ import annotations

from tests.pipeline.stage.bench import Bench, chunk
from voice_omni.proto.messages import Credit
from voice_omni.proto.payload import CLIENT
from voice_omni.scheduling.interface import ConsumedOut, CreditIn, StreamOut


async def test_what_the_scheduler_has_consumed_is_credited_to_its_sender(bench: Bench) -> None:
    await bench.begun("fed")
    bench.receive(chunk("feed", 0), chunk("feed", 1), chunk(CLIENT, 0))
    bench.say(ConsumedOut("r", "feed", 2), ConsumedOut("r", CLIENT, 1))
    assert await bench.answers() == [Credit("r", "join", 1)]
    assert bench.others["feed"].messages == [Credit("r", "join", 2)]


async def test_an_emit_is_credited_when_its_slowest_reader_has_consumed_it(bench: Bench) -> None:
    await bench.begun("fed")
    bench.say(*(StreamOut("r", {"x": number}, None) for number in range(4)))
    bench.receive(Credit("r", "out", 3))
    assert bench.told() == []
    bench.receive(Credit("r", CLIENT, 2))
    bench.receive(Credit("r", CLIENT, 2))
    bench.receive(Credit("r", "out", 1))
    assert bench.told() == [CreditIn("r", 2), CreditIn("r", 1), CreditIn("r", 1)]


async def test_an_emit_that_nobody_on_this_route_reads_is_credited_at_once(bench: Bench) -> None:
    await bench.begun("alone")
    bench.say(StreamOut("r", {"x": 1}, ("out",)))
    assert bench.told() == [CreditIn("r", 1)]
    assert await bench.answers() == []
