"""A real server in a process of its own, and a caller who plays sound to it in real time."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.support.patience import PATIENCE_S
from tests.support.pipelines import PATIENT
from voice_omni.audio.pcm import Samples, decode_pcm16
from voice_omni.cli.realtime_client import RATE, RealtimeClient, open_session

FRAME = RATE // 50
COMMAND = (
    *(sys.executable, "-m", "voice_omni.cli.main", "serve", "--port", "0"),
    *(word for name, value in PATIENT.items() for word in ("--set", f"limits.{name}={value:g}")),
)
"""``voice-omni serve`` on a free port."""


@contextlib.asynccontextmanager
async def server_process(*arguments: str) -> AsyncIterator[str]:
    """``voice-omni serve`` on a free port; its address."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async for line in process.stdout:
            if address := re.search(rb"http://[\w.:]+", line):
                rest = asyncio.create_task(process.stdout.read())
                yield address.group().decode()
                rest.cancel()
                break
        else:
            raise RuntimeError("the server did not start")
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@dataclass
class Heard:
    """What a caller got for one recording. ``answer`` is the transcript that came with ``sound`` (24 kHz)."""

    events: list[dict[str, Any]] = field(default_factory=list)
    transcript: str = ""
    answer: str = ""
    sound: list[Samples] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def settled(self) -> bool:
        """Nobody speaks, what was said is written down, and every answer is complete."""
        turns = self.count("input_audio_buffer.committed")
        return (
            0 < turns == self.count("conversation.item.input_audio_transcription.completed")
            and self.count("input_audio_buffer.speech_started") == self.count("input_audio_buffer.speech_stopped")
            and self.count("response.created") == self.count("response.done") >= turns
        )

    def count(self, kind: str) -> int:
        return sum(event["type"] == kind for event in self.events)

    @property
    def samples(self) -> Samples:
        return np.concatenate(self.sound) if self.sound else np.zeros(0, np.float32)


async def call(url: str, recording: Samples, *, patience_s: float = PATIENCE_S) -> Heard:
    """Play ``recording`` (24 kHz) and then silence in real time, until every turn in it is answered.

    ``patience_s``: how long to go on after the recording has ended without an answer.
    """
    heard = Heard()
    async with open_session(url) as client:
        await client.send("session.update", session={"type": "realtime", "audio": {"input": {"transcription": {}}}})
        played = asyncio.Event()
        tasks = [asyncio.create_task(_speak(client, recording, played)), asyncio.create_task(_listen(client, heard))]
        await played.wait()
        try:
            async with asyncio.timeout(patience_s):
                while not heard.settled:
                    await heard.changed.wait()
                    heard.changed.clear()
        except TimeoutError:
            pass
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return heard


async def _listen(client: RealtimeClient, heard: Heard) -> None:
    async for event in client:
        _note(heard, event)
        heard.changed.set()


def _note(heard: Heard, event: dict[str, Any]) -> None:
    heard.events.append(event)
    match event["type"]:
        case "conversation.item.input_audio_transcription.completed":
            heard.transcript = f"{heard.transcript} {event['transcript']}".strip()
        case "response.output_audio_transcript.delta":
            heard.answer += event["delta"]
        case "response.output_audio.delta":
            heard.sound.append(decode_pcm16(base64.b64decode(event["delta"])))


async def _speak(client: RealtimeClient, recording: Samples, played: asyncio.Event) -> None:
    now = asyncio.get_running_loop().time
    due = now()
    for frame in frames(recording):
        await client.append(frame)
        due += FRAME / RATE
        await asyncio.sleep(due - now())
    played.set()
    while True:
        await client.append(np.zeros(FRAME, np.float32))
        due += FRAME / RATE
        await asyncio.sleep(due - now())


def frames(samples: Samples) -> Sequence[Samples]:
    """20 ms each; the last one is filled up with silence."""
    padded = np.pad(samples, (0, -len(samples) % FRAME))
    return list(padded.reshape(-1, FRAME))
