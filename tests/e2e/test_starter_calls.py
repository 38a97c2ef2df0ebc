"""The starter pipeline asked to call a function: the call reaches the client, and no part of it the voice."""

from __future__ import annotations

import json

from tests.support.pipelines import patient
from voice_omni.client.interface import (
    AudioDelta,
    Done,
    GenerateRequest,
    Message,
    NamedTool,
    ReplyEvent,
    TextDelta,
    Tool,
    ToolCall,
    ToolCallDelta,
)
from voice_omni.client.pipeline import PipelineClient
from voice_omni.config.settings import default_settings
from voice_omni.models.starter.pipeline import PIPELINE
from voice_omni.pipeline.launcher import Launcher

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = (Tool("get_weather", "Get the current weather in a city", CITY),)
ASKED = Message("user", "What's the weather in Paris?")


async def test_a_call_its_result_and_a_greeting_in_sound() -> None:
    async with Launcher(PIPELINE, patient(default_settings(PIPELINE)), stages=PIPELINE.routes["text"]) as pipeline:

        async def ask(*messages: Message, choice: NamedTool | None = None) -> list[ReplyEvent]:
            request = GenerateRequest(input="text", messages=messages, tools=TOOLS, tool_choice=choice or "auto")
            return [event async for event in await PipelineClient.of(pipeline).open(request)]

        *pieces, done = await ask(ASKED, choice=NamedTool("get_weather"))
        assert isinstance(done, Done)
        calls = [piece for piece in pieces if isinstance(piece, ToolCallDelta)]
        assert calls == pieces
        assert [call.final for call in calls] == [False] * (len(calls) - 1) + [True]
        arguments = "".join(call.arguments for call in calls)
        assert json.loads(arguments) == {"city": "Paris"}

        called = Message("assistant", "", (ToolCall("c1", "get_weather", arguments),))
        *pieces, done = await ask(ASKED, called, Message("tool", '{"sky": "sunny"}', call_id="c1"))
        assert isinstance(done, Done)
        assert "sun" in "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)).lower()
        assert sum(len(piece.samples) for piece in pieces if isinstance(piece, AudioDelta)) > 0

        *pieces, done = await ask()
        assert isinstance(done, Done)
        assert any(isinstance(piece, AudioDelta) for piece in pieces)
