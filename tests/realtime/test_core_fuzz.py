"""Whatever a client sends, in either dialect: events in the contract's shape, and a session that goes on."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import openai_contract
from tests.support.protocol import Script
from voice_omni.client.interface import ToolCallDelta
from voice_omni.realtime import commands
from voice_omni.realtime.dialect import Dialect

KINDS = (
    "session.update", "transcription_session.update", "input_audio_buffer.append", "input_audio_buffer.commit",
    "input_audio_buffer.clear", "output_audio_buffer.clear", "conversation.item.create", "conversation.item.retrieve",
    "conversation.item.truncate", "conversation.item.delete", "response.create", "response.cancel",
)  # fmt: skip
KEYS = (
    "type", "event_id", "session", "response", "item", "audio", "input", "output", "format", "rate", "voice", "speed",
    "turn_detection", "threshold", "transcription", "tools", "tool_choice", "name", "function", "parameters", "content",
    "text", "transcript", "image_url", "role", "id", "call_id", "arguments", "item_id", "previous_item_id",
    "content_index", "audio_end_ms", "modalities", "output_modalities", "input_audio_format", "output_audio_format",
    "instructions", "metadata", "conversation", "prompt", "tracing", "truncation", "include", "temperature",
    "max_response_output_tokens", "max_output_tokens", "input_audio_transcription", "response_id",
)  # fmt: skip
WORDS = (
    "message", "function_call", "function_call_output", "item_reference", "user", "assistant", "system", "input_text",
    "input_audio", "input_image", "output_text", "output_audio", "text", "audio", "function", "auto", "required",
    "inf", "realtime", "transcription", "server_vad", "semantic_vad", "audio/pcm", "audio/pcmu", "pcm16", "g711_alaw",
    "root", "item_1", "item_2", "resp_1", "AAAA", "@", "", "\ud800", "é",
)  # fmt: skip

scalars = st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats() | st.sampled_from(WORDS) | st.text()
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=12,
)
messages = st.builds(
    lambda kind, fields: json.dumps({**fields, "type": kind}),
    st.sampled_from(KINDS),
    st.dictionaries(st.sampled_from(KEYS), values, max_size=5),
) | st.text(max_size=40)


@given(st.lists(messages | st.binary(max_size=8), max_size=12), st.booleans())
@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_every_message_is_obeyed_or_answered(sent: list[str | bytes], beta: bool) -> None:
    script, dialect = Script(), Dialect(beta=beta)

    def show(outputs: list[Any]) -> list[dict[str, Any]]:
        shown = [event for output in outputs if isinstance(output, dict) for event in dialect.outgoing(output)]
        for event in shown:
            openai_contract.check(json.loads(json.dumps(event, default=str)), beta=dialect.is_beta)
        return shown

    show(script.core.open())
    for message in sent:
        outputs = script.core.receive(dialect.incoming(message), beta=dialect.is_beta)
        show(outputs)
        for output in outputs:
            if isinstance(output, commands.StartReply):
                show(script.core.responses.say(output.response_id, "Hello."))
                show(script.core.responses.call(output.response_id, ToolCallDelta(0, "f", "{}", final=True)))
    [answer] = show(
        script.core.receive(dialect.incoming('{"type": "session.update", "session": {}}'), beta=dialect.is_beta)
    )
    assert answer["type"] == "session.updated"
