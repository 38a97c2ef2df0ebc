"""The queue to one client: order, staleness at the moment of sending, back-pressure."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.support.patience import PATIENCE_S
from voice_omni.session.fence import EpochFence
from voice_omni.session.outbox import FULL_BYTES, ROOM_BYTES, BinaryFrame, Close, Outbox


def _delta(text: str = "") -> dict[str, str]:
    return {"type": "response.output_audio.delta", "delta": text}


async def _all(outbox: Outbox) -> list[str]:
    outbox.close(Close(1000, ""))
    kinds = []
    while isinstance(frame := await outbox.get(), bytes):
        kinds.append(json.loads(frame)["type"])
    return kinds


async def test_stale_deltas_are_not_sent_and_what_frames_them_is() -> None:
    fence = EpochFence()
    outbox = Outbox(fence)
    outbox.put([{"type": "response.output_item.added"}, _delta(), {"type": "response.output_audio.done"}], fence.epoch)
    fence.bump()
    assert await _all(outbox) == ["response.output_item.added", "response.output_audio.done"]


async def test_what_has_no_epoch_never_becomes_stale() -> None:
    fence = EpochFence()
    outbox = Outbox(fence)
    outbox.put([_delta()], None)
    fence.bump()
    outbox.drop_stale()
    assert await _all(outbox) == ["response.output_audio.delta"]


async def test_dropping_makes_room_at_once() -> None:
    fence = EpochFence()
    outbox = Outbox(fence)
    outbox.put([_delta("x" * ROOM_BYTES)], fence.epoch)
    waiting = asyncio.create_task(outbox.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    fence.bump()
    outbox.drop_stale()
    await asyncio.wait_for(waiting, PATIENCE_S)


async def test_content_waits_earlier_than_answers() -> None:
    outbox = Outbox(EpochFence())
    outbox.put([_delta("x" * ROOM_BYTES)])
    await asyncio.wait_for(outbox.drained(), PATIENCE_S)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(outbox.room(), 0.01)
    outbox.put([_delta("x" * FULL_BYTES)])
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(outbox.drained(), 0.01)
    await outbox.get()
    await outbox.get()
    await asyncio.wait_for(outbox.room(), PATIENCE_S)


async def test_after_closing_what_waits_is_sent_and_nothing_is_added() -> None:
    outbox = Outbox(EpochFence())
    outbox.put([{"type": "a"}])
    outbox.close(Close(1001, "going away"))
    outbox.put([{"type": "b"}])
    assert await outbox.get() == b'{"type":"a"}'
    assert await outbox.get() == Close(1001, "going away")


async def test_sound_is_base64_in_the_event_or_bytes_behind_it() -> None:
    event = {"type": "response.output_audio.delta", "item_id": "i", "delta": b"\x00\n\xff"}
    outbox = Outbox(EpochFence())
    outbox.put([event])
    assert await outbox.get() == b'{"type":"response.output_audio.delta","item_id":"i","delta":"AAr/"}'
    outbox = Outbox(EpochFence(), binary=True)
    outbox.put([event, {"type": "response.output_text.delta", "delta": "a"}])
    assert await outbox.get() == BinaryFrame(b'{"type":"response.output_audio.delta","item_id":"i"}\n\x00\n\xff')
    assert await outbox.get() == b'{"type":"response.output_text.delta","delta":"a"}'


async def test_stale_sound_is_not_sent_as_bytes_either() -> None:
    fence = EpochFence()
    outbox = Outbox(fence, binary=True)
    outbox.put([{"type": "response.output_audio.delta", "delta": b"\x00\x00"}], fence.epoch)
    fence.bump()
    assert await _all(outbox) == []


async def test_events_are_translated_as_they_are_put_in() -> None:
    def twice(event: dict[str, str]) -> list[dict[str, str]]:
        return [] if event["type"] == "gone" else [{**event, "type": "renamed.delta"}] * 2

    fence = EpochFence()
    outbox = Outbox(fence, twice)
    outbox.put([{"type": "gone"}, {"type": "response.output_text.delta"}], fence.epoch)
    assert await _all(outbox) == ["renamed.delta", "renamed.delta"]
