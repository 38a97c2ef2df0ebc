"""A conversation that lasts: nothing drifts, grows or is remembered wrongly."""

from __future__ import annotations

import gc
import tracemalloc

from tests.support.marathon import Marathon, peak_growth
from tests.support.virtual_time import in_virtual_time
from voice_omni.session.silero import SileroModel


def test_many_turns_with_random_interruptions(silero: SileroModel) -> None:
    def held_kb() -> float:
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / 1024

    @in_virtual_time
    async def scenario() -> None:
        report = await Marathon(silero, 16, 16 * 22.0, held_kb).run()
        assert report.faults == []
        assert report.turns == 16
        assert 4 <= report.interruptions <= 12
        assert abs(report.drift) <= 1
        assert peak_growth(report.memory_kb) < 100

    tracemalloc.start()
    try:
        scenario()
    finally:
        tracemalloc.stop()
