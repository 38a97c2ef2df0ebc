"""The protocol core, event for event: greeting, settings, errors, and the sound that becomes turns."""

from __future__ import annotations

import base64

import pytest

from tests.support.protocol import MANUAL, Script, kinds
from voice_omni.realtime import commands
from voice_omni.realtime.settings import Audio, AudioInput, Session, Transcription

# head


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
