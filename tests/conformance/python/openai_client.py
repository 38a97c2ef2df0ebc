"""openai-python: ``AsyncOpenAI().realtime.connect()``."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

from driver import RATE, Seen, Setup, check, heard, main, same
from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection
from openai.types.realtime import (
    ConversationItemInputAudioTranscriptionCompletedEvent,
    RealtimeErrorEvent,
    RealtimeServerEvent,
    ResponseAudioDeltaEvent,
    ResponseDoneEvent,
    SessionCreatedEvent,
    SessionUpdatedEvent,
)
from pydantic import TypeAdapter, ValidationError

EVENTS: TypeAdapter[RealtimeServerEvent] = TypeAdapter(RealtimeServerEvent)


class OpenAIPython:
    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.scenario = setup.scenario
        self.seen: Seen[Any] = Seen()
        self.invalid: list[str] = []
        self.connection: AsyncRealtimeConnection
        self.reader: asyncio.Task[None]

    async def connect(self) -> None:
        client = AsyncOpenAI(api_key="sk-local", websocket_base_url=f"ws://{self.setup.http}/v1")
        self.connection = await client.realtime.connect(model="gpt-realtime").enter()
        self.reader = asyncio.create_task(self._read())
        created = await self.kind("session.created")
        check(isinstance(created, SessionCreatedEvent), f"{created!r} is not a typed event")
        same(created.session.type, "realtime")
        same(created.session.audio.output.format.rate, RATE)

    async def _read(self) -> None:
        async for event in self.connection:
            # The client itself takes what it gets; its types say what it expects.
            try:
                EVENTS.validate_python(event.to_dict())
            except ValidationError as error:
                self.invalid.append(str(error))
            self.seen.add(event)

    async def kind(self, kind: str, since: int = 0) -> Any:
        """The first event of a kind; all events until then must be what the client's types say."""
        event = await self.seen.until(lambda event: event.type == kind, since)
        same(self.invalid, [])
        return event

    async def session_update(self) -> None:
        detection: Any = {"type": "server_vad", "silence_duration_ms": 400}
        await self.connection.session.update(
            session={
                "type": "realtime",
                "instructions": "Be brief.",
                "audio": {"input": {"transcription": {"model": "whisper-1"}, "turn_detection": detection}},
            }
        )
        updated = await self.kind("session.updated")
        check(isinstance(updated, SessionUpdatedEvent), f"{updated!r} is not a typed event")
        same(updated.session.instructions, "Be brief.")
        same(updated.session.audio.input.turn_detection.silence_duration_ms, 400)
        same(updated.session.audio.input.turn_detection.prefix_padding_ms, 300)

    async def spoken_turn(self) -> None:
        spoken, since = self.scenario["spoken"], len(self.seen)
        async for piece in self.setup.speech("spoken"):
            await self.connection.input_audio_buffer.append(audio=base64.b64encode(piece).decode())
        started = await self.kind("input_audio_buffer.speech_started", since)
        stopped = await self.kind("input_audio_buffer.speech_stopped", since)
        committed = await self.kind("input_audio_buffer.committed", since)
        same({stopped.item_id, committed.item_id}, {started.item_id})
        check(started.audio_start_ms < stopped.audio_end_ms, "it stopped before it started")
        transcription = await self.kind("conversation.item.input_audio_transcription.completed", since)
        check(isinstance(transcription, ConversationItemInputAudioTranscriptionCompletedEvent), repr(transcription))
        same((transcription.item_id, transcription.transcript), (started.item_id, spoken["transcript"]))
        await self.answered(spoken["answer"], since)

    async def answered(self, answer: str, since: int) -> None:
        """The response that was done first since then is ``answer``, as text and as sound."""
        done = await self.kind("response.done", since)
        check(isinstance(done, ResponseDoneEvent), f"{done!r} is not a typed event")
        response = done.response
        same(response.status, "completed")
        same([part.transcript for item in response.output for part in item.content], [answer])
        check(response.usage.total_tokens > 0, "no usage")
        events = [event for event in self.seen[since:] if getattr(event, "response_id", None) == response.id]
        words = [event.delta for event in events if event.type == "response.output_audio_transcript.delta"]
        same("".join(words), answer)
        same(round(seconds_of(events), 1), round(self.setup.seconds(answer), 1))

    async def text_turn(self) -> None:
        text, since = self.scenario["text"], len(self.seen)
        await self.ask(text["prompt"])
        await self.answered(text["answer"], since)

    async def ask(self, prompt: str) -> None:
        content: Any = [{"type": "input_text", "text": prompt}]
        await self.connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})
        await self.connection.response.create()

    async def tool_call(self) -> None:
        tool, since = self.scenario["tool"], len(self.seen)
        parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        function: Any = {"type": "function", "name": tool["name"], "description": "Weather", "parameters": parameters}
        await self.connection.session.update(session={"type": "realtime", "tools": [function], "tool_choice": "auto"})
        same([each.name for each in (await self.kind("session.updated", since)).session.tools], [tool["name"]])
        await self.ask(tool["prompt"])
        call = await self.kind("response.function_call_arguments.done", since)
        same((call.name, json.loads(call.arguments)), (tool["name"], tool["arguments"]))
        done = await self.kind("response.done", since)
        same([(item.type, item.call_id) for item in done.response.output], [("function_call", call.call_id)])
        since = len(self.seen)
        output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": tool["output"]}
        await self.connection.conversation.item.create(item=output)
        await self.connection.response.create()
        await self.answered(tool["answer"], since)

    async def interruption(self) -> None:
        part, since = self.scenario["interruption"], len(self.seen)
        await self.ask(part["prompt"])
        await self.seen.holds(lambda: seconds_of(self.seen[since:]) > 1)
        speaking = asyncio.create_task(self.interrupt())
        await self.kind("input_audio_buffer.speech_started", since)
        done = await self.kind("response.done", since)
        same((done.response.status, done.response.status_details.reason), ("cancelled", "turn_detected"))
        item_id = done.response.output[0].id
        await self.connection.conversation.item.truncate(item_id=item_id, content_index=0, audio_end_ms=1000)
        truncated = await self.kind("conversation.item.truncated", since)
        same((truncated.item_id, truncated.audio_end_ms), (item_id, 1000))
        await self.connection.conversation.item.retrieve(item_id=item_id)
        retrieved = await self.kind("conversation.item.retrieved", since)
        heard(retrieved.item.content[0].transcript, part["answer"], 3, 4)
        await speaking
        await self.answered(part["reply"], self.seen.index(done) + 1)
        await self.unheard(item_id)

    async def unheard(self, item_id: str) -> None:
        """An answer of which nothing was heard is gone, and can be spoken of all the same until it is deleted."""
        since, item = len(self.seen), self.connection.conversation.item
        await item.truncate(item_id=item_id, content_index=0, audio_end_ms=0)
        same((await self.kind("conversation.item.deleted", since)).item_id, item_id)
        since = len(self.seen)
        await item.truncate(item_id=item_id, content_index=0, audio_end_ms=0)
        await item.retrieve(item_id=item_id)
        await item.delete(item_id=item_id)
        same((await self.kind("conversation.item.deleted", since)).item_id, item_id)
        same((await self.kind("conversation.item.retrieved", since)).item.content[0].transcript, "")
        await self.kind("conversation.item.truncated", since)
        check(all(event.type != "error" for event in self.seen[since:]), "it was refused")

    async def interrupt(self) -> None:
        async for piece in self.setup.speech("interruption"):
            await self.connection.input_audio_buffer.append(audio=base64.b64encode(piece).decode())

    async def error(self) -> None:
        since = len(self.seen)
        await self.connection.conversation.item.delete(item_id="item_nowhere", event_id="mine")
        event = await self.kind("error", since)
        check(isinstance(event, RealtimeErrorEvent), f"{event!r} is not a typed event")
        same((event.error.event_id, event.error.code), ("mine", "item_delete_invalid_item_id"))
        await self.connection.session.update(session={"type": "realtime", "instructions": ""})
        same((await self.kind("session.updated", since)).session.instructions, "")

    async def close(self) -> None:
        await self.connection.close()
        await self.reader


def seconds_of(events: list[Any]) -> float:
    """How much sound these events carry."""
    deltas = [event.delta for event in events if isinstance(event, ResponseAudioDeltaEvent)]
    return sum(len(base64.b64decode(delta)) for delta in deltas) / 2 / RATE


main(OpenAIPython)
