"""Responses, event for event."""

from __future__ import annotations

from tests.support.protocol import MANUAL, Script, kinds
from voice_omni.client.interface import Message
from voice_omni.proto.errors import ErrorInfo
from voice_omni.realtime import commands


def test_a_spoken_answer_in_order() -> None:
    script = Script(MANUAL)
    script.sound(100)
    user = script.send("input_audio_buffer.commit")[0]["item_id"]
    before = len(script.events)
    script.complete(script.answer("Hello ", "there."))
    events = script.events[before:]
    assert kinds(events) == [
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_audio_transcript.delta",
        "response.output_audio.delta",
        "response.output_audio_transcript.delta",
        "response.output_audio.delta",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
    ]
    added, done = events[1], events[-3]
    assert (added["item"]["status"], added["item"]["content"]) == ("in_progress", [])
    assert done["item"]["status"] == "completed"
    assert done["item"]["content"] == [{"type": "output_audio", "transcript": "Hello there."}]
    assert events[2]["previous_item_id"] == events[-2]["previous_item_id"] == user
    assert events[3]["part"]["type"] == "audio"
    response = events[-1]["response"]
    assert response["status"] == "completed"
    assert response["output"] == [done["item"]]
    assert response["conversation_id"] == "conv_1"
    usage = response["usage"]
    assert (usage["total_tokens"], usage["input_tokens"], usage["output_tokens"]) == (12, 5, 7)
    assert usage["input_token_details"]["text_tokens"] == 5
    assert usage["output_token_details"] == {"text_tokens": 0, "audio_tokens": 7}


def test_a_written_answer_in_order() -> None:
    script = Script()
    script.send("response.create", response={"output_modalities": ["text"]})
    before = len(script.events)
    response_id = script.response_id
    script.take(script.core.responses.say(response_id, "Hello"))
    events = [*script.events[before:], *script.complete(response_id)]
    assert kinds(events) == [
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
    ]
    assert events[2]["part"] == {"type": "text", "text": ""}
    assert events[-1]["response"]["output"][0]["content"] == [{"type": "output_text", "text": "Hello"}]
    assert events[-1]["response"]["output_modalities"] == ["text"]


def test_a_second_response_is_refused_at_once_with_its_event_id() -> None:
    script = Script()
    script.answer("Hello.")
    error = script.send_error("response.create", event_id="second")
    assert (error["code"], error["event_id"]) == ("conversation_already_has_active_response", "second")


def test_cancelling_ends_what_was_begun() -> None:
    script = Script()
    response_id = script.answer("Hello ")
    events = script.send("response.cancel")
    assert kinds(events) == [
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
        "conversation.item.done",
        "response.done",
    ]
    assert events[3]["item"]["status"] == "incomplete"
    response = events[-1]["response"]
    assert response["status"] == "cancelled"
    assert response["status_details"] == {"type": "cancelled", "reason": "client_cancelled"}
    assert response["usage"]["total_tokens"] == 0
    assert script.commands[-1] == commands.CancelReply(response_id)


def test_a_response_that_is_done_says_nothing_more() -> None:
    script = Script()
    response_id = script.answer("Hello ")
    script.send("response.cancel")
    assert script.core.responses.say(response_id, "there") == []
    assert script.core.responses.speak(response_id, b"\0\0", 1, ()) == []
    assert script.core.responses.complete(response_id, "stop", (0, 0), spoken_input=False) == []
    assert script.core.responses.fail(response_id, ErrorInfo("stage_died", "x")) == []
    assert kinds(script.events).count("response.done") == 1


def test_a_response_can_be_created_right_after_a_cancellation() -> None:
    script = Script()
    script.answer("Hello.")
    script.send("response.cancel")
    assert kinds(script.send("response.create")) == ["response.created"]


def test_cancelling_nothing_is_an_error_that_clients_know() -> None:
    error = Script().send_error("response.cancel", event_id="c")
    assert error["code"] == "response_cancel_not_active"
    assert error["message"].startswith("Cancellation failed")


def test_a_response_cancelled_before_it_said_anything_leaves_no_item() -> None:
    script = Script()
    script.send("response.create")
    [done] = script.send("response.cancel")
    assert done["response"]["output"] == []
    assert script.core.conversation.last_id is None


def test_a_failed_response_tells_why() -> None:
    script = Script()
    response_id = script.answer("Hel")
    events = script.take(
        script.core.responses.fail(response_id, ErrorInfo("stage_died", "the talker died", retryable=True))
    )
    response = events[-1]["response"]
    assert response["status"] == "failed"
    assert response["status_details"]["error"]["code"] == "stage_died"
    assert response["output"][0]["status"] == "incomplete"
    assert script.core.responses.active is None


def test_the_token_limit_makes_a_response_incomplete() -> None:
    script = Script()
    response_id = script.answer("Hello")
    events = script.take(script.core.responses.complete(response_id, "length", (1, 1), spoken_input=True))
    response = events[-1]["response"]
    assert response["status"] == "incomplete"
    assert response["status_details"] == {"type": "incomplete", "reason": "max_output_tokens"}


def test_metadata_is_echoed_in_every_response_object() -> None:
    script = Script()
    [created] = script.send("response.create", response={"metadata": {"client_event_id": "x"}})
    [done] = script.send("response.cancel")
    assert created["response"]["metadata"] == done["response"]["metadata"] == {"client_event_id": "x"}


def test_an_answer_beside_the_conversation_runs_beside_it_and_stays_out_of_it() -> None:
    script = Script()
    active = script.answer("Hello.")
    options = {"conversation": "none", "input": [], "output_modalities": ["text"]}
    [created] = script.send("response.create", response=options)
    assert created["response"]["conversation_id"] is None
    beside = script.response_id
    assert script.commands[-1] == commands.StartReply(beside, ())
    events = [*script.take(script.core.responses.say(beside, "Aside.")), *script.complete(beside)]
    assert not [event for event in events if event["type"].startswith("conversation.")]
    assert script.core.responses.active is not None
    assert script.core.responses.active.id == active


def test_input_replaces_the_conversation() -> None:
    script = Script()
    message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "One."}]}
    item_id = script.send("conversation.item.create", item=message)[0]["item"]["id"]
    other = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Two."}]}
    script.send("response.create", response={"input": [{"type": "item_reference", "id": item_id}, other]})
    assert script.commands[-1] == commands.StartReply("resp_1", (Message("user", "One."), Message("user", "Two.")))
    error = script.send_error(
        "response.create", response={"conversation": "none", "input": [{"type": "item_reference"}]}
    )
    assert error["code"] == "item_not_found"
