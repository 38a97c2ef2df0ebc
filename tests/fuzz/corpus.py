"""Valid client events of every type, with every field: what the mutations start from."""

from __future__ import annotations

import base64
import copy
import random
from typing import Any

from tests.support.speech import recording
from voice_omni.audio.pcm import encode_pcm16

RATE = 24000
Json = dict[str, Any]

_TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
_DETECTION = {
    "type": "server_vad",
    "threshold": 0.5,
    "prefix_padding_ms": 300,
    "silence_duration_ms": 500,
    "idle_timeout_ms": None,
    "create_response": True,
    "interrupt_response": True,
}
_SESSION = {
    "type": "realtime",
    "model": "any",
    "output_modalities": ["audio"],
    "instructions": "Be brief.",
    "tools": [],
    "tool_choice": "auto",
    "max_output_tokens": "inf",
    "tracing": None,
    "truncation": "auto",
    "prompt": None,
    "include": None,
    "audio": {
        "input": {
            "format": {"type": "audio/pcm", "rate": RATE},
            "transcription": {"model": "any", "language": "en", "prompt": ""},
            "noise_reduction": {"type": "near_field"},
            "turn_detection": _DETECTION,
        },
        "output": {"format": {"type": "audio/pcm", "rate": RATE}, "voice": "default", "speed": 1.0},
    },
}
_USER = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Typed."}]}
_FULL = {**_USER, "id": "ITEM", "object": "realtime.item", "status": "completed"}

_FLAT_SESSION = {
    "modalities": ["text", "audio"],
    "instructions": "Be brief.",
    "voice": "default",
    "input_audio_format": "g711_ulaw",
    "output_audio_format": "pcm16",
    "input_audio_transcription": {"model": "any"},
    "input_audio_noise_reduction": {"type": "far_field"},
    "turn_detection": {"type": "server_vad", "threshold": 0.5, "create_response": True},
    "tools": [_TOOL],
    "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
    "temperature": 0.7,
    "max_response_output_tokens": "inf",
}
_TRUNCATION = {"type": "retention_ratio", "retention_ratio": 0.5, "token_limits": {"post_instructions": 50}}

EVENTS: tuple[Json, ...] = (
    {"type": "session.update", "session": _SESSION},
    {"type": "session.update", "session": {"audio": {"input": {"turn_detection": None}}}},
    {"type": "session.update", "session": {"audio": {"input": {"turn_detection": {"type": "server_vad"}}}}},
    {"type": "session.update", "session": {"audio": {"input": {"turn_detection": {"type": "semantic_vad"}}}}},
    {"type": "session.update", "session": {"audio": {"input": {"format": {"type": "audio/pcmu"}}}}},
    {"type": "session.update", "session": {"audio": {"output": {"format": {"type": "audio/pcma"}}}}},
    {"type": "session.update", "session": {"output_modalities": ["text"], "max_output_tokens": 10}},
    {"type": "session.update", "session": {"tools": [_TOOL], "tool_choice": "required"}},
    {"type": "session.update", "session": {"modalities": ["text", "audio"], "input_audio_format": "pcm16"}},
    {"type": "session.update", "session": _FLAT_SESSION},
    {"type": "transcription_session.update", "session": {"input_audio_transcription": {"model": "any"}}},
    {"type": "session.update", "session": {"truncation": _TRUNCATION, "parallel_tool_calls": False}},
    {"type": "input_audio_buffer.append", "audio": "AUDIO"},
    {"type": "input_audio_buffer.commit"},
    {"type": "input_audio_buffer.clear"},
    {"type": "output_audio_buffer.clear"},
    {"type": "conversation.item.create", "item": _USER},
    {"type": "conversation.item.create", "item": _FULL, "previous_item_id": "root"},
    {"type": "conversation.item.create", "item": _USER, "previous_item_id": "ITEM"},
    {
        "type": "conversation.item.create",
        "item": {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Said."}]},
    },
    {
        "type": "conversation.item.create",
        "item": {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "Rule."}]},
    },
    {
        "type": "conversation.item.create",
        "item": {"type": "message", "role": "user", "content": [{"type": "input_audio", "audio": "AUDIO"}]},
    },
    {
        "type": "conversation.item.create",
        "item": {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}],
        },
    },
    {
        "type": "conversation.item.create",
        "item": {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": "{}"},
    },
    {
        "type": "conversation.item.create",
        "item": {"type": "function_call_output", "call_id": "call_1", "output": "{}"},
    },
    {"type": "conversation.item.retrieve", "item_id": "ITEM"},
    {"type": "conversation.item.truncate", "item_id": "ITEM", "content_index": 0, "audio_end_ms": 100},
    {"type": "conversation.item.delete", "item_id": "ITEM"},
    {"type": "response.create"},
    {
        "type": "response.create",
        "response": {
            "conversation": "none",
            "input": [_USER, {"type": "item_reference", "id": "ITEM"}],
            "instructions": "Be brief.",
            "output_modalities": ["audio"],
            "tools": [_TOOL],
            "tool_choice": "auto",
            "max_output_tokens": 100,
            "audio": {"output": {"format": {"type": "audio/pcm", "rate": RATE}, "voice": "default", "speed": 1.0}},
            "metadata": {"topic": "weather"},
            "prompt": None,
        },
    },
    {"type": "response.create", "response": {"conversation": "none", "input": [], "output_modalities": ["text"]}},
    {"type": "response.create", "response": {"output_modalities": ["text"]}},
    {
        "type": "response.create",
        "response": {
            "conversation": "none",
            "modalities": ["audio", "text"],
            "input": [{"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Said."}]}],
            "temperature": 0.9,
            "max_response_output_tokens": 100,
            "output_audio_format": "g711_alaw",
        },
    },
    {"type": "response.cancel"},
    {"type": "response.cancel", "response_id": "RESPONSE"},
)
"""``ITEM``, ``RESPONSE`` and ``AUDIO`` stand for an id that the session knows, or does not, and for sound."""

_SPEECH = recording("question-10")


def filled(event: Json, rng: random.Random, items: list[str], responses: list[str]) -> Json:
    """A copy of ``event`` with its placeholders filled in, from what a client of the session has seen."""
    unknown = f"made_up_{rng.randrange(50)}"
    values = {
        "ITEM": rng.choice([*items[-4:], unknown]),
        "RESPONSE": rng.choice([*responses[-2:], unknown]),
        "AUDIO": "",
    }

    def fill(value: Any) -> Any:
        match value:
            case "AUDIO":
                return base64.b64encode(sound(rng)).decode()
            case str():
                return values.get(value, value)
            case list():
                return [fill(each) for each in value]
            case dict():
                return {name: fill(each) for name, each in value.items()}
            case _:
                return value

    result: Json = fill(copy.deepcopy(event))
    return result


def sound(rng: random.Random) -> bytes:
    """Up to a second: noise, quiet, speech or bytes of any number."""
    match rng.randrange(8):
        case 0:
            return rng.randbytes(rng.randrange(0, 400))
        case 1 | 2:
            speech = _SPEECH.samples(RATE)
            start = rng.randrange(len(speech) // 2)
            return encode_pcm16(speech[start : start + rng.randrange(RATE)])
        case 3:
            return b""
        case _:
            return bytes(2 * rng.randrange(RATE // 10))
