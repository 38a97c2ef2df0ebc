"""Functions in the thinker's prompt, and calls in its answers, with the real model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.models.starter.thinking import user
from voice_omni.engines.interface import Row, RowOutput
from voice_omni.models.starter.options import ThinkerOptions
from voice_omni.models.starter.think import ThinkerRunner, Thought, build
from voice_omni.models.starter.think_tools import as_text, tooling
from voice_omni.pipeline.spec import StageContext
from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import CLIENT, Data, OmniRequest, StagePayload

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "get_weather", "description": "Get the current weather in a city", "parameters": CITY}
LIGHT = {"name": "set_light", "description": "Turn the light on or off", "parameters": {"type": "object"}}
ASKED = user("What's the weather in Paris?")
CALLED = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"call_id": "c1", "name": "get_weather", "arguments": '{"city": "Paris"}'}],
}
RESULT = {"role": "tool", "content": '{"temperature": 21, "sky": "sunny"}', "call_id": "c1"}


@pytest.fixture(scope="module")
def parts() -> Iterator[tuple[ThinkerRunner, Any]]:
    runner, engine = build(StageContext("thinker", ThinkerOptions(), "cpu", 2))
    engine.start(lambda: None)
    yield runner, engine
    engine.stop()


def request(*messages: Data, tools: list[Data], choice: Any = "auto") -> StagePayload:
    inputs = {"messages": list(messages), "tools": tools, "tool_choice": choice}
    return StagePayload(OmniRequest(request_id="r", route="text_text", inputs=inputs))


def opened(runner: ThinkerRunner, payload: StagePayload) -> tuple[Thought, Row]:
    return runner.open(payload)


def written(runner: ThinkerRunner, payload: StagePayload, text: str, finish: str = "stop") -> tuple[str, list[Data]]:
    """What is said and called if the model goes on with ``text``, token by token."""
    state, _ = runner.open(payload)
    state.detokenizer = _Spelled()  # type: ignore[assignment]
    said, calls = "", []
    for index, character in enumerate(text):
        last = index == len(text) - 1
        outcome = runner.advance(state, RowOutput("r", [ord(character)], finish if last else None))  # type: ignore[arg-type]
        for emit in outcome.emits:
            if "text" in emit.data:
                assert emit.targets is None
                said += emit.data["text"]
            else:
                assert emit.targets == (CLIENT,)
                calls.append(emit.data["tool_call"])
    assert outcome.result is not None
    assert outcome.result["text"] == said
    return said, calls


class _Spelled:
    """Tokens that are characters."""

    def push(self, tokens: tuple[int, ...]) -> str:
        return "".join(map(chr, tokens))

    def finish(self) -> str:
        return ""


def test_a_function_that_must_be_called_is_called_with_arguments(parts: tuple[ThinkerRunner, Any]) -> None:
    runner, engine = parts
    state, row = runner.open(request(ASKED, tools=[WEATHER, LIGHT], choice={"name": "get_weather"}))
    engine.add(row)
    arguments, finals = "", 0
    while any(engine.stats().values()):
        for output in engine.step():
            for emit in runner.advance(state, output).emits:
                if "tool_call" in emit.data:
                    assert emit.data["tool_call"]["name"] == "get_weather"
                    arguments += emit.data["tool_call"]["arguments"]
                    finals += emit.data["tool_call"]["final"]
    assert finals == 1
    assert json.loads(arguments) == {"city": "Paris"}


def test_a_call_goes_to_the_client_and_words_to_the_voice(parts: tuple[ThinkerRunner, Any]) -> None:
    text = 'Let me see.<tool_call>[{"name": "get_weather", "arguments": {"city": "Paris"}}]</tool_call>'
    said, calls = written(parts[0], request(ASKED, tools=[WEATHER]), text)
    assert said == "Let me see."
    assert "".join(call["arguments"] for call in calls) == '{"city": "Paris"}'
    assert {(call["call"], call["name"]) for call in calls} == {(0, "get_weather")}
    assert [call["final"] for call in calls] == [False] * (len(calls) - 1) + [True]


def test_a_long_call_is_not_cut_where_a_sentence_ends(parts: tuple[ThinkerRunner, Any]) -> None:
    arguments = json.dumps({"city": "One. Two. Three. " * 10})
    text = f'<tool_call>[{{"name": "get_weather", "arguments": {arguments}}}]</tool_call>'
    _, calls = written(parts[0], request(ASKED, tools=[WEATHER]), text)
    assert "".join(call["arguments"] for call in calls) == arguments


def test_a_call_of_nothing_known_fails_the_answer(parts: tuple[ThinkerRunner, Any]) -> None:
    with pytest.raises(OmniError) as caught:
        written(parts[0], request(ASKED, tools=[WEATHER]), '<tool_call>[{"name": "fly"}]</tool_call>')
    assert caught.value.code == "invalid_tool_call"


def test_without_functions_markers_are_plain_text(parts: tuple[ThinkerRunner, Any]) -> None:
    for choice, tools in (("none", [WEATHER]), ("auto", [])):
        said, calls = written(parts[0], request(ASKED, tools=tools, choice=choice), "a <tool_call> b")
        assert (said, calls) == ("a <tool_call> b", [])


def answered(parts: tuple[ThinkerRunner, Any], payload: StagePayload) -> str:
    """What the model itself says."""
    runner, engine = parts
    state, row = runner.open(payload)
    engine.add(row)
    text = ""
    while any(engine.stats().values()):
        for output in engine.step():
            outcome = runner.advance(state, output)
            text += "".join(emit.data["text"] for emit in outcome.emits)
            if outcome.result is not None and output.finish is None:
                engine.remove(row.row_id)
                break
    return text


def test_a_result_is_told_in_words(parts: tuple[ThinkerRunner, Any]) -> None:
    assert "sun" in answered(parts, request(ASKED, CALLED, RESULT, tools=[WEATHER])).lower()


@pytest.mark.parametrize(
    ("asked", "name", "arguments", "result"),
    [
        ("What is the weather in Paris?", "get_weather", '{"city":"Paris"}', "sunny, 20 degrees"),
        ("How is the weather?", "get_weather", '{"city":"Oslo"}', '{"temperature_c": -5, "condition": "snow"}'),
        ("Switch on the light.", "set_light", '{"on":true}', '{"ok":true}'),
        ("Switch on the light.", "set_light", '{"on":true}', "done"),
    ],
)
def test_no_markup_is_read_out_with_a_result(
    parts: tuple[ThinkerRunner, Any], asked: str, name: str, arguments: str, result: str
) -> None:
    call = {"call_id": "c1", "name": name, "arguments": arguments}
    called = {"role": "assistant", "content": "", "tool_calls": [call]}
    told = {"role": "tool", "content": result, "call_id": "c1"}
    text = answered(parts, request(user(asked), called, told, tools=[WEATHER, LIGHT]))
    assert text
    assert "<" not in text


@pytest.mark.parametrize(
    ("choice", "tools", "start"),
    [
        ("auto", [WEATHER], ""),
        ("required", [WEATHER], '<tool_call>[{"name": "get_weather", "arguments": {"city":'),
        ("required", [WEATHER, LIGHT], '<tool_call>[{"name": "'),
        ({"name": "set_light"}, [WEATHER, LIGHT], '<tool_call>[{"name": "set_light", "arguments":'),
    ],
)
def test_what_must_be_called_is_begun(choice: Any, tools: list[Data], start: str) -> None:
    plan = tooling({"tools": tools, "tool_choice": choice}, [ASKED])
    assert plan is not None
    assert plan.start == start
    assert all(json.dumps(tool["name"]) in plan.system for tool in tools)


def test_calls_and_results_as_the_model_sees_them() -> None:
    assert as_text(ASKED) == ASKED
    written = '<tool_call>[{"name": "get_weather", "arguments": {"city": "Paris"}}]</tool_call>'
    assert as_text(CALLED) == {"role": "assistant", "content": written}
    result = 'That gave: {"temperature": 21, "sky": "sunny"}. Tell me what it means in one short sentence.'
    assert as_text(RESULT) == {"role": "user", "content": result}
