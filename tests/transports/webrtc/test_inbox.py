"""What waits for the session: order, bounds, and a timeline without holes."""

from __future__ import annotations

import numpy as np

from voice_omni.audio.pcm import Samples
from voice_omni.transports.webrtc.inbox import MOST_SOUND_S, MOST_TEXT, Inbox

RATE = 16_000
FRAME = RATE // 50


def ramp(position: int, length: int = FRAME) -> Samples:
    """Sound whose samples tell where they belong, beginning with 1."""
    return np.arange(position + 1, position + length + 1, dtype=np.float32)


async def drain(inbox: Inbox) -> list[str | Samples]:
    inbox.put_message("end")
    taken: list[str | Samples] = []
    while not isinstance(each := await inbox.get(), str) or each != "end":
        taken.append(each)
    return taken


def joined(taken: list[str | Samples]) -> Samples:
    return np.concatenate([each for each in taken if not isinstance(each, str)])


async def test_messages_and_sound_keep_their_order() -> None:
    inbox = Inbox(RATE)
    inbox.put_sound(0, ramp(0))
    inbox.put_message("a")
    inbox.put_sound(FRAME, ramp(FRAME))
    first, second, third = await drain(inbox)
    np.testing.assert_array_equal(first, ramp(0))
    assert second == "a"
    np.testing.assert_array_equal(third, ramp(FRAME))


async def test_sound_that_is_missing_is_silence_of_the_same_length() -> None:
    inbox = Inbox(RATE)
    inbox.put_sound(5000, ramp(5000))
    inbox.put_sound(5000 + 50 * FRAME, ramp(5000 + 50 * FRAME))
    taken = await drain(inbox)
    sound = joined(taken)
    assert len(sound) == 51 * FRAME
    np.testing.assert_array_equal(sound[:FRAME], ramp(5000))
    np.testing.assert_array_equal(sound[FRAME : 50 * FRAME], 0)
    np.testing.assert_array_equal(sound[50 * FRAME :], ramp(5000 + 50 * FRAME))
    assert max(map(len, taken)) <= RATE // 5, "a session that is given much at once holds up the others"


async def test_a_session_that_is_far_behind_holds_bounded_sound_and_still_knows_the_time() -> None:
    inbox = Inbox(RATE)
    frames = int(MOST_SOUND_S) * 50 + 500
    for number in range(frames):
        inbox.put_sound(number * FRAME, ramp(number * FRAME))
    kept = joined(await drain(inbox))
    assert len(kept) == MOST_SOUND_S * RATE
    inbox.put_sound(frames * FRAME, ramp(frames * FRAME))
    rest = joined(await drain(inbox))
    assert len(kept) + len(rest) == (frames + 1) * FRAME
    np.testing.assert_array_equal(rest[-FRAME:], ramp(frames * FRAME))


async def test_messages_are_taken_up_to_a_bound() -> None:
    inbox = Inbox(RATE)
    assert inbox.put_message("x" * MOST_TEXT)
    assert not inbox.put_message("y")
    assert len(await inbox.get()) == MOST_TEXT
    assert inbox.put_message("y")
