"""openai-agents (Python): ``RealtimeRunner`` over its own WebSocket model, with the settings it comes with."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from agents import function_tool
from agents.realtime import (
    RealtimeAgent,
    RealtimeAudio,
    RealtimeModelSendRawMessage,
    RealtimeRunner,
    RealtimeSession,
    RealtimeSessionEvent,
)
from driver import RATE, Seen, Setup, check, heard, main, same


class OpenAIAgents:
    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.scenario = setup.scenario
        self.seen: Seen[RealtimeSessionEvent] = Seen()
        self.session: RealtimeSession
        self.reader: asyncio.Task[None]

    async def connect(self) -> None:
        runner = RealtimeRunner(RealtimeAgent(name="first", instructions="Be kind."))
        url = f"ws://{self.setup.http}/v1/realtime?model=gpt-realtime"
        self.session = await runner.run(model_config={"url": url, "api_key": "sk-local"})
        await self.session.enter()
        self.reader = asyncio.create_task(self._read())
        same((await self.server("session.created"))["session"]["type"], "realtime")
        await self.updated("Be kind.")
        self.no_errors()

    async def _read(self) -> None:
        async for event in self.session:
            self.seen.add(event)

    async def kind(self, kind: str, since: int = 0) -> Any:
        return await self.seen.until(lambda event: event.type == kind, since)

    async def server(self, kind: str, since: int = 0) -> dict[str, Any]:
        """A server event as the model hands it to its listeners."""
        event: Any = await self.seen.until(lambda event: server_kind(event) == kind, since)
        return dict(event.data.data)

    async def updated(self, instructions: str, since: int = 0) -> dict[str, Any]:
        """The session as the server has it, once its instructions are these. The SDK also sends updates of its own."""

        def matches(event: Any) -> bool:
            if server_kind(event) != "session.updated":
                return False
            return bool(event.data.data["session"]["instructions"] == instructions)

        event: Any = await self.seen.until(matches, since)
        return dict(event.data.data["session"])

    def no_errors(self, since: int = 0) -> None:
        errors = [event.error for event in self.seen[since:] if event.type == "error"]
        check(not errors, f"errors: {errors}")

    async def session_update(self) -> None:
        since = len(self.seen)
        await self.session.update_agent(RealtimeAgent(name="second", instructions="Be brief."))
        updated = await self.updated("Be brief.", since)
        same(updated["audio"]["input"]["turn_detection"]["interrupt_response"], True)
        self.no_errors(since)

    async def spoken_turn(self) -> None:
        spoken, since = self.scenario["spoken"], len(self.seen)
        async for piece in self.setup.speech("spoken"):
            await self.session.send_audio(piece)
        await self.answered(spoken["answer"], since)
        await self.seen.holds(lambda: said_by("user", self.seen)[-1:] == [spoken["transcript"]])

    async def answered(self, answer: str, since: int) -> None:
        """The agent's turn that ended first since then said ``answer``, as text and as sound."""
        await self.kind("agent_start", since)
        await self.kind("audio_end", since)
        await self.kind("agent_end", since)
        await self.seen.holds(lambda: said_by("assistant", self.seen)[-1:] == [answer])
        same(round(seconds_of(self.seen[since:]), 1), round(self.setup.seconds(answer), 1))
        self.no_errors(since)

    async def text_turn(self) -> None:
        text, since = self.scenario["text"], len(self.seen)
        await self.session.send_message(text["prompt"])
        await self.answered(text["answer"], since)

    async def tool_call(self) -> None:
        tool, since = self.scenario["tool"], len(self.seen)
        calls: list[dict[str, str]] = []

        @function_tool(name_override=tool["name"])
        async def weather(city: str) -> str:
            """The weather in a city."""
            calls.append({"city": city})
            return str(tool["output"])

        await self.session.update_agent(RealtimeAgent(name="third", instructions="Use the tool.", tools=[weather]))
        tools = (await self.updated("Use the tool.", since))["tools"]
        same([each["name"] for each in tools], [tool["name"]])
        await self.session.send_message(tool["prompt"])
        start = await self.kind("tool_start", since)
        same((start.tool.name, json.loads(start.arguments)), (tool["name"], tool["arguments"]))
        end = await self.kind("tool_end", since)
        same((calls, end.output), ([tool["arguments"]], tool["output"]))
        await self.answered(tool["answer"], self.seen.index(end))

    async def interruption(self) -> None:
        part, since = self.scenario["interruption"], len(self.seen)
        await self.session.send_message(part["prompt"])
        audio = await self.kind("audio", since)
        await asyncio.sleep(0.6)
        speaking = asyncio.create_task(self.interrupt())
        interrupted = await self.kind("audio_interrupted", since)
        same(interrupted.item_id, audio.item_id)
        await self.server("conversation.item.truncated", since)
        await self.server("conversation.item.retrieved", since)
        await self.seen.holds(lambda: len(transcript_of(audio.item_id, self.seen).split()) < 10)
        heard(transcript_of(audio.item_id, self.seen), part["answer"], 2, 9)
        await speaking
        await self.answered(part["reply"], self.seen.index(interrupted))

    async def interrupt(self) -> None:
        async for piece in self.setup.speech("interruption"):
            await self.session.send_audio(piece)

    async def error(self) -> None:
        since = len(self.seen)
        delete: Any = {
            "type": "conversation.item.delete",
            "other_data": {"item_id": "item_nowhere", "event_id": "mine"},
        }
        await self.session.model.send_event(RealtimeModelSendRawMessage(message=delete))
        error = (await self.kind("error", since)).error
        same((error.event_id, error.code), ("mine", "item_delete_invalid_item_id"))
        await self.session.update_agent(RealtimeAgent(name="fourth", instructions="Go on."))
        await self.updated("Go on.", since)

    async def close(self) -> None:
        await self.session.close()
        await self.reader


def server_kind(event: Any) -> str | None:
    """The type of the server event that the model passed on unchanged; None if this is not one."""
    if event.type != "raw_model_event" or event.data.type != "raw_server_event":
        return None
    return str(event.data.data["type"])


def history(seen: Seen[Any]) -> list[Any]:
    """The items of the session, as the last event about them has them."""
    items: dict[str, Any] = {}
    for event in seen:
        if event.type == "history_updated":
            items = {item.item_id: item for item in event.history}
        elif event.type == "history_added":
            items[event.item.item_id] = event.item
    return [item for item in items.values() if item.type == "message"]


def words_of(item: Any) -> str:
    return " ".join((getattr(part, "text", None) or getattr(part, "transcript", None) or "") for part in item.content)


def said_by(role: str, seen: Seen[Any]) -> list[str]:
    return [words_of(item) for item in history(seen) if item.role == role]


def transcript_of(item_id: str, seen: Seen[Any]) -> str:
    return next(words_of(item) for item in history(seen) if item.item_id == item_id)


def seconds_of(events: list[Any]) -> float:
    """How much sound these events carry."""
    return sum(len(event.audio.data) for event in events if isinstance(event, RealtimeAudio)) / 2 / RATE


main(OpenAIAgents)
