"""A conversation as the client of ``talk`` follows it, event by event."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from voice_omni.audio.pcm import Samples, encode_pcm16
from voice_omni.cli.turns import Conversation, Happening, Interrupted, Sound, Trouble, Words

FRAME = 480


class Call:
    """Feeds a conversation at given moments; the person's sound began at second 0."""

    def __init__(self) -> None:
        self.conversation = Conversation()
        self._frames = 0

    def speak(self, seconds: float, level: float = 0.3) -> None:
        for _ in range(round(seconds * 50)):
            self._frames += 1
            frame: Samples = np.full(FRAME, level, np.float32)
            self.conversation.sent(frame, self._frames * 0.02)

    def hear(self, now: float, kind: str, **fields: Any) -> list[Happening]:
        return self.conversation.received({"type": kind, **fields}, now)

    def hear_sound(self, now: float, seconds: float, response: str = "r1", item: str = "i1") -> list[Happening]:
        samples: Samples = np.full(round(seconds * 24_000), 0.5, np.float32)
        delta = base64.b64encode(encode_pcm16(samples)).decode()
        return self.hear(now, "response.output_audio.delta", response_id=response, item_id=item, delta=delta)

    def hear_done(self, now: float, status: str = "completed", response: str = "r1", **fields: Any) -> None:
        self.hear(now, "response.done", response={"id": response, "status": status, **fields})

    def one_turn(self) -> None:
        """Half a second of quiet, a second of speech, and an answer of two seconds."""
        self.speak(0.5, level=0.0)
        self.speak(1.0)
        self.hear(1.0, "input_audio_buffer.speech_started", item_id="u1")
        self.speak(0.4, level=0.0)
        self.hear(1.9, "input_audio_buffer.speech_stopped", item_id="u1")
        self.hear(1.91, "response.created", response={"id": "r1"})
        self.hear_sound(2.0, 2.0)


def test_moments_of_a_turn_are_kept_and_the_end_of_speech_is_found() -> None:
    call = Call()
    call.one_turn()
    call.hear_done(2.2, timings={"encoder": {}})
    [turn] = call.conversation.turns
    assert turn.speech_end == pytest.approx(1.5)
    assert (turn.decided, turn.created, turn.first_audio) == (1.9, 1.91, 2.0)
    assert turn.first_audible == pytest.approx(2.0)
    assert turn.status == "completed"
    assert turn.timings == {"encoder": {}}
    assert call.conversation.answered


def test_a_call_is_settled_when_the_answer_has_been_played() -> None:
    call = Call()
    assert not call.conversation.settled(0.0)
    call.one_turn()
    assert not call.conversation.settled(10.0), "the answer is not complete"
    call.hear_done(2.2)
    assert not call.conversation.settled(3.9), "the answer still plays"
    assert call.conversation.settled(4.1)


def test_a_call_is_not_settled_while_the_person_speaks_again() -> None:
    call = Call()
    call.one_turn()
    call.hear_done(2.2)
    call.hear(5.0, "input_audio_buffer.speech_started", item_id="u2")
    assert not call.conversation.settled(6.0)


def test_a_turn_that_gets_no_answer_is_never_settled() -> None:
    call = Call()
    call.hear(1.0, "input_audio_buffer.speech_started", item_id="u1")
    call.hear(2.0, "input_audio_buffer.speech_stopped", item_id="u1")
    assert not call.conversation.settled(100.0)
    assert not call.conversation.answered


def test_words_come_as_they_are_heard_and_the_final_transcript_adds_only_what_is_new() -> None:
    call = Call()
    kind = "conversation.item.input_audio_transcription"
    assert call.hear(1.0, f"{kind}.delta", item_id="u1", delta="What is") == [Words("you", "What is")]
    assert call.hear(1.1, f"{kind}.completed", item_id="u1", transcript="What is it?") == [Words("you", " it?")]
    assert call.hear(1.2, f"{kind}.completed", item_id="u1", transcript="What is it?") == []


def test_a_final_transcript_that_differs_is_shown_whole() -> None:
    call = Call()
    kind = "conversation.item.input_audio_transcription"
    call.hear(1.0, f"{kind}.delta", item_id="u1", delta="What's")
    assert call.hear(1.1, f"{kind}.completed", item_id="u1", transcript="What is") == [Words("you", " [What is]")]


def test_the_answers_words_are_shown_and_kept() -> None:
    call = Call()
    call.one_turn()
    for delta in ("It is", " Paris."):
        fields = {"response_id": "r1", "item_id": "i1", "delta": delta}
        assert call.hear(2.0, "response.output_audio_transcript.delta", **fields) == [Words("agent", delta)]
    assert call.conversation.turns[0].answer == "It is Paris."


def test_speaking_while_an_answer_plays_interrupts_it_where_it_was_heard() -> None:
    call = Call()
    call.one_turn()
    assert call.hear(3.25, "input_audio_buffer.speech_started", item_id="u2") == [Interrupted("i1", 1250)]
    assert call.conversation.playback.ends == pytest.approx(3.25)


def test_speaking_while_nothing_plays_interrupts_nothing() -> None:
    call = Call()
    call.one_turn()
    assert call.hear(4.5, "input_audio_buffer.speech_started", item_id="u2") == []


def test_sound_that_comes_after_its_response_is_done_is_stale() -> None:
    call = Call()
    call.one_turn()
    call.hear_done(2.2, status="cancelled")
    assert call.hear_sound(2.3, 1.0) == []
    assert call.conversation.playback.ends == pytest.approx(4.0)


def test_a_failed_answer_keeps_its_reason() -> None:
    call = Call()
    call.one_turn()
    error = {"code": "stage_died", "message": "the process of stage talker died"}
    call.hear_done(2.2, status="failed", status_details={"type": "failed", "error": error})
    [turn] = call.conversation.turns
    assert (turn.status, turn.reason) == ("failed", "the process of stage talker died")


def test_each_turn_of_a_recording_gets_its_own_end_of_speech() -> None:
    call = Call()
    call.one_turn()
    call.hear_done(2.2)
    call.speak(3.1, level=0.0)
    call.hear(5.2, "input_audio_buffer.speech_started", item_id="u2")
    call.speak(1.0)
    call.speak(0.5, level=0.0)
    call.hear(6.5, "input_audio_buffer.speech_stopped", item_id="u2")
    assert call.conversation.turns[1].speech_end == pytest.approx(6.0)


def test_sound_is_passed_on_and_errors_are_shown() -> None:
    call = Call()
    call.one_turn()
    [happening] = call.hear_sound(2.1, 0.5)
    assert isinstance(happening, Sound)
    assert len(happening.samples) == 12_000
    error = {"code": "invalid_value", "message": "no"}
    assert call.hear(2.2, "error", error=error) == [Trouble("invalid_value: no")]
