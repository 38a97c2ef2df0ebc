"""What the contract knows and this server takes only in part: images, prompts, rates, playback, binary frames."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest

from tests.support.protocol import MANUAL, Script, kinds
from voice_omni.client.interface import Message
from voice_omni.realtime import commands
from voice_omni.realtime.settings import EXTENDED_RATES, Session
from voice_omni.realtime.transcription_session import transcribing

PICTURE = "data:image/png;base64," + base64.b64encode(b"\x89PNG").decode()


def picture(url: Any = PICTURE, **fields: Any) -> dict[str, Any]:
    content = [{"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": url, **fields}]
    return {"type": "message", "role": "user", "content": content}


def test_images_are_refused_where_the_model_takes_none() -> None:
    script = Script()
    error = script.send_error("conversation.item.create", item=picture(), event_id="e")
    assert (error["code"], error["param"]) == ("unsupported_content_type", "item.content[1].type")
    error = script.send_error("response.create", response={"input": [picture()]})
    assert (error["code"], error["param"]) == ("unsupported_content_type", "response.input[0].content[1].type")
    assert script.core.conversation.last_id is None


def test_images_reach_a_model_that_takes_them() -> None:
    script = Script(images=True)
    [added, _] = script.send("conversation.item.create", item=picture(detail="high"))
    assert added["item"]["content"][1] == {"type": "input_image", "image_url": PICTURE}
    assert script.core.conversation.messages() == (Message("user", "What is this?", images=(PICTURE,)),)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        (None, "missing_required_parameter"),
        ("https://example.com/a.png", "invalid_value"),
        ("data:image/gif;base64,AAAA", "invalid_value"),
        ("data:image/png;base64,@@", "invalid_value"),
        (3, "invalid_value"),
    ],
)
def test_images_are_data_uris(url: Any, code: str) -> None:
    error = Script(images=True).send_error("conversation.item.create", item=picture(url))
    assert (error["code"], error["param"]) == (code, "item.content[1].image_url")


@pytest.mark.parametrize(
    "settings",
    [
        {"truncation": "disabled"},
        {"truncation": {"type": "retention_ratio", "retention_ratio": 0.8, "token_limits": {"post_instructions": 500}}},
        {"tracing": "auto"},
        {"tracing": {"workflow_name": "w", "group_id": "g", "metadata": {"a": "b"}}},
        {"parallel_tool_calls": False},
        {"reasoning": {"effort": "low"}},
        {"reasoning": {"effort": "xhigh"}},
        {"max_output_tokens": 17},
        {"prompt": None},
    ],
)
def test_settings_that_are_kept_and_echoed(settings: dict[str, Any]) -> None:
    [event] = Script().send("session.update", session=settings)
    [(name, value)] = settings.items()
    assert event["session"][name] == value


@pytest.mark.parametrize("asked", [["item.input_audio_transcription.logprobs"], [], None])
@pytest.mark.parametrize("session", [Session(), transcribing(Session())], ids=lambda session: session.type)
def test_log_probabilities_may_be_asked_for_and_are_not_promised(session: Session, asked: list[str] | None) -> None:
    [event] = Script(session).send("session.update", session={"include": asked})
    assert event["session"]["include"] is None


@pytest.mark.parametrize(
    ("settings", "param"),
    [
        ({"truncation": "sometimes"}, "truncation"),
        ({"truncation": {"type": "retention_ratio", "retention_ratio": 2}}, "truncation.retention_ratio"),
        ({"tracing": {"colour": "red"}}, "tracing.colour"),
        ({"tracing": "always"}, "tracing"),
        ({"include": ["everything"]}, "include[0]"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt.id"),
        ({"prompt": {"version": "1"}}, "prompt.id"),
        ({"reasoning": {"effort": "heroic"}}, "reasoning.effort"),
        ({"max_output_tokens": "lots"}, "max_output_tokens"),
        ({"audio": {"output": {"speed": 0.2}}}, "audio.output.speed"),
    ],
)
def test_faulty_settings_are_named_and_change_nothing(settings: dict[str, Any], param: str) -> None:
    script = Script()
    before = script.core.session
    error = script.send_error("session.update", session={"instructions": "x", **settings})
    assert error["param"] == f"session.{param}"
    assert script.core.session == before


def test_a_stored_prompt_is_an_unknown_one_in_a_response_too() -> None:
    error = Script().send_error("response.create", response={"prompt": {"id": "pmpt_1"}})
    assert (error["code"], error["param"]) == ("invalid_value", "response.prompt.id")


def test_speed_changes_between_turns_only() -> None:
    script = Script()
    patch = {"audio": {"output": {"speed": 1.25}}}
    response_id = script.answer("Hello.")
    assert script.send_error("session.update", session=patch)["param"] == "session.audio.output.speed"
    script.complete(response_id)
    assert kinds(script.send("session.update", session=patch)) == ["session.updated"]
    assert script.core.prospect().speed == 1.25


def test_an_empty_conversation_can_be_answered() -> None:
    script = Script()
    assert kinds(script.send("response.create")) == ["response.created"]
    assert script.core.conversation.messages() == ()


@pytest.mark.parametrize("rate", sorted(EXTENDED_RATES))
def test_other_rates_have_to_be_asked_for(rate: int) -> None:
    patch = {"audio": {side: {"format": {"type": "audio/pcm", "rate": rate}} for side in ("input", "output")}}
    if rate != 24000:
        error = Script().send_error("session.update", session=patch)
        assert (error["code"], error["param"]) == ("invalid_value", "session.audio.input.format.rate")
        options = {"audio": {"output": {"format": {"type": "audio/pcm", "rate": rate}}}}
        assert Script().send_error("response.create", response=options)["code"] == "invalid_value"
    script = Script(MANUAL, pcm_rates=EXTENDED_RATES)
    # No stock client knows the extension, so its types are not asked about this answer.
    updated, *_ = script.core.receive(json.dumps({"type": "session.update", "session": patch}))
    assert isinstance(updated, dict)
    assert updated["session"]["audio"]["input"]["format"]["rate"] == rate
    script.send("input_audio_buffer.append", audio=base64.b64encode(bytes(2 * rate // 10)).decode())
    appended = script.commands[-1]
    assert isinstance(appended, commands.AppendAudio)
    assert (len(appended.samples), appended.sample_rate) == (rate // 10, rate)
    assert kinds(script.send("input_audio_buffer.commit"))[0] == "input_audio_buffer.committed"


def test_no_other_rate_exists() -> None:
    patch = {"audio": {"input": {"format": {"type": "audio/pcm", "rate": 11025}}}}
    error = Script(pcm_rates=EXTENDED_RATES).send_error("session.update", session=patch)
    assert (error["code"], error["param"]) == ("invalid_value", "session.audio.input.format.rate")


def test_binary_frames_are_sound_if_asked_for() -> None:
    script = Script(MANUAL, binary_audio=True)
    for frame in (b"\x00", b"\x40\x00", b"\x40", b""):
        assert script.take(script.core.receive(frame)) == []
    sound = [each for each in script.commands if isinstance(each, commands.AppendAudio)]
    assert [each.samples.tolist() for each in sound] == [[0.5], [0.5]]


def test_binary_frames_are_bounded_like_any_sound() -> None:
    script = Script(MANUAL, binary_audio=True)
    script.take(script.core.receive(bytes(48_000)))
    [event] = script.take(script.core.receive(bytes(2)))
    assert event["error"]["code"] == "input_audio_buffer_full"


def test_a_track_is_never_refused_and_the_oldest_of_its_sound_gives_way() -> None:
    script = Script(MANUAL)
    frame = np.zeros(480, np.float32)
    for _ in range(120):
        assert script.take(script.core.sound(frame, 24_000)) == []
    sound = [command for command in script.commands if isinstance(command, commands.AppendAudio)]
    assert len(sound) == 120
    # The bound is one second: it is reached after 50 frames, and then after every 25.
    kept = [at for at, command in enumerate(script.commands) if isinstance(command, commands.KeepLatest)]
    assert [at - number for number, at in enumerate(kept)] == [50, 75, 100]
    assert {script.commands[at] for at in kept} == {commands.KeepLatest(500)}
    assert kinds(script.send("input_audio_buffer.commit"))[0] == "input_audio_buffer.committed"


def test_sound_from_a_track_counts_in_its_own_rate() -> None:
    script = Script(MANUAL)
    script.take(script.core.sound(np.zeros(16_000 // 20, np.float32), 16_000))
    assert "only has 50.00ms" in script.send_error("input_audio_buffer.commit")["message"]
    script.take(script.core.sound(np.zeros(16_000 // 20, np.float32), 16_000))
    assert script.send("input_audio_buffer.commit")[0]["type"] == "input_audio_buffer.committed"


def test_playback_is_cleared_where_the_server_plays() -> None:
    error = Script().send_error("output_audio_buffer.clear", event_id="e")
    assert (error["code"], error["event_id"]) == ("invalid_event", "e")
    script = Script(owns_playback=True)
    response_id = script.answer("One ", "two.")
    script.complete(response_id)
    assert script.send("output_audio_buffer.clear") == []
    assert script.commands[-1] == commands.StopPlayback()
    [event] = script.take(script.core.playback("cleared", response_id))
    assert (event["type"], event["response_id"]) == ("output_audio_buffer.cleared", response_id)
    item_id = script.core.conversation.last_id or ""
    [event] = script.take(script.core.heard(item_id, 500.7))
    assert (event["type"], event["item_id"]) == ("conversation.item.truncated", item_id)
    assert (event["content_index"], event["audio_end_ms"]) == (0, 500)
    assert script.core.conversation.messages() == (Message("assistant", "One"),)
    [retrieved] = script.send("conversation.item.retrieve", item_id=item_id)
    assert retrieved["item"]["content"] == [{"type": "output_audio", "transcript": "One"}]


def test_where_the_server_plays_it_removes_what_nobody_heard() -> None:
    script = Script(owns_playback=True)
    script.complete(script.answer("One ", "two."))
    events = script.take(script.core.heard(script.core.conversation.last_id or "", 0.0))
    assert [event["type"] for event in events] == [
        "conversation.item.truncated",
        "conversation.item.deleted",
    ]
    assert script.core.conversation.last_id is None


def test_newer_settings_of_the_sound_are_kept_and_shown_to_those_who_set_them() -> None:
    script = Script()
    transcription = {
        "model": "gpt-live-transcribe",
        "language": "en",
        "prompt": "names",
        "delay": "low",
        "keywords": ["Paris"],
        "languages": ["en", "fr"],
    }
    noise = {"type": "near_field", "strength": 0.5}
    [event] = script.send(
        "session.update", session={"audio": {"input": {"transcription": transcription, "noise_reduction": noise}}}
    )
    shown = event["session"]["audio"]["input"]
    assert (shown["transcription"], shown["noise_reduction"]) == (transcription, noise)
    plain = {"audio": {"input": {"transcription": {"model": "whisper-1"}}}}
    [event] = Script().send("session.update", session=plain)
    assert event["session"]["audio"]["input"]["transcription"].keys() == {"model", "language", "prompt"}


def test_another_kind_of_noise_reduction_keeps_its_strength() -> None:
    script = Script()
    for change in ({"type": "near_field", "strength": 0.5}, {"type": "far_field"}):
        [event] = script.send("session.update", session={"audio": {"input": {"noise_reduction": change}}})
    assert event["session"]["audio"]["input"]["noise_reduction"] == {"type": "far_field", "strength": 0.5}


@pytest.mark.parametrize(
    ("name", "setting", "param"),
    [
        ("transcription", {"delay": "some"}, "transcription.delay"),
        ("transcription", {"keywords": "Paris"}, "transcription.keywords"),
        ("transcription", {"languages": [1]}, "transcription.languages[0]"),
        ("noise_reduction", {"strength": -1}, "noise_reduction.strength"),
        ("noise_reduction", {"type": "underwater"}, "noise_reduction.type"),
    ],
)
def test_faulty_settings_of_the_sound_are_named(name: str, setting: dict[str, Any], param: str) -> None:
    error = Script().send_error("session.update", session={"audio": {"input": {name: setting}}})
    assert (error["code"], error["param"]) == ("invalid_value", f"session.audio.input.{param}")


def test_an_item_holds_only_so_much_sound() -> None:
    script = Script()  # a second
    part = {"type": "input_audio", "audio": base64.b64encode(bytes(2 * 24_001)).decode()}
    item = {"type": "message", "role": "user", "content": [part]}
    error = script.send_error("conversation.item.create", item=item, event_id="e")
    assert (error["code"], error["param"], error["event_id"]) == ("invalid_value", "item.content", "e")
    assert script.core.conversation.last_id is None


def test_another_format_does_not_lose_what_waits_for_its_commit() -> None:
    script = Script(MANUAL)
    script.sound(200)
    script.send("session.update", session={"audio": {"input": {"format": {"type": "audio/pcmu"}}}})
    assert script.send("input_audio_buffer.commit")[0]["type"] == "input_audio_buffer.committed"


def test_turn_detection_that_is_switched_off_and_on_again_forgets_the_turn_under_way() -> None:
    script = Script()
    script.take(script.core.speech_started(0))
    script.send("session.update", session={"audio": {"input": {"turn_detection": None}}})
    events = script.send("session.update", session={"audio": {"input": {"turn_detection": {"type": "server_vad"}}}})
    assert [event["type"] for event in events] == ["session.updated", "input_audio_buffer.cleared"]
    assert script.send_error("input_audio_buffer.commit")["code"] == "input_audio_buffer_commit_empty"
