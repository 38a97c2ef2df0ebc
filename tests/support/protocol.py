"""A protocol core as a client sees it, with every event checked against the stock client's types."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec

from tests.support import openai_contract
from tests.support.talk import counting_ids
from voice_omni.realtime import commands
from voice_omni.realtime.core import Facts, RealtimeCore
from voice_omni.realtime.settings import Audio, AudioInput, Session

MANUAL = Session(audio=Audio(input=AudioInput(turn_detection=None)))
RATE = 24000


def message(text: str, **fields: Any) -> dict[str, Any]:
    """An item of the person's."""
    content = [{"type": "input_text", "text": text}]
    return {"type": "message", "role": "user", "content": content, **fields}


class Script:
    """A core with what it has put out."""

    def __init__(self, session: Session | None = None, **facts: Any) -> None:
        known = {"voices": ("default", "other"), "max_buffer_ms": 1000, **facts}
        self.core = RealtimeCore(
            session or Session(), Facts(output_sample_rate=RATE, expires_at=1000, **known), counting_ids()
        )
        self.events: list[dict[str, Any]] = []
        self.commands: list[commands.Command] = []
        self.take(self.core.open())

    def take(self, outputs: Any) -> list[dict[str, Any]]:
        events = [msgspec.json.decode(msgspec.json.encode(each)) for each in outputs if isinstance(each, dict)]
        for event in events:
            self.check(event)
        self.commands += [output for output in outputs if not isinstance(output, dict)]
        self.events += events
        return events

    def check(self, event: dict[str, Any]) -> None:
        """Every event has the shape that the stock client expects."""
        openai_contract.check(event)

    def send(self, kind: str, **fields: Any) -> list[dict[str, Any]]:
        return self.take(self.core.receive(json.dumps({"type": kind, **fields})))

    def send_error(self, kind: str, **fields: Any) -> dict[str, Any]:
        [event] = self.send(kind, **fields)
        assert event["type"] == "error"
        error: dict[str, Any] = event["error"]
        return error

    def message(self, text: str, **fields: Any) -> None:
        self.send("conversation.item.create", item=message(text, **fields))

    def sound(self, milliseconds: float) -> None:
        data = base64.b64encode(bytes(2 * int(milliseconds * 24))).decode()
        self.send("input_audio_buffer.append", audio=data)

    def answer(self, *words: str) -> str:
        """Begin a response and speak half a second for each word; returns its id."""
        self.send("response.create")
        response_id = self.response_id
        for word in words:
            self.take(self.core.responses.say(response_id, word))
            self.take(self.core.responses.speak(response_id, bytes(RATE), RATE // 2, ((0, word),)))
        return response_id

    @property
    def response_id(self) -> str:
        started = [command for command in self.commands if isinstance(command, commands.StartReply)]
        return started[-1].response_id

    def complete(self, response_id: str) -> list[dict[str, Any]]:
        return self.take(self.core.responses.complete(response_id, "stop", (5, 7), spoken_input=False))


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]
