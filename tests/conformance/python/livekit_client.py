"""livekit-plugins-openai: ``realtime.RealtimeModel`` and its session, with the settings it comes with."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import aiohttp
from driver import RATE, Seen, Setup, check, heard, main, same
from livekit import rtc
from livekit.agents import llm
from livekit.plugins.openai import realtime
from openai.types.realtime import ConversationItemRetrieveEvent, ConversationItemTruncateEvent

EVENTS = (
    "generation_created",
    "input_speech_started",
    "input_speech_stopped",
    "input_audio_transcription_completed",
    "metrics_collected",
    "error",
)


class LiveKit:
    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.scenario = setup.scenario
        self.seen: Seen[tuple[str, Any]] = Seen()
        self.http: aiohttp.ClientSession
        self.session: realtime.RealtimeSession

    async def connect(self) -> None:
        self.http = aiohttp.ClientSession()
        model = realtime.RealtimeModel(
            base_url=f"http://{self.setup.http}/v1", api_key="sk-local", http_session=self.http
        )
        self.session = model.session()
        for name in EVENTS:
            self.session.on(name, lambda event, name=name: self.seen.add((name, event)))
        self.session.on("openai_server_event_received", lambda event: self.seen.add((event["type"], event)))
        same((await self.kind("session.created"))["session"]["type"], "realtime")
        await self.kind("session.updated")
        self.no_errors()

    async def kind(self, kind: str, since: int = 0) -> Any:
        """The first of these events: the session's own, or a server event that it passed on."""
        return (await self.seen.until(lambda event: event[0] == kind, since))[1]

    def no_errors(self, since: int = 0) -> None:
        errors = [event for _, event in self.seen[since:] if isinstance(event, llm.RealtimeModelError)]
        check(not errors, f"errors: {errors}")

    async def session_update(self) -> None:
        since = len(self.seen)
        await self.session.update_instructions("Be brief.")
        updated = (await self.kind("session.updated", since))["session"]
        same(updated["instructions"], "Be brief.")
        same(updated["audio"]["input"]["turn_detection"]["interrupt_response"], True)
        self.no_errors(since)

    async def spoken_turn(self) -> None:
        spoken, since = self.scenario["spoken"], len(self.seen)
        await self.say("spoken")
        await self.kind("input_speech_started", since)
        await self.kind("input_speech_stopped", since)
        generation = await self.seen.until(lambda event: event[0] == "generation_created", since)
        await self.answered(generation[1], spoken["answer"])
        transcript = await self.seen.until(
            lambda event: event[0] == "input_audio_transcription_completed" and event[1].is_final, since
        )
        same(transcript[1].transcript, spoken["transcript"])
        same(self.said_last("user"), spoken["transcript"])
        self.no_errors(since)

    async def say(self, part: str) -> None:
        async for piece in self.setup.speech(part):
            self.session.push_audio(rtc.AudioFrame(piece, RATE, 1, len(piece) // 2))

    async def answered(self, generation: llm.GenerationCreatedEvent, answer: str) -> None:
        """The generation's one message is ``answer``, as text and as sound; the mirror of the conversation has it."""
        messages = [(message, *await collect(message)) async for message in generation.message_stream]
        same([text for _, text, _ in messages], [answer])
        same(round(messages[0][2], 1), round(self.setup.seconds(answer), 1))
        await self.seen.holds(lambda: self.said_last("assistant") == answer)

    def said_last(self, role: str) -> str | None:
        return next(
            (each.text_content for each in reversed(self.session.chat_ctx.messages()) if each.role == role), None
        )

    async def text_turn(self) -> None:
        text, since = self.scenario["text"], len(self.seen)
        await self.answered(await self.ask(text["prompt"]), text["answer"])
        metrics = await self.kind("metrics_collected", since)
        check(metrics.total_tokens > 0, "no usage")
        self.no_errors(since)

    async def ask(self, prompt: str) -> llm.GenerationCreatedEvent:
        context = self.session.chat_ctx.copy()
        context.add_message(role="user", content=prompt)
        await self.session.update_chat_ctx(context)
        same(self.said_last("user"), prompt)
        generation = await self.session.generate_reply()
        check(generation.user_initiated, "the response was not recognised as the one that was asked for")
        return generation

    async def tool_call(self) -> None:
        tool, since = self.scenario["tool"], len(self.seen)

        @llm.function_tool(name=tool["name"])
        async def weather(city: str) -> str:
            """The weather in a city."""
            return city

        await self.session.update_tools([weather])
        tools = (await self.kind("session.updated", since))["session"]["tools"]
        same([each["name"] for each in tools], [tool["name"]])
        generation = await self.ask(tool["prompt"])
        calls = [call async for call in generation.function_stream]
        same([(call.name, json.loads(call.arguments)) for call in calls], [(tool["name"], tool["arguments"])])
        context = self.session.chat_ctx.copy()
        output = llm.FunctionCallOutput(
            call_id=calls[0].call_id, name=tool["name"], output=tool["output"], is_error=False
        )
        context.items.append(output)
        await self.session.update_chat_ctx(context)
        await self.answered(await self.session.generate_reply(), tool["answer"])
        self.no_errors(since)

    async def interruption(self) -> None:
        part, since = self.scenario["interruption"], len(self.seen)
        generation = await self.ask(part["prompt"])
        message = await anext(aiter(generation.message_stream))
        collecting = asyncio.create_task(collect(message))
        await self.seen.holds(lambda: seconds_of(self.seen[since:]) > 1)
        speaking = asyncio.create_task(self.say("interruption"))
        await self.kind("input_speech_started", since)
        self.session.interrupt()
        self.session.truncate(message_id=message.message_id, modalities=["audio", "text"], audio_end_ms=1000)
        await collecting
        check((await self.kind("metrics_collected", since)).cancelled, "the response was not cancelled")
        truncated = await self.kind("conversation.item.truncated", since)
        same((truncated["item_id"], truncated["audio_end_ms"]), (message.message_id, 1000))
        retrieve = ConversationItemRetrieveEvent(type="conversation.item.retrieve", item_id=message.message_id)
        self.session.send_event(retrieve)
        retrieved = await self.kind("conversation.item.retrieved", since)
        heard(retrieved["item"]["content"][0]["transcript"], part["answer"], 3, 4)
        await speaking
        generations = [event for kind, event in self.seen[since:] if kind == "generation_created"]
        await self.answered(generations[1], part["reply"])
        self.no_errors(since)

    async def error(self) -> None:
        since = len(self.seen)
        generation = await self.ask(self.scenario["interruption"]["prompt"])
        try:
            await self.session.generate_reply()
        except llm.RealtimeError as error:
            same(error.code, "conversation_already_has_active_response")
        else:
            raise AssertionError("two responses at the same time")
        # Before its first sound an answer leaves the conversation by itself, and nothing would be left to delete.
        await self.seen.holds(lambda: seconds_of(self.seen[since:]) > 0)
        self.session.interrupt()
        async for message in generation.message_stream:
            await collect(message)
        check((await self.kind("metrics_collected", since)).cancelled, "the response was not cancelled")
        await self.unheard(message.message_id)
        await self.twice(self.scenario["text"]["prompt"])
        text = self.scenario["text"]
        await self.answered(await self.ask(text["prompt"]), text["answer"])

    async def unheard(self, item_id: str) -> None:
        """It deletes what nobody heard, and keeps up with a server that removes it as well."""
        since = len(self.seen)
        self.session.send_event(
            ConversationItemTruncateEvent(
                type="conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=0
            )
        )
        self.session.truncate(message_id=item_id, modalities=["audio"], audio_end_ms=0)
        await self.seen.holds(lambda: sum(kind == "conversation.item.deleted" for kind, _ in self.seen[since:]) == 2)
        check(self.session.chat_ctx.get_by_id(item_id) is None, "the mirror of the conversation still has it")
        self.no_errors(since)

    async def twice(self, prompt: str) -> None:
        """An item that is there already is not worth failing a turn over."""
        since = len(self.seen)
        item = {
            "type": "message",
            "id": "item_mine",
            "role": "user",
            "content": [{"type": "input_text", "text": prompt}],
        }
        self.session.send_event({"type": "conversation.item.create", "item": item})
        context = self.session.chat_ctx.copy()
        context.add_message(role="user", content=prompt, id="item_mine")
        await self.session.update_chat_ctx(context)
        error = (await self.kind("error", since))["error"]
        same(error["code"], "item_already_exists")
        same(self.said_last("user"), prompt)

    async def close(self) -> None:
        await self.session.aclose()
        await self.http.close()


def seconds_of(events: list[tuple[str, Any]]) -> float:
    """How much sound the server events among these carry."""
    deltas = [event["delta"] for kind, event in events if kind == "response.output_audio.delta"]
    return sum(len(base64.b64decode(delta)) for delta in deltas) / 2 / RATE


async def collect(message: llm.MessageGeneration) -> tuple[str, float]:
    """All text of a message, and the seconds of its sound."""
    text, seconds = "", 0.0
    async for frame in message.audio_stream:
        seconds += frame.duration
    async for piece in message.text_stream:
        text += piece
    return text, seconds


main(LiveKit)
