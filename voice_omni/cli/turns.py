"""A conversation as a Realtime client sees it: turns, transcripts and moments. Pure; the clock is passed in."""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np

from voice_omni.audio.pcm import Samples, decode_pcm16
from voice_omni.cli.playback import Playback
from voice_omni.cli.realtime_client import RATE, Event
from voice_omni.cli.speech_end import speech_end

Speaker = Literal["you", "agent"]

_RECENT_FRAMES: Final = 1500
"""Frames of 20 ms in which the end of a turn's speech is looked for: half a minute."""


@dataclass(slots=True)
class Turn:
    """One turn of the person and the answer to it. Moments are seconds on the client's monotonic clock."""

    speech_end: float | None = None
    decided: float | None = None
    created: float | None = None
    first_audio: float | None = None
    first_audible: float | None = None
    response_id: str | None = None
    status: str | None = None
    reason: str | None = None
    answer: str = ""
    timings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def answered(self) -> bool:
        return self.first_audible is not None


@dataclass(frozen=True, slots=True)
class Words:
    """More words of one speaker, to be shown as they come."""

    speaker: Speaker
    text: str


@dataclass(frozen=True, slots=True)
class Trouble:
    """The server reports an error that does not end the session."""

    message: str


@dataclass(frozen=True, slots=True)
class Sound:
    """More of the answer's sound: float32 ``[samples]``, 24 kHz."""

    samples: Samples


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The person speaks while an answer plays: the rest of it is not heard."""

    item_id: str
    heard_ms: int


Happening = Words | Trouble | Sound | Interrupted


class Conversation:
    """Takes what was sent and what came back; says what to show, to play and to truncate."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.playback = Playback()
        self._recent: deque[tuple[float, Samples]] = deque(maxlen=_RECENT_FRAMES)
        self._speaking = False
        self._shown: dict[str, str] = {}

    # What goes out

    def sent(self, frame: Samples, now: float) -> None:
        """A frame of the person's sound has gone out at the moment when its last sample was spoken."""
        self._recent.append((now - len(frame) / RATE, frame))

    # What comes in

    def received(self, event: Event, now: float) -> list[Happening]:
        """One server event; what follows from it."""
        match event.get("type"):
            case "input_audio_buffer.speech_started":
                self._speaking = True
                return self._interrupt(now)
            case "input_audio_buffer.speech_stopped":
                self._speaking = False
                self.turns.append(Turn(speech_end=self._speech_end(), decided=now))
            case "conversation.item.input_audio_transcription.delta":
                return self._words("you", event["item_id"], event["delta"])
            case "conversation.item.input_audio_transcription.completed":
                return self._completed("you", event["item_id"], event["transcript"])
            case "response.created":
                self._open_turn(now).response_id = event["response"]["id"]
            case "response.output_audio_transcript.delta" | "response.output_text.delta":
                self._turn(event["response_id"]).answer += event["delta"]
                return self._words("agent", event["item_id"], event["delta"])
            case "response.output_audio.delta":
                return self._sound(event, now)
            case "response.done":
                self._done(event["response"])
            case "error":
                return [Trouble(f"{event['error'].get('code')}: {event['error'].get('message')}")]
        return []

    # Where it stands

    def settled(self, now: float) -> bool:
        """Nobody speaks, every turn has got its answer, and the answers are played."""
        pending = any(turn.status is None for turn in self.turns)
        return not self._speaking and not pending and bool(self.turns) and now >= self.playback.ends

    @property
    def answered(self) -> bool:
        """Whether the agent has been heard at all."""
        return any(turn.answered for turn in self.turns)

    def _speech_end(self) -> float | None:
        if not self._recent:
            return None
        began = self._recent[0][0]
        end = speech_end(np.concatenate([frame for _, frame in self._recent]), RATE)
        return None if end is None else began + end

    def _open_turn(self, now: float) -> Turn:
        turn = next((turn for turn in reversed(self.turns) if turn.created is None), None)
        if turn is None:
            turn = Turn()  # an answer that no speech of ours asked for
            self.turns.append(turn)
        turn.created = now
        return turn

    def _turn(self, response_id: str) -> Turn:
        return next((turn for turn in self.turns if turn.response_id == response_id), Turn())

    def _interrupt(self, now: float) -> list[Happening]:
        item_id = self.playback.playing(now)
        if item_id is None:
            return []
        heard = self.playback.played_ms(item_id, now)
        self.playback.clear(now)
        return [Interrupted(item_id, heard)]

    def _sound(self, event: Event, now: float) -> list[Happening]:
        turn = self._turn(event["response_id"])
        if turn.status is not None:
            return []
        samples = decode_pcm16(base64.b64decode(event["delta"]))
        self.playback.push(event["item_id"], samples, now)
        if turn.first_audio is None:
            turn.first_audio = now
        if turn.first_audible is None:
            turn.first_audible = self.playback.first_audible(event["item_id"])
        return [Sound(samples)]

    def _done(self, response: Mapping[str, Any]) -> None:
        turn = self._turn(response["id"])
        turn.status = response["status"]
        details = response.get("status_details") or {}
        turn.reason = (details.get("error") or {}).get("message") or details.get("reason")
        turn.timings = response.get("timings") or {}

    def _words(self, speaker: Speaker, item_id: str, delta: str) -> list[Happening]:
        self._shown[item_id] = self._shown.get(item_id, "") + delta
        return [Words(speaker, delta)]

    def _completed(self, speaker: Speaker, item_id: str, text: str) -> list[Happening]:
        """The final transcript; only what was not shown before, unless the words have changed."""
        shown = self._shown.get(item_id, "")
        self._shown[item_id] = text
        rest = text[len(shown) :] if text.startswith(shown) else f" [{text}]"
        return [Words(speaker, rest)] if rest else []
