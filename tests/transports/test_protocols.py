"""Function calls, dialects, transcription sessions and extensions over a real socket, a scripted pipeline behind."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import numpy as np
import pytest
from websockets.asyncio.client import ClientConnection, connect

from tests.support import openai_contract
from tests.support.caller import Caller, services
from tests.support.scripted import OUTPUT_RATE, Script, ScriptedClient
from tests.support.serving import serving
from tests.support.speech import recording
from tests.support.talk import RATE
from voice_omni.audio.g711 import decode_g711
from voice_omni.audio.pcm import encode_pcm16
from voice_omni.client.interface import GenerateRequest, NamedTool, ToolCall
from voice_omni.server import create_app
from voice_omni.session.silero import SileroModel

WEATHER = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
MANUAL = {"audio": {"input": {"turn_detection": None}}}


def calls_once(request: GenerateRequest, _: int) -> Script:
    """Asks for the weather, then tells it."""
    if request.messages and request.messages[-1].role == "tool":
        return Script(answer="It is sunny.", word_seconds=0.05)
    return Script(answer="One moment.", word_seconds=0.05, calls=(("get_weather", '{"city": "Paris"}'),))


async def _ask(connection: ClientConnection, text: str) -> None:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    await connection.send(json.dumps({"type": "conversation.item.create", "item": item}))


async def test_a_function_is_called_and_its_result_is_told(silero: SileroModel) -> None:
    client = ScriptedClient(calls_once)
    app = create_app(services(client, silero))
    async with serving(app) as address, connect(f"ws://{address}/v1/realtime") as connection:
        caller = Caller(connection)
        await caller.send("session.update", session={"tools": [WEATHER]})
        await _ask(connection, "What is the weather in Paris?")
        choice = {"type": "function", "name": "get_weather"}
        await caller.send("response.create", response={"tool_choice": choice})
        done = await caller.until("response.done")
        said, call = done["response"]["output"]
        assert said["content"][0]["transcript"] == "One moment."
        assert (call["name"], call["arguments"]) == ("get_weather", '{"city": "Paris"}')
        # A client that acts on the call's own event finds the response all but done.
        order = [event["type"] for event in caller.events]
        assert order[order.index("response.function_call_arguments.done") :] == [
            "response.function_call_arguments.done",
            "response.output_item.done",
            "conversation.item.done",
            "response.done",
        ]
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}
        await caller.send("conversation.item.create", item=output)
        await caller.send("response.create")
        done = await caller.until("response.done")
        assert done["response"]["output"][0]["content"][0]["transcript"] == "It is sunny."
        for event in caller.events:
            openai_contract.check(event)
    first, second = (reply.request for reply in client.replies)
    assert [tool.name for tool in first.tools] == ["get_weather"]
    assert (first.tool_choice, second.tool_choice) == (NamedTool("get_weather"), "auto")
    assert [message.role for message in second.messages] == ["user", "assistant", "assistant", "tool"]
    assert second.messages[2].tool_calls == (ToolCall(call["call_id"], "get_weather", '{"city": "Paris"}'),)


async def test_a_spoken_question_may_be_answered_by_a_call_alone(silero: SileroModel) -> None:
    client = ScriptedClient(Script(answer="", calls=(("get_weather", "{}"), ("get_weather", "{}"))))
    app = create_app(services(client, silero))
    async with serving(app) as address, connect(f"ws://{address}/v1/realtime") as connection:
        caller = Caller(connection)
        await caller.send("session.update", session={"tools": [WEATHER]})
        await caller.say(recording("question-10").samples(RATE))
        response = (await caller.until("response.done"))["response"]
        assert [item["type"] for item in response["output"]] == ["function_call"] * 2
        assert response["status"] == "completed"
        assert not [event for event in caller.events if "audio.delta" in event["type"]]


@pytest.mark.parametrize("how", ["header", "subprotocol", "update"])
async def test_a_client_of_the_beta_dialect(silero: SileroModel, how: str) -> None:
    ways: dict[str, dict[str, Any]] = {
        "header": {"additional_headers": {"OpenAI-Beta": "realtime=v1"}},
        "subprotocol": {"subprotocols": ["realtime", "openai-insecure-api-key.k", "openai-beta.realtime-v1"]},
        "update": {},
    }
    app = create_app(services(ScriptedClient(Script(word_seconds=0.05)), silero))
    async with serving(app) as address, connect(f"ws://{address}/v1/realtime", **ways[how]) as connection:
        caller = Caller(connection)
        created = await caller.until("session.created")
        assert ("input_audio_format" in created["session"]) == (how != "update")
        await caller.send("session.update", session={"output_audio_format": "g711_ulaw", "turn_detection": None})
        updated = await caller.until("session.updated")
        assert updated["session"]["output_audio_format"] == "g711_ulaw"
        await _ask(connection, "Hello?")
        await caller.send("response.create")
        await caller.until("response.done")
        beta = caller.events if how != "update" else caller.events[2:]
        for event in beta:
            openai_contract.check(event, beta=True)
        deltas = [event["delta"] for event in beta if event["type"] == "response.audio.delta"]
        sound = decode_g711(b"".join(map(base64.b64decode, deltas)), "mulaw")
        assert len(sound) == pytest.approx(6 * 0.05 * 8000, abs=2)


async def test_a_transcription_session(silero: SileroModel) -> None:
    client = ScriptedClient()
    app = create_app(services(client, silero))
    async with serving(app) as address, connect(f"ws://{address}/v1/realtime?intent=transcription") as connection:
        caller = Caller(connection)
        created = await caller.until("session.created")
        assert created["session"]["type"] == "transcription"
        patch = {"type": "transcription", "audio": {"input": {"transcription": {"language": "en"}}}}
        await caller.send("session.update", session=patch)
        await caller.say(recording("question-10").samples(RATE))
        completed = await caller.until("conversation.item.input_audio_transcription.completed")
        assert completed["transcript"] == "what is the capital of France"
        await caller.send("response.create")
        assert (await caller.until("error"))["error"]["code"] == "invalid_event"
        assert not [event for event in caller.events if event["type"].startswith("response.")]
        for event in caller.events:
            openai_contract.check(event)
    assert {reply.request.output for reply in client.replies} == {"transcript"}


async def test_sound_as_binary_frames_at_another_rate(silero: SileroModel) -> None:
    client = ScriptedClient(Script(word_seconds=0.05))
    app = create_app(services(client, silero))
    query = "extensions=binary-audio,pcm-rates"
    async with serving(app) as address, connect(f"ws://{address}/v1/realtime?{query}") as connection:
        sixteen = {"format": {"type": "audio/pcm", "rate": 16000}}
        session = {"audio": {"input": {**sixteen, "turn_detection": None}, "output": sixteen}}
        await connection.send(json.dumps({"type": "session.update", "session": session}))
        spoken = recording("question-10").samples(16000)
        data = encode_pcm16(spoken)
        for start in range(0, len(data), 3201):
            await connection.send(data[start : start + 3201])
        await connection.send(json.dumps({"type": "input_audio_buffer.commit"}))
        await connection.send(json.dumps({"type": "response.create"}))
        sound = b""
        async for frame in connection:
            if isinstance(frame, bytes):
                header, _, payload = frame.partition(b"\n")
                event = json.loads(header)
                assert event["type"] == "response.output_audio.delta"
                assert "delta" not in event
                sound += payload
            elif json.loads(frame)["type"] == "response.done":
                break
    assert len(sound) / 2 == math.ceil(6 * int(0.05 * OUTPUT_RATE) * 16000 / OUTPUT_RATE)
    heard = client.replies[-1].sound
    assert len(heard) == len(spoken)
    assert np.abs(heard - spoken).max() < 1e-4
