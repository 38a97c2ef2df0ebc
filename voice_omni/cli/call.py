"""One call: sends the person's sound, shows and plays what comes back, and knows when it is over."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable
from typing import Final

from voice_omni.audio.pcm import Samples
from voice_omni.cli.loudspeaker import Loudspeaker
from voice_omni.cli.realtime_client import RealtimeClient
from voice_omni.cli.sound_input import play_recording, record_microphone
from voice_omni.cli.turns import Conversation, Interrupted, Sound, Trouble, Words
from voice_omni.proto.errors import OmniError

_TAIL_S: Final = 1.0
"""Silence after a recording before it may be over: the start of a turn is reported a moment after it is spoken."""


async def call_with_recording(
    client: RealtimeClient,
    conversation: Conversation,
    speaker: Loudspeaker | None,
    recording: Samples,
    patience: float,
) -> None:
    """Ends when every turn of the recording is answered and the answers are played.

    ``recording``: float32 ``[samples]``, mono, 24 kHz. ``patience``: seconds without sound from either side after
    which an answer that is due is given up.
    """
    await _call(client, conversation, speaker, _send_recording(client, conversation, recording, patience))


async def call_live(client: RealtimeClient, conversation: Conversation, speaker: Loudspeaker | None) -> None:
    """Passes the microphone on until Ctrl-C."""
    print("Speak. Wear headphones, or the agent hears itself. Ctrl-C ends the call.", file=sys.stderr)
    await _call(client, conversation, speaker, _send_microphone(client, conversation))


async def _call(
    client: RealtimeClient, conversation: Conversation, speaker: Loudspeaker | None, sending: Awaitable[None]
) -> None:
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_listen(client, conversation, speaker))
            await sending
            await client.close()
    except* OmniError as failures:
        # Both directions fail when a connection breaks; the first one says why.
        raise failures.exceptions[0] from None


async def _send_recording(
    client: RealtimeClient, conversation: Conversation, recording: Samples, patience: float
) -> None:
    clock = asyncio.get_running_loop().time
    ended = asyncio.Event()
    end = float("inf")
    async for frame in play_recording(recording, ended):
        await client.append(frame)
        now = clock()
        conversation.sent(frame, now)
        if ended.is_set():
            end = min(end, now)
            quiet = now - max(end, conversation.playback.ends)
            if quiet > patience or (now - end > _TAIL_S and conversation.settled(now)):
                return


async def _send_microphone(client: RealtimeClient, conversation: Conversation) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGINT, stop.set)
    try:
        async for frame in record_microphone():
            await client.append(frame)
            conversation.sent(frame, loop.time())
            if stop.is_set():
                return
    finally:
        loop.remove_signal_handler(signal.SIGINT)


async def _listen(client: RealtimeClient, conversation: Conversation, speaker: Loudspeaker | None) -> None:
    clock = asyncio.get_running_loop().time
    script = _Script()
    async for event in client:
        for happening in conversation.received(event, clock()):
            match happening:
                case Words(who, text):
                    script.write(who, text)
                case Trouble(message):
                    script.write("server", message)
                case Sound(samples):
                    if speaker is not None:
                        speaker.play(samples)
                case Interrupted(item_id, heard_ms):
                    if speaker is not None:
                        speaker.clear()
                    await client.send(
                        "conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=heard_ms
                    )
    script.close()


class _Script:
    """Prints who says what as it comes, on a new line when the other one speaks."""

    def __init__(self) -> None:
        self._who: str | None = None

    def write(self, who: str, text: str) -> None:
        if who != self._who:
            self.close()
            print(f"{who + ':':<7}", end="")
            text = text.lstrip()
        self._who = who
        print(text, end="", flush=True)

    def close(self) -> None:
        if self._who is not None:
            print()
        self._who = None
