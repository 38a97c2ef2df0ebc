"""Function tools: what may be declared, the events of a call, and what the model is told of it afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.protocol import RATE, Script, kinds
from voice_omni.client.interface import Message, NamedTool, Tool, ToolCall, ToolCallDelta
from voice_omni.proto.errors import ErrorInfo
from voice_omni.realtime import commands

CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = {"type": "function", "name": "get_weather", "description": "The weather", "parameters": CITY}
LIGHT = {"type": "function", "name": "set_light"}


def calling(script: Script, *pieces: ToolCallDelta, **options: Any) -> list[dict[str, Any]]:
    """Begin a response and let the model call; the events from there on."""
    before = len(script.events)
    script.send("response.create", response=options)
    for piece in pieces:
        script.take(script.core.responses.call(script.response_id, piece))
    return script.events[before:]


def whole(call: int = 0, name: str = "get_weather", arguments: str = '{"city": "Paris"}') -> list[ToolCallDelta]:
    half = len(arguments) // 2
    return [
        ToolCallDelta(call, name, arguments[:half]),
        ToolCallDelta(call, name, arguments[half:]),
        ToolCallDelta(call, name, final=True),
    ]


# Declaring


def test_tools_are_declared_and_echoed() -> None:
    script = Script()
    choice = {"type": "function", "name": "set_light"}
    [event] = script.send("session.update", session={"tools": [WEATHER, LIGHT], "tool_choice": choice})
    assert event["session"]["tools"] == [WEATHER, {**LIGHT, "description": None, "parameters": None}]
    assert event["session"]["tool_choice"] == choice
    prospect = script.core.prospect()
    assert prospect.tools == (Tool("get_weather", "The weather", CITY), Tool("set_light"))
    assert prospect.tool_choice == NamedTool("set_light")


def test_an_empty_list_clears_them_and_a_missing_one_does_not() -> None:
    script = Script()
    script.send("session.update", session={"tools": [WEATHER]})
    script.send("session.update", session={"instructions": "x"})
    assert [tool.name for tool in script.core.session.tools] == ["get_weather"]
    [event] = script.send("session.update", session={"tools": []})
    assert event["session"]["tools"] == []


@pytest.mark.parametrize(
    ("settings", "code", "param"),
    [
        ({"tools": [{"type": "function"}]}, "missing_required_parameter", "tools[0].name"),
        ({"tools": [{**LIGHT, "name": "no spaces"}]}, "invalid_value", "tools[0].name"),
        ({"tools": [{**LIGHT, "name": "x" * 65}]}, "invalid_value", "tools[0].name"),
        ({"tools": [{**LIGHT, "parameters": "x"}]}, "invalid_value", "tools[0].parameters"),
        ({"tools": [{**LIGHT, "colour": "red"}]}, "unknown_parameter", "tools[0].colour"),
        ({"tools": [LIGHT, WEATHER, LIGHT]}, "invalid_value", "tools[2].name"),
        ({"tools": [{"type": "mcp", "server_label": "x"}]}, "invalid_value", "tools[0].type"),
        ({"tools": "x"}, "invalid_value", "tools"),
        ({"tool_choice": "sometimes"}, "invalid_value", "tool_choice"),
        ({"tool_choice": {"type": "function", "name": "gone"}}, "invalid_value", "tool_choice"),
        ({"tool_choice": {"type": "function"}}, "missing_required_parameter", "tool_choice.name"),
    ],
)
def test_faulty_tools_are_named_in_sessions_and_responses(settings: dict[str, Any], code: str, param: str) -> None:
    script = Script()
    error = script.send_error("session.update", session=settings)
    assert (error["code"], error["param"]) == (code, f"session.{param}")
    error = script.send_error("response.create", response=settings)
    assert (error["code"], error["param"]) == (code, f"response.{param}")
    assert script.core.session.tools == ()


def test_a_response_may_have_tools_of_its_own() -> None:
    script = Script()
    script.send("session.update", session={"tools": [WEATHER]})
    script.send("response.create", response={"tools": [LIGHT], "tool_choice": "required"})
    response = script.core.responses.get(script.response_id)
    assert response is not None
    assert (response.settings.tools, response.settings.tool_choice) == ((Tool("set_light"),), "required")


# Calling


@pytest.mark.parametrize("modality", ["audio", "text"])
def test_a_call_in_order(modality: str) -> None:
    script = Script()
    script.message("What is the weather in Paris?", id="asked")
    events = calling(script, *whole(), output_modalities=[modality])
    events += script.complete(script.response_id)
    assert kinds(events) == [
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
    ]
    added, item_added, delta, _, done, item_done, conversation_done, response_done = events[1:]
    item = item_done["item"]
    assert added["item"] == {**item, "status": "in_progress", "arguments": ""}
    assert item["type"] == "function_call"
    assert (item["name"], item["arguments"]) == ("get_weather", '{"city": "Paris"}')
    assert len(item["call_id"]) <= 32
    assert item_added["previous_item_id"] == conversation_done["previous_item_id"] == "asked"
    assert {event["call_id"] for event in (delta, done)} == {item["call_id"]}
    assert {event["item_id"] for event in (delta, done)} == {item["id"]}
    assert (done["name"], done["arguments"]) == (item["name"], item["arguments"])
    assert item["status"] == "completed"
    assert response_done["response"]["output"] == [item]
    assert response_done["response"]["usage"]["output_token_details"] == {"text_tokens": 7, "audio_tokens": 0}


def test_calls_beside_each_other_are_items_of_their_own() -> None:
    script = Script()
    pieces = [piece for pair in zip(whole(0), whole(1, "set_light", "{}"), strict=True) for piece in pair]
    calling(script, *pieces)
    response = script.complete(script.response_id)[-1]["response"]
    assert [item["name"] for item in response["output"]] == ["get_weather", "set_light"]
    places = {
        (event["item"]["id"], event["output_index"])
        for event in script.events
        if "output_index" in event and "item" in event
    }
    assert places == {(item["id"], index) for index, item in enumerate(response["output"])}
    assert len({item["call_id"] for item in response["output"]}) == 2


def test_a_call_waits_for_the_sound_of_the_words_before_it() -> None:
    script = Script()
    script.send("response.create")
    response_id, responses = script.response_id, script.core.responses
    script.take(responses.say(response_id, "One moment."))
    for piece in whole():
        assert script.take(responses.call(response_id, piece)) == []
    script.take(responses.speak(response_id, bytes(RATE), RATE // 2, ((0, "One moment."),)))
    events = script.complete(response_id)
    assert kinds(events) == [
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.output_item.added",
        "conversation.item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
    ]
    message, call = events[-1]["response"]["output"]
    assert (message["type"], message["status"], call["type"]) == ("message", "completed", "function_call")
    assert events[6]["previous_item_id"] == message["id"]


def test_written_words_end_where_a_call_begins_and_may_go_on_after_it() -> None:
    script = Script()
    script.send("response.create", response={"output_modalities": ["text"]})
    response_id, responses = script.response_id, script.core.responses
    script.take(responses.say(response_id, "One moment."))
    events = script.take(responses.call(response_id, whole()[0]))
    assert kinds(events)[:4] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
    ]
    for piece in whole()[1:]:
        script.take(responses.call(response_id, piece))
    script.take(responses.say(response_id, "Done."))
    output = script.complete(response_id)[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["message", "function_call", "message"]
    assert {item["status"] for item in output} == {"completed"}


@pytest.mark.parametrize("end", ["cancelled", "failed", "incomplete"])
def test_a_call_that_was_not_finished_is_never_declared_done(end: str) -> None:
    script = Script()
    calling(script, *whole(0), *whole(1)[:1])
    response_id, responses = script.response_id, script.core.responses
    if end == "cancelled":
        events = script.send("response.cancel")
    elif end == "failed":
        events = script.take(responses.fail(response_id, ErrorInfo("invalid_tool_call", "it makes no sense")))
    else:
        events = script.take(responses.complete(response_id, "length", (1, 1), spoken_input=False))
    assert kinds(events) == ["response.output_item.done", "conversation.item.done", "response.done"]
    response = events[-1]["response"]
    assert response["status"] == end
    assert [item["status"] for item in response["output"]] == ["completed", "incomplete"]
    assert len(script.core.conversation.messages()[0].tool_calls) == 1


def test_a_call_held_back_behind_words_is_not_told_once_they_were_interrupted() -> None:
    script = Script()
    response_id = script.answer("One moment.")
    for piece in whole():
        script.take(script.core.responses.call(response_id, piece))
    output = script.send("response.cancel")[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["message"]


def test_a_call_beside_the_conversation_stays_out_of_it() -> None:
    script = Script()
    events = calling(script, *whole(), conversation="none", input=[])
    assert not [event for event in events if event["type"].startswith("conversation.")]
    assert script.core.conversation.last_id is None


# What the model is told


def result(call_id: str, output: str = "sunny", **fields: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": output, **fields}


def test_a_result_and_the_next_response() -> None:
    script = Script()
    script.message("What is the weather?")
    calling(script, *whole())
    [call] = script.complete(script.response_id)[-1]["response"]["output"]
    added, done = script.send("conversation.item.create", item=result(call["call_id"]))
    assert (added["type"], done["type"]) == ("conversation.item.added", "conversation.item.done")
    assert added["previous_item_id"] == call["id"]
    script.send("response.create")
    assert script.commands[-1] == commands.StartReply(script.response_id, None)
    assert script.core.conversation.messages() == (
        Message("user", "What is the weather?"),
        Message("assistant", "", (ToolCall(call["call_id"], "get_weather", '{"city": "Paris"}'),)),
        Message("tool", "sunny", call_id=call["call_id"]),
    )


def test_calls_that_were_made_together_are_one_message() -> None:
    script = Script()
    for number in range(2):
        item = {"type": "function_call", "call_id": f"c{number}", "name": "f", "arguments": "{}", "id": f"i{number}"}
        script.send("conversation.item.create", item=item)
    script.send("conversation.item.create", item=result("c0"))
    script.send("conversation.item.create", item=result("c1"))
    called, *results = script.core.conversation.messages()
    assert [call.call_id for call in called.tool_calls] == ["c0", "c1"]
    assert [message.call_id for message in results] == ["c0", "c1"]


def test_a_client_that_comes_back_replays_calls_and_results_in_their_place() -> None:
    script = Script()
    script.message("Weather?", id="a")
    script.message("Thanks.", id="b")
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "id": "f", "status": "completed"}
    [added, _] = script.send("conversation.item.create", item=call, previous_item_id="a")
    script.send("conversation.item.create", item=result("c", id="o"), previous_item_id="f")
    assert added["previous_item_id"] == "a"
    assert added["item"] == {**call, "object": "realtime.item"}
    assert [message.role for message in script.core.conversation.messages()] == ["user", "assistant", "tool", "user"]
    [retrieved] = script.send("conversation.item.retrieve", item_id="o")
    assert retrieved["item"]["output"] == "sunny"
    assert script.send("conversation.item.delete", item_id="f")[0]["type"] == "conversation.item.deleted"


def test_a_result_of_a_call_that_the_conversation_does_not_hold_is_refused() -> None:
    script = Script()
    error = script.send_error("conversation.item.create", item=result("nowhere"), event_id="e")
    assert (error["code"], error["param"], error["event_id"]) == ("invalid_tool_call_id", "item.call_id", "e")
    assert script.core.conversation.last_id is None


def test_a_result_in_a_responses_input_follows_its_call_there() -> None:
    script = Script()
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "id": "f"}
    script.send("conversation.item.create", item=call)
    error = script.send_error("response.create", response={"input": [result("c")]})
    assert (error["code"], error["param"]) == ("invalid_tool_call_id", "response.input[0].call_id")
    script.send("response.create", response={"input": [{"type": "item_reference", "id": "f"}, result("c")]})
    started = script.commands[-1]
    assert isinstance(started, commands.StartReply)
    assert [message.role for message in started.messages or ()] == ["assistant", "tool"]


@pytest.mark.parametrize("setting", ["session", "response"])
def test_without_parallel_calls_only_the_first_is_made(setting: str) -> None:
    script = Script()
    script.send("session.update", session={"parallel_tool_calls": setting == "response"})
    script.send("response.create", response={"parallel_tool_calls": False} if setting == "response" else {})
    for delta in (
        ToolCallDelta(0, "f", "{}", final=True),
        ToolCallDelta(1, "g", "{"),
        ToolCallDelta(1, "g", "}", final=True),
    ):
        script.take(script.core.responses.call(script.response_id, delta))
    response = script.complete(script.response_id)[-1]["response"]
    assert [(item["name"], item["status"]) for item in response["output"]] == [("f", "completed")]


@pytest.mark.parametrize(
    ("item", "code", "param"),
    [
        ({"type": "function_call", "name": "f"}, "missing_required_parameter", "item.arguments"),
        ({"type": "function_call", "arguments": "{}"}, "missing_required_parameter", "item.name"),
        ({"type": "function_call", "name": "f", "arguments": {}}, "invalid_value", "item.arguments"),
        ({"type": "function_call_output", "output": "x"}, "missing_required_parameter", "item.call_id"),
        ({"type": "function_call_output", "call_id": "c"}, "missing_required_parameter", "item.output"),
        ({"type": "function_call_output", "call_id": "c", "output": 3}, "invalid_value", "item.output"),
        ({"type": "mcp_call"}, "invalid_value", "item.type"),
    ],
)
def test_faulty_calls_and_results(item: dict[str, Any], code: str, param: str) -> None:
    script = Script()
    error = script.send_error("conversation.item.create", item=item, event_id="e")
    assert (error["code"], error["param"], error["event_id"]) == (code, param, "e")
    assert script.core.conversation.last_id is None


def test_a_call_cannot_be_truncated() -> None:
    script = Script()
    calling(script, *whole())
    item_id = script.core.conversation.last_id
    error = script.send_error("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=0)
    assert error["code"] == "item_truncate_invalid_item_id"
