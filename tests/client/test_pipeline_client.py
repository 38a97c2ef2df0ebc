"""A validated request into the pipeline, typed events out of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.pipelines import INLINE, launch, toy_settings, until_idle
from tests.support.toy import PIPELINE, SAMPLE_RATE, expected_samples
from voice_omni.client.interface import (
    AudioDelta,
    Done,
    Failed,
    GenerateRequest,
    Message,
    NamedTool,
    Reply,
    ReplyEvent,
    StageTiming,
    TextDelta,
    Tool,
    ToolCall,
    ToolCallDelta,
    Transcript,
    VoiceClient,
)
from voice_omni.client.pipeline import PipelineClient, new_request_id, to_done, to_event, to_omni_request
from voice_omni.pipeline.launcher import Launcher
from voice_omni.pipeline.request import RequestRecord, StageOutput
from voice_omni.proto.errors import OmniError
from voice_omni.proto.messages import StageDone
from voice_omni.proto.payload import OmniRequest

SPEC = replace(PIPELINE, voices=("joe", "amy"), routes={**PIPELINE.routes, "speech_text": ("listen", "think")})
HELLO = (Message("user", "hello"),)


def omni(**fields: Any) -> OmniRequest:
    return to_omni_request(SPEC, GenerateRequest(**fields), "req_1")


def refused(**fields: Any) -> OmniError:
    with pytest.raises(OmniError) as raised:
        omni(**fields)
    return raised.value


# -- in ----------------------------------------------------------------------------------------------------------------


def test_media_and_what_follows_the_sound_go_with_the_messages() -> None:
    seen = Message("user", "look", images=("data:a",), audios=("data:b",), videos=("data:c",))
    request = omni(messages=(seen,), following=(Message("assistant", "yes"),))
    [message] = request.inputs["messages"]
    assert (message["images"], message["audios"], message["videos"]) == (["data:a"], ["data:b"], ["data:c"])
    assert request.inputs["following"] == [{"role": "assistant", "content": "yes"}]


@pytest.mark.parametrize(
    ("given", "wanted", "route"),
    [
        ("speech", "audio", "speech"),
        ("speech", "text", "speech_text"),
        ("speech", "transcript", "transcribe"),
        ("text", "audio", "text"),
        ("text", "text", "text_text"),
        ("speak", "audio", "speak"),
    ],
)
def test_what_goes_in_and_what_comes_out_choose_the_route(given: str, wanted: str, route: str) -> None:
    assert omni(input=given, output=wanted, messages=HELLO, text="hello").route == route


@pytest.mark.parametrize(("given", "wanted"), [("text", "transcript"), ("speak", "text"), ("speak", "transcript")])
def test_what_makes_no_sense_has_no_route(given: str, wanted: str) -> None:
    error = refused(input=given, output=wanted, messages=HELLO, text="hello")
    assert error.code == "unsupported_route"
    assert f"'toy' does not turn {given} into {wanted}" in str(error)


def test_a_route_that_the_pipeline_lacks_is_refused() -> None:
    without = replace(SPEC, routes={"text": SPEC.routes["text"]})
    with pytest.raises(OmniError) as raised:
        to_omni_request(without, GenerateRequest(input="speech"), "req_1")
    assert raised.value.code == "unsupported_route"


def test_an_unknown_voice_names_those_there_are() -> None:
    error = refused(voice="bob")
    assert (error.code, error.info.param) == ("invalid_value", "voice")
    assert "joe, amy" in str(error)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_speaking_needs_a_text(text: str) -> None:
    error = refused(input="speak", text=text)
    assert (error.code, error.info.param) == ("invalid_value", "text")


def test_a_tool_that_must_be_called_has_to_be_there() -> None:
    error = refused(tools=(Tool("light"),), tool_choice=NamedTool("door"))
    assert (error.code, error.info.param) == ("invalid_value", "tool_choice")


def test_the_conversation_travels_in_plain_data() -> None:
    call = ToolCall("call_1", "light", '{"on": true}')
    messages = (
        Message("system", "be brief"),
        Message("user", "look", images=("data:image/png;base64,AA==",)),
        Message("assistant", "", tool_calls=(call,)),
        Message("tool", "done", call_id="call_1"),
    )
    request = omni(messages=messages, tools=(Tool("light", "switches it"),), tool_choice=NamedTool("light"))
    assert request.inputs == {
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "look", "images": ["data:image/png;base64,AA=="]},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"call_id": "call_1", "name": "light", "arguments": '{"on": true}'}],
            },
            {"role": "tool", "content": "done", "call_id": "call_1"},
        ],
        "tools": [{"name": "light", "description": "switches it", "parameters": {}}],
        "tool_choice": {"name": "light"},
    }


def test_only_what_was_asked_for_travels_as_a_parameter() -> None:
    assert omni().params == {}
    asked: dict[str, Any] = {
        "instructions": "be brief",
        "voice": "amy",
        "speed": 1.5,
        "temperature": 0.0,
        "max_output_tokens": 7,
        "seed": 0,
    }
    assert omni(**asked).params == asked


def test_ids_travel_in_the_header() -> None:
    request = omni(session_id="sess_1", utterance_id="utt_1")
    assert (request.request_id, request.session_id, request.utterance_id) == ("req_1", "sess_1", "utt_1")


def test_the_text_to_speak_is_an_input() -> None:
    assert omni(input="speak", text=" hello ").inputs == {"messages": [], "text": " hello "}
    assert "text" not in omni(text="ignored").inputs


def test_every_request_gets_an_id_of_its_own() -> None:
    assert len({new_request_id() for _ in range(100)}) == 100


# -- out ---------------------------------------------------------------------------------------------------------------


def event(**data: Any) -> ReplyEvent | None:
    return to_event(StageOutput("stage", data))


def test_chunks_become_events() -> None:
    assert event(transcript="hel") == Transcript("hel", final=False)
    assert event(transcript="hello", final=True) == Transcript("hello", final=True)
    assert event(text="hi ") == TextDelta("hi ")
    call = {"call": 0, "name": "light", "arguments": "{}", "final": True}
    assert event(tool_call=call) == ToolCallDelta(0, "light", "{}", final=True)


def test_sound_comes_as_float32_with_its_marks() -> None:
    delta = event(audio=np.array([0.5, -0.5], np.float32), marks=[[0, "hi "], [1, "you"]])
    assert isinstance(delta, AudioDelta)
    assert delta.samples.dtype == np.float32
    assert delta.samples.tolist() == [0.5, -0.5]
    assert delta.marks == ((0, "hi "), (1, "you"))
    unmarked = event(audio=np.zeros(3, np.float32))
    assert isinstance(unmarked, AudioDelta)
    assert unmarked.marks == ()


def test_a_chunk_in_no_known_words_says_nothing() -> None:
    assert event(frames=np.zeros((2, 3))) is None


def record(results: dict[str, Any]) -> RequestRecord:
    made = RequestRecord(OmniRequest(request_id="r", route="speech"), ("think",), ("think",), {})
    made.results = results
    return made


def test_the_summary_adds_up_the_tokens_of_all_stages() -> None:
    done = to_done(
        record(
            {
                "listen": {"transcript": "x", "usage": {"input_tokens": 5, "output_tokens": 2}},
                "think": {"text": "y", "finish_reason": "length", "usage": {"output_tokens": 3}},
                "vocode": {"samples": 4},
            }
        )
    )
    assert done == Done("length", input_tokens=5, output_tokens=5)


def test_a_reply_of_which_no_stage_says_why_it_ended_has_stopped() -> None:
    assert to_done(record({"vocode": {"samples": 4}})) == Done("stop")


def test_moments_that_never_came_are_none() -> None:
    made = record({})
    made.done = {"think": StageDone("r", "think", 1.0, 0.0, 0.0, 4.0), "speak": StageDone("r", "speak", 1, 2, 3, 4)}
    assert to_done(made).timings == {
        "think": StageTiming(1.0, None, None, 4.0),
        "speak": StageTiming(1.0, 2.0, 3.0, 4.0),
    }


# -- the whole way -----------------------------------------------------------------------------------------------------


@pytest.fixture
async def pipeline(tmp_path: Path) -> AsyncIterator[Launcher]:
    async with launch(toy_settings(processes=INLINE), tmp_path) as running:
        yield running


def heard(events: list[ReplyEvent]) -> np.ndarray:
    return np.concatenate([event.samples for event in events if isinstance(event, AudioDelta)])


async def test_a_spoken_turn_is_heard_answered_and_summed_up(pipeline: Launcher) -> None:
    client: VoiceClient = PipelineClient(pipeline.spec, pipeline.coordinator, lambda: "req_here")
    assert (client.input_sample_rate, client.output_sample_rate) == (SAMPLE_RATE, SAMPLE_RATE)
    reply: Reply = await client.open(GenerateRequest())
    assert reply.request_id == "req_here"

    async def talk() -> None:
        for _ in range(40):
            await reply.send_audio(np.zeros(160, np.float32))
        await reply.end_audio()

    talking = asyncio.create_task(talk())
    events = [event async for event in reply]
    await talking
    transcripts = [event for event in events if isinstance(event, Transcript)]
    assert transcripts[-1] == Transcript("6400 samples", final=True)
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["6400 ", "samples "]
    assert np.array_equal(heard(events), expected_samples("6400 samples "))
    done = events[-1]
    assert isinstance(done, Done)
    assert set(done.timings) == {"listen", "think", "speak", "vocode"}
    for timing in done.timings.values():
        assert timing.first_output is not None
        assert timing.opened <= timing.first_output <= timing.finished
    assert await until_idle(pipeline) == {}


async def test_a_failure_is_the_last_event(pipeline: Launcher) -> None:
    client = PipelineClient.of(pipeline)
    # Nothing was said: the last message of the toy's thinker has no words to answer.
    reply = await client.open(GenerateRequest(input="text"))
    events = [event async for event in reply]
    assert [type(event) for event in events] == [Failed]
    [failed] = events
    assert isinstance(failed, Failed)
    assert (failed.error.code, failed.error.stage) == ("internal_error", "think")
    assert failed.error.request_id == reply.request_id


async def test_an_aborted_reply_just_ends(pipeline: Launcher) -> None:
    client = PipelineClient.of(pipeline)
    reply = await client.open(GenerateRequest())
    reading = asyncio.create_task(anext(aiter(reply), None))
    await reply.abort()
    assert await reading is None
    await reply.send_audio(np.zeros(160, np.float32))
    await reply.end_audio()
    assert await until_idle(pipeline) == {}


async def test_what_is_refused_is_raised_when_it_opens(pipeline: Launcher) -> None:
    client = PipelineClient.of(pipeline)
    with pytest.raises(OmniError) as raised:
        await client.open(GenerateRequest(voice="nobody"))
    assert raised.value.code == "invalid_value"
