"""The protocol as scripts of events: what a client sends, what it is answered, in order."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.support.protocol import MANUAL, Script, kinds
from voice_omni.client.interface import Message
from voice_omni.proto.errors import ErrorInfo
from voice_omni.realtime import commands
from voice_omni.realtime.settings import Audio, AudioInput, Session, Transcription


def test_a_session_begins_with_its_effective_settings() -> None:
    script = Script()
    assert kinds(script.events) == ["session.created", "conversation.created"]
    session = script.events[0]["session"]
    assert session["object"] == "realtime.session"
    assert session["id"] == "sess_1"
    assert session["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 24000}
    assert session["audio"]["input"]["turn_detection"]["interrupt_response"] is True
    assert session["audio"]["output"]["format"] == {"type": "audio/pcm", "rate": 24000}


def test_every_event_has_an_id_of_its_own() -> None:
    script = Script(MANUAL)
    script.sound(100)
    script.send("input_audio_buffer.commit")
    script.complete(script.answer("Hello."))
    ids = [event["event_id"] for event in script.events]
    assert len(set(ids)) == len(ids)


# Settings


def test_an_update_is_answered_with_the_whole_session() -> None:
    script = Script()
    [event] = script.send("session.update", session={"audio": {"input": {"turn_detection": {"threshold": 0.8}}}})
    assert event["type"] == "session.updated"
    detection = event["session"]["audio"]["input"]["turn_detection"]
    assert (detection["type"], detection["threshold"], detection["silence_duration_ms"]) == ("server_vad", 0.8, 500)


def test_an_unknown_voice_is_refused_and_nothing_changes() -> None:
    script = Script()
    patch = {"instructions": "new", "audio": {"output": {"voice": "nobody"}}}
    error = script.send_error("session.update", session=patch, event_id="mine")
    assert (error["code"], error["param"], error["event_id"]) == ("invalid_value", "session.audio.output.voice", "mine")
    assert script.core.session == Session()


def test_the_voice_is_fixed_once_it_was_heard() -> None:
    script = Script()
    script.send("session.update", session={"audio": {"output": {"voice": "other"}}})
    script.complete(script.answer("Hello."))
    error = script.send_error("session.update", session={"audio": {"output": {"voice": "default"}}})
    assert error["code"] == "cannot_update_voice"
    [event] = script.send("session.update", session={"audio": {"output": {"voice": "other"}}})
    assert event["type"] == "session.updated"


# Errors


@pytest.mark.parametrize("message", ["nonsense", b"\x00\x01", '{"type": "response.destroy"}'])
def test_a_faulty_message_is_one_error_and_the_session_lives(message: str | bytes) -> None:
    script = Script()
    [event] = script.take(script.core.receive(message))
    assert event["type"] == "error"
    assert event["error"]["type"] == "invalid_request_error"
    assert kinds(script.send("session.update", session={})) == ["session.updated"]


# Sound that is committed by hand


def test_a_commit_makes_an_item_and_starts_no_response() -> None:
    script = Script(MANUAL)
    script.sound(100)
    events = script.send("input_audio_buffer.commit")
    assert kinds(events) == ["input_audio_buffer.committed", "conversation.item.added", "conversation.item.done"]
    item_id = events[0]["item_id"]
    assert [event["previous_item_id"] for event in events] == [None] * 3
    assert events[1]["item"] == events[2]["item"] == {
        "id": item_id,
        "object": "realtime.item",
        "type": "message",
        "status": "completed",
        "role": "user",
        "content": [{"type": "input_audio", "transcript": None}],
    }  # fmt: skip
    assert script.commands[-1] == commands.TurnCommitted(item_id)
    assert script.core.responses.active is None


def test_a_commit_of_too_little_says_how_much_there_was() -> None:
    script = Script(MANUAL)
    script.sound(60)
    error = script.send_error("input_audio_buffer.commit", event_id="c1")
    assert (error["code"], error["event_id"]) == ("input_audio_buffer_commit_empty", "c1")
    assert "60.00ms" in error["message"]
    script.sound(40)
    assert kinds(script.send("input_audio_buffer.commit"))[0] == "input_audio_buffer.committed"
    assert script.send_error("input_audio_buffer.commit")["code"] == "input_audio_buffer_commit_empty"


def test_clearing_forgets_the_sound_and_the_half_sample() -> None:
    script = Script(MANUAL)
    script.sound(500)
    script.send("input_audio_buffer.append", audio=base64.b64encode(b"\x01").decode())
    assert kinds(script.send("input_audio_buffer.clear")) == ["input_audio_buffer.cleared"]
    assert script.send_error("input_audio_buffer.commit")["code"] == "input_audio_buffer_commit_empty"
    script.send("input_audio_buffer.append", audio=base64.b64encode(b"\x00\x40").decode())
    last = script.commands[-1]
    assert isinstance(last, commands.AppendAudio)
    assert last.samples.tolist() == [0.5]


def test_uncommitted_sound_is_bounded() -> None:
    script = Script(MANUAL)
    script.sound(1000)
    error = script.send_error("input_audio_buffer.append", audio="AAAA")
    assert error["code"] == "input_audio_buffer_full"
    script.send("input_audio_buffer.commit")
    script.sound(10)
    assert script.events[-1]["type"] != "error"


def test_what_was_listened_to_leaves_room_for_what_is_committed_by_hand() -> None:
    script = Script()
    script.sound(1500)
    script.send("session.update", session={"audio": {"input": {"turn_detection": None}}})
    script.sound(800)
    assert script.events[-1]["type"] == "session.updated"
    assert kinds(script.send("input_audio_buffer.commit"))[0] == "input_audio_buffer.committed"


# Turns that are detected


def test_started_stopped_committed_and_the_item_share_one_id() -> None:
    script = Script()
    events = script.take([*script.core.speech_started(200), *script.core.speech_stopped(1700), *script.core.commit()])
    assert kinds(events) == [
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
    ]
    assert (events[0]["audio_start_ms"], events[1]["audio_end_ms"]) == (200, 1700)
    ids = {events[0]["item_id"], events[1]["item_id"], events[2]["item_id"], events[3]["item"]["id"]}
    assert len(ids) == 1


def test_with_turn_detection_silence_cannot_be_committed() -> None:
    script = Script()
    script.take([*script.core.speech_started(0), *script.core.speech_stopped(1000), *script.core.commit()])
    script.sound(300)
    assert script.send_error("input_audio_buffer.commit")["code"] == "input_audio_buffer_commit_empty"


def test_a_turn_under_way_can_be_committed_by_hand() -> None:
    script = Script()
    [started] = script.take(script.core.speech_started(0))
    events = script.send("input_audio_buffer.commit")
    assert events[0]["item_id"] == started["item_id"]
    assert script.send_error("input_audio_buffer.commit")["code"] == "input_audio_buffer_commit_empty"


def test_a_turn_that_held_no_words_leaves_no_item() -> None:
    script = Script()
    [first] = script.take(script.core.speech_started(0))
    script.take(script.core.speech_stopped(900))
    assert kinds(script.take(script.core.drop_turn())) == ["input_audio_buffer.cleared"]
    assert script.core.conversation.last_id is None
    [second] = script.take(script.core.speech_started(2000))
    assert second["item_id"] != first["item_id"]


def test_asking_for_an_answer_to_a_turn_that_has_just_ended_commits_it_first() -> None:
    script = Script()
    script.take([*script.core.speech_started(0), *script.core.speech_stopped(900)])
    events = script.send("response.create")
    assert kinds(events) == [
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
        "response.created",
    ]
    assert [type(command) for command in script.commands[-2:]] == [commands.TurnCommitted, commands.StartReply]


@pytest.mark.parametrize("asked", [False, True])
def test_transcripts_are_told_to_those_who_asked(asked: bool) -> None:
    transcription = Transcription(model="whisper-1") if asked else None
    script = Script(Session(audio=Audio(input=AudioInput(turn_detection=None, transcription=transcription))))
    script.sound(200)
    item_id = script.send("input_audio_buffer.commit")[0]["item_id"]
    events = script.take(script.core.transcribed(item_id, "Hello there.", 0.2))
    if asked:
        assert kinds(events) == [
            "conversation.item.input_audio_transcription.delta",
            "conversation.item.input_audio_transcription.completed",
        ]
        assert events[1]["transcript"] == "Hello there."
        assert events[1]["usage"] == {"type": "duration", "seconds": 0.2}
    else:
        assert events == []
    [retrieved] = script.send("conversation.item.retrieve", item_id=item_id)
    assert retrieved["item"]["content"] == [{"type": "input_audio", "transcript": "Hello there."}]


# Responses


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


# Items


def _message(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}], **fields}


def test_items_go_where_the_client_puts_them() -> None:
    script = Script()
    script.send("conversation.item.create", item=_message("b", id="b"))
    script.send("conversation.item.create", item=_message("d", id="d"))
    at_root = script.send("conversation.item.create", item=_message("a", id="a"), previous_item_id="root")
    between = script.send("conversation.item.create", item=_message("c", id="c"), previous_item_id="b")
    assert kinds(at_root) == ["conversation.item.added", "conversation.item.done"]
    assert [event["previous_item_id"] for event in at_root] == [None, None]
    assert [event["previous_item_id"] for event in between] == ["b", "b"]
    assert [message.content for message in script.core.conversation.messages()] == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"item": _message("x", id="there")}, "item_already_exists", "item.id"),
        ({"item": _message("x"), "previous_item_id": "gone"}, "item_not_found", "previous_item_id"),
        ({"item": {"type": "message", "role": "user"}}, "missing_required_parameter", "item.content"),
        (
            {"item": {"type": "message", "role": "system", "content": [{"type": "output_text", "text": "x"}]}},
            "invalid_value",
            "item.content[0].type",
        ),
        (
            {"item": {"type": "message", "role": "user", "content": [{"type": "input_text"}]}},
            "missing_required_parameter",
            "item.content[0].text",
        ),
        (
            {"item": {"type": "message", "role": "user", "content": [{"type": "input_audio", "audio": "@"}]}},
            "invalid_value",
            "item.content",
        ),
        ({"item": _message("x", colour="red")}, "unknown_parameter", "item.colour"),
        ({"item": _message("x", id="root")}, "invalid_value", "item.id"),
    ],
)
def test_faulty_items_are_refused_and_leave_no_trace(fields: dict[str, Any], code: str, param: str) -> None:
    script = Script()
    script.send("conversation.item.create", item=_message("y", id="there"))
    error = script.send_error("conversation.item.create", **fields)
    assert (error["code"], error["param"]) == (code, param)
    assert [message.content for message in script.core.conversation.messages()] == ["y"]


def test_a_message_may_be_empty_and_says_nothing() -> None:
    """Clients put back what they were shown, and a message is shown without content when it begins."""
    script = Script()
    [added, _] = script.send("conversation.item.create", item={"type": "message", "role": "assistant", "content": []})
    assert added["item"]["content"] == []
    assert script.core.conversation.messages() == ()


def test_a_clients_item_may_hold_sound() -> None:
    script = Script()
    audio = base64.b64encode(bytes(480)).decode()
    part = {"type": "input_audio", "audio": audio}
    script.send("conversation.item.create", item={"type": "message", "role": "user", "id": "s", "content": [part]})
    [command] = [command for command in script.commands if isinstance(command, commands.ItemAudio)]
    assert (command.item_id, len(command.samples), command.sample_rate) == ("s", 240, 24000)


def test_deleting_and_retrieving() -> None:
    script = Script()
    script.send("conversation.item.create", item=_message("y", id="y"))
    [deleted] = script.send("conversation.item.delete", item_id="y")
    assert (deleted["type"], deleted["item_id"]) == ("conversation.item.deleted", "y")
    assert script.send_error("conversation.item.delete", item_id="y")["code"] == "item_delete_invalid_item_id"
    assert script.send_error("conversation.item.retrieve", item_id="y")["code"] == "item_retrieve_invalid_item_id"


# Truncation: history holds what was heard


def test_truncation_takes_the_unheard_words_out_of_the_item_and_of_history() -> None:
    script = Script()
    script.complete(script.answer("One ", "two ", "three ", "four."))
    item_id = script.core.conversation.last_id
    [event] = script.send("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=1000)
    assert (event["type"], event["item_id"], event["audio_end_ms"]) == ("conversation.item.truncated", item_id, 1000)
    assert script.core.conversation.messages() == (Message("assistant", "One two"),)
    [retrieved] = script.send("conversation.item.retrieve", item_id=item_id)
    assert retrieved["item"]["content"][0]["transcript"] == "One two"


def test_a_response_cancelled_before_any_sound_of_its_words_leaves_no_item() -> None:
    script = Script()
    script.message("Hello?", id="a")
    script.send("response.create")
    response_id = script.response_id
    script.take(script.core.responses.say(response_id, "Never heard"))
    events = script.send("response.cancel")
    assert kinds(events[-4:]) == [
        "response.output_item.done",
        "conversation.item.done",
        "conversation.item.deleted",
        "response.done",
    ]
    assert script.core.conversation.last_id == "a"


def truncate(script: Script, item_id: str, end_ms: int) -> list[dict[str, Any]]:
    return script.send("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=end_ms)


def test_an_answer_of_which_nothing_was_heard_is_removed() -> None:
    script = Script()
    script.message("Hello?", id="a")
    script.complete(script.answer("One ", "two."))
    item_id = script.core.conversation.last_id or ""
    events = truncate(script, item_id, 0)
    assert kinds(events) == ["conversation.item.truncated", "conversation.item.deleted"]
    assert events[1]["item_id"] == item_id
    assert script.core.conversation.messages() == (Message("user", "Hello?"),)
    [added, _] = script.send("conversation.item.create", item=_message("Again.", id="b"))
    assert added["previous_item_id"] == "a"


def test_clients_may_speak_of_a_removed_answer_until_they_have_deleted_it() -> None:
    """They truncate whenever speech begins, retrieve what was truncated, and delete what nobody heard."""
    script = Script()
    script.message("Hello?", id="a")
    script.complete(script.answer("One ", "two."))
    item_id = script.core.conversation.last_id or ""
    truncate(script, item_id, 0)
    [retrieved] = script.send("conversation.item.retrieve", item_id=item_id)
    assert retrieved["item"]["content"] == [{"type": "output_audio", "transcript": ""}]
    assert kinds(truncate(script, item_id, 300)) == ["conversation.item.truncated"]
    [after, _] = script.send("conversation.item.create", item=_message("b", id="b"), previous_item_id=item_id)
    assert after["previous_item_id"] == "a"
    assert kinds(script.send("conversation.item.delete", item_id=item_id)) == ["conversation.item.deleted"]
    assert script.send_error("conversation.item.delete", item_id=item_id)["code"] == "item_delete_invalid_item_id"
    assert [message.content for message in script.core.conversation.messages()] == ["Hello?", "b"]


def test_an_answer_truncated_to_nothing_while_it_is_being_made_is_removed_when_it_ends() -> None:
    script = Script()
    script.answer("One ", "two ")
    item_id = script.core.conversation.last_id or ""
    assert kinds(truncate(script, item_id, 0)) == ["conversation.item.truncated"]
    assert "conversation.item.deleted" in kinds(script.send("response.cancel"))
    assert script.core.conversation.last_id is None


def test_of_a_cancelled_answer_only_the_words_that_were_sent_as_sound_count() -> None:
    script = Script()
    response_id = script.answer("One ", "two ")
    script.take(script.core.responses.say(response_id, "three four"))
    script.send("response.cancel")
    assert script.core.conversation.messages() == (Message("assistant", "One two"),)


def test_the_clients_truncation_beats_the_servers_estimate_in_either_order() -> None:
    for client_first in (False, True):
        script = Script()
        script.complete(script.answer("One ", "two ", "three ", "four."))
        item_id = script.core.conversation.last_id or ""
        if not client_first:
            script.core.heard(item_id, 500)
        script.send("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=1500)
        if client_first:
            script.core.heard(item_id, 500)
        assert script.core.conversation.messages() == (Message("assistant", "One two three"),)


def test_an_answer_can_be_truncated_while_it_is_still_being_made() -> None:
    script = Script()
    response_id = script.answer("One ", "two ")
    item_id = script.core.conversation.last_id
    assert kinds(script.send("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=500)) == [
        "conversation.item.truncated"
    ]
    script.take(script.core.responses.say(response_id, "three"))
    events = script.send("response.cancel")
    assert events[1]["transcript"] == "One"
    assert script.core.conversation.messages() == (Message("assistant", "One"),)


@pytest.mark.parametrize(
    ("item_id", "end_ms", "code"),
    [
        ("gone", 0, "item_truncate_invalid_item_id"),
        ("typed", 0, "item_truncate_invalid_item_id"),
        ("spoken", 1001, "invalid_value"),
    ],
)
def test_what_cannot_be_truncated(item_id: str, end_ms: int, code: str) -> None:
    script = Script()
    script.send("conversation.item.create", item=_message("y", id="typed"))
    script.complete(script.answer("One ", "two."))
    target = script.core.conversation.last_id if item_id == "spoken" else item_id
    error = script.send_error("conversation.item.truncate", item_id=target, content_index=0, audio_end_ms=end_ms)
    assert error["code"] == code
