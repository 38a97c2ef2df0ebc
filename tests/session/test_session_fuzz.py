"""Any order of client events and sounds: the protocol's promises hold, and nothing is left behind."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.judge import InlineJudge
from tests.support.promises import check_conversation, check_responses, check_turns
from tests.support.scripted import Script, ScriptedClient
from tests.support.speech import recording
from tests.support.talk import RATE, Talk, quiet
from tests.support.virtual_time import in_virtual_time
from voice_omni.client.interface import GenerateRequest
from voice_omni.proto.errors import OmniError
from voice_omni.session.options import SessionOptions
from voice_omni.session.silero import SileroModel

_INPUT = [
    {"turn_detection": None},
    {"turn_detection": {"type": "server_vad"}},
    {"turn_detection": {"create_response": False}},
    {"turn_detection": {"create_response": True, "interrupt_response": False}},
    {"turn_detection": {"interrupt_response": True, "silence_duration_ms": 300}},
    {"turn_detection": {"type": "semantic_vad", "eagerness": "high"}},
    {"turn_detection": {"type": "server_vad", "idle_timeout_ms": 5000}},
    {"transcription": {"model": "any"}},
    {"turn_detection": {"typo": 1}},
]
_RESPONSES: list[dict[str, Any]] = [
    {},
    {"instructions": "Be brief."},
    {"output_modalities": ["text"]},
    {"conversation": "none", "input": []},
    {"interruptible": False},
    {"input": [{"type": "item_reference", "id": "gone"}]},
]
_SCRIPTS = [
    Script(),
    Script(silent=True),
    Script(die_after=1),
    Script(answer="word " * 40),
    Script(transcript=""),
    Script(refuse=OmniError("overloaded", "full", retryable=True)),
    Script(refuse=OmniError("unsupported_route", "cannot", retryable=False)),
    Script(answer="", transcript="words"),
]

_OPTIONS = [
    SessionOptions(max_duration_s=100_000),
    SessionOptions(max_duration_s=100_000, ignore_backchannels=True),
    SessionOptions(max_duration_s=100_000, interrupt_min_ms=400, resume_ms=300, max_lead_ms=300),
    SessionOptions(max_duration_s=100_000, interrupt_min_words=2, protected_speech="keep", echo_warm_up_ms=1000),
]

_operations = st.one_of(
    st.tuples(st.just("speech"), st.floats(0.2, 1.7)),
    st.tuples(st.just("quiet"), st.floats(0.05, 0.9)),
    st.tuples(st.just("wait"), st.floats(0.0, 3.0)),
    st.tuples(st.just("commit"), st.none()),
    st.tuples(st.just("clear"), st.none()),
    st.tuples(st.just("cancel"), st.none()),
    st.tuples(st.just("respond"), st.sampled_from(_RESPONSES)),
    st.tuples(st.just("update"), st.sampled_from(_INPUT)),
    st.tuples(st.just("create"), st.sampled_from([None, "root", "gone"])),
    st.tuples(st.just("truncate"), st.integers(0, 4000)),
    st.tuples(st.just("delete"), st.none()),
    st.tuples(st.just("garbage"), st.sampled_from(["{", "[]", '{"type": "x"}', b"\x00"])),
)


async def _perform(talk: Talk, speech: np.ndarray, name: str, value: Any) -> None:
    last = talk.core.conversation.last_id or "none"
    match name:
        case "speech":
            await talk.say(speech[: int(value * RATE)])
        case "quiet":
            await talk.say(quiet(value))
        case "wait":
            await asyncio.sleep(value)
        case "commit":
            await talk.send("input_audio_buffer.commit")
        case "clear":
            await talk.send("input_audio_buffer.clear")
        case "cancel":
            await talk.send("response.cancel")
        case "respond":
            await talk.send("response.create", response=value)
        case "update":
            await talk.send("session.update", session={"audio": {"input": value}})
        case "create":
            item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Typed."}]}
            place = {} if value is None else {"previous_item_id": value}
            await talk.send("conversation.item.create", item=item, **place)
        case "truncate":
            await talk.send("conversation.item.truncate", item_id=last, content_index=0, audio_end_ms=value)
        case "delete":
            await talk.send("conversation.item.delete", item_id=last)
        case "garbage":
            await talk.session.receive(value)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    operations=st.lists(_operations, max_size=14),
    scripts=st.lists(st.sampled_from(_SCRIPTS), min_size=1, max_size=4),
    options=st.sampled_from(_OPTIONS),
    judge_s=st.sampled_from([0.0, 0.1, 2.0]),
)
def test_any_order_of_events(
    silero: SileroModel,
    caplog: pytest.LogCaptureFixture,
    operations: list[tuple[str, Any]],
    scripts: list[Script],
    options: SessionOptions,
    judge_s: float,
) -> None:
    caplog.clear()
    each = recording("question-10")
    speech = each.samples(RATE)[int(0.4 * RATE) : int((each.speech_end + 0.1) * RATE)]

    def script(request: GenerateRequest, number: int) -> Script:
        return scripts[number % len(scripts)]

    @in_virtual_time
    async def scenario() -> None:
        client = ScriptedClient(script)
        judge = InlineJudge(lambda sound: len(sound) % 1024 / 1024, judge_s)
        async with Talk(client, silero, options, judge=judge) as talk:
            for name, value in operations:
                await _perform(talk, speech, name, value)
            await asyncio.sleep(300)  # silence may be answered a few times more
            check_responses(talk.events)
            check_conversation(talk.events)
            check_turns(talk.events)
        assert client.alive == []
        assert asyncio.all_tasks() == {asyncio.current_task()}

    scenario()
    assert [record for record in caplog.records if record.name != "voice_omni.session.ear"] == []  # stalls are told
