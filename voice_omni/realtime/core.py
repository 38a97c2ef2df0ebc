"""The protocol of one session: client events and what happens to the sound in, server events and commands out.

No sockets, no models, no clock: whoever owns the session executes the commands and reports back what came of them.
Outputs are in order; a command may be executed as soon as the events before it are queued.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal, assert_never

import msgspec

from voice_omni.audio.pcm import Samples
from voice_omni.client.interface import Message
from voice_omni.proto.errors import ErrorInfo
from voice_omni.realtime import client_events as client
from voice_omni.realtime.commands import (
    AppendAudio,
    CancelReply,
    ClearAudio,
    ContextChanged,
    ItemAudio,
    KeepLatest,
    Output,
    StartReply,
    StopPlayback,
    TurnCommitted,
)
from voice_omni.realtime.conversation import DEFAULT_LIMITS, Conversation, Limits
from voice_omni.realtime.errors import ProtocolError
from voice_omni.realtime.events import EventWriter, ServerEvent
from voice_omni.realtime.ids import IdFactory
from voice_omni.realtime.input_audio import MIN_COMMIT_MS, InputAudio, sample_rate_of
from voice_omni.realtime.item_requests import ItemRequests
from voice_omni.realtime.items import MessageItem, Part
from voice_omni.realtime.response import CancelReason, ResponseSettings
from voice_omni.realtime.responses import Responses, check_options, settings_for, voice_name
from voice_omni.realtime.settings import CONTRACT_RATES, SemanticVad, Session, updated
from voice_omni.realtime.transcription_session import shown, updated_transcription
from voice_omni.realtime.transcripts import Transcripts

_NO_OPTIONS = client.ResponseOptions()


@dataclass(frozen=True, slots=True)
class Facts:
    """What the protocol must know of its server.

    ``voices``: names that may be asked for. ``output_sample_rate``: Hz, of the answers' samples. ``expires_at``:
    Unix time at which the session ends. ``max_buffer_ms``: how much sound may wait for a commit by hand, and be in one
    item. ``limits``: of the conversation. ``images``: whether the model takes pictures. ``owns_playback``: whether the
    transport plays the sound out itself, as WebRTC does, so that playback can be cleared here. ``semantic_vad``:
    whether turns can be judged. ``pcm_rates``: Hz, that ``audio/pcm`` may have. ``binary_audio``: whether binary frames
    are sound to append.
    """

    voices: Collection[str]
    output_sample_rate: int
    expires_at: int
    max_buffer_ms: int = 300_000
    limits: Limits = DEFAULT_LIMITS
    images: bool = False
    owns_playback: bool = False
    semantic_vad: bool = True
    pcm_rates: Collection[int] = CONTRACT_RATES
    binary_audio: bool = False


class RealtimeCore:
    """One session's protocol state: settings, conversation, the turn being spoken and the responses under way."""

    def __init__(self, session: Session, facts: Facts, ids: IdFactory) -> None:
        self.session = session
        self.id = ids("sess")
        self.conversation = Conversation(ids("conv"), facts.limits)
        self.conversation.truncate_by(session.truncation)
        self._facts = facts
        self._ids = ids
        self._write = EventWriter(ids)
        self._input = InputAudio(session.audio.input.format)
        self._turn_item: str | None = None
        self._turn_ended = False
        self._transcripts = Transcripts(self._write)
        self._items = ItemRequests(
            self.conversation, ids, self._write, images=facts.images, max_audio_ms=facts.max_buffer_ms
        )
        self.responses = Responses(facts.output_sample_rate, ids, self._write)

    # What the client sends

    def open(self) -> list[Output]:
        """The events that greet a client."""
        conversation = {"id": self.conversation.id, "object": "realtime.conversation"}
        return [
            self._write("session.created", session=self._session_json()),
            self._write("conversation.created", conversation=conversation),
        ]

    def receive(self, message: str | bytes, *, beta: bool = False) -> list[Output]:
        """Obey one client event; one that cannot be obeyed changes nothing and is answered with an ``error``.

        ``beta``: it was translated from that dialect, which has settings that GA has dropped.
        """
        if isinstance(message, bytes):
            return self._receive_bytes(message)
        try:
            event = client.parse(message)
        except ProtocolError as error:
            return [self._error(error, client.event_id_of(message))]
        try:
            return self._obey(event, beta)
        except ProtocolError as error:
            return [self._error(error, event.event_id)]

    def _receive_bytes(self, data: bytes) -> list[Output]:
        try:
            if not self._facts.binary_audio:
                raise ProtocolError("invalid_event", "Events are JSON text frames, not binary ones.")
            return self._append(data)
        except ProtocolError as error:
            return [self._error(error, None)]

    def _obey(self, event: client.ClientEvent, beta: bool) -> list[Output]:
        match event:
            case client.BufferAppend():
                return self._append(event.audio)
            case client.BufferCommit():
                return self._commit_by_hand()
            case client.BufferClear():
                self._input.clear()
                return [*self.drop_turn(), ClearAudio()]
            case client.OutputBufferClear():
                if not self._facts.owns_playback:
                    message = "'output_audio_buffer.clear' is for connections on which the server plays the sound."
                    raise ProtocolError("invalid_event", message, "type")
                return [StopPlayback()]
            case client.SessionUpdate():
                return self._update(event.session, beta)
            case client.ItemCreate():
                return self._items.create(event, self.session.audio.input.format)
            case client.ItemRetrieve():
                return self._items.retrieve(event.item_id)
            case client.ItemTruncate():
                return self._items.truncate(event)
            case client.ItemDelete():
                return self._items.delete(event.item_id)
            case client.ResponseCreate():
                return self._create_response(event.response or _NO_OPTIONS, beta)
            case client.ResponseCancel():
                return self._cancel_response(event.response_id)
        assert_never(event)

    def sound(self, samples: Samples, sample_rate: int) -> list[Output]:
        """Sound that came on a track of its own, as if it were appended.

        A track carries silence while nobody speaks, and nobody can be asked to send less of it: when the buffer is full
        its older half is forgotten.
        """
        self._input.count(len(samples), sample_rate)
        outputs: list[Output] = [AppendAudio(samples, sample_rate)]
        if self._full:
            self._input.keep(self._facts.max_buffer_ms // 2)
            outputs.append(KeepLatest(self._facts.max_buffer_ms // 2))
        return outputs

    @property
    def _full(self) -> bool:
        by_hand = self.session.audio.input.turn_detection is None
        return by_hand and self._input.uncommitted_ms >= self._facts.max_buffer_ms

    def _append(self, audio: str | bytes) -> list[Output]:
        if self._full:
            raise self._input.too_much()
        samples = self._input.append(audio) if isinstance(audio, str) else self._input.append_bytes(audio)
        return [AppendAudio(samples, sample_rate_of(self._input.format))] if len(samples) else []

    def _update(self, patch: dict[str, Any], beta: bool) -> list[Output]:
        before, rates = self.session, self._facts.pcm_rates
        if self.transcribes_only:
            after = updated_transcription(before, patch, rates)
        else:
            after = updated(before, patch, rates, beta=beta)
        if isinstance(after.audio.input.turn_detection, SemanticVad) and not self._facts.semantic_vad:
            message = "'semantic_vad' is not available: this server could not load its end-of-turn model."
            raise ProtocolError("invalid_value", message, "session.audio.input.turn_detection.type")
        if after.audio.output.speed != before.audio.output.speed and self.responses.active is not None:
            message = "Cannot update a conversation's speed while a response is in progress."
            raise ProtocolError("invalid_value", message, "session.audio.output.speed")
        if after.voice != before.voice:
            self._check_voice(after.voice, "session.audio.output.voice")
            if self.responses.spoke:
                message = "Cannot update a conversation's voice if assistant audio is present."
                raise ProtocolError("cannot_update_voice", message, "session.audio.output.voice")
        self.session = after
        self.conversation.truncate_by(after.truncation)
        if after.audio.input.format != before.audio.input.format:
            self._input = self._input.continued(after.audio.input.format)
        outputs: list[Output] = [self._write("session.updated", session=self._session_json()), ContextChanged()]
        if before.audio.input.turn_detection is None and after.audio.input.turn_detection is not None:
            # What waited for a commit by hand is not part of a turn that will be detected.
            if self._turn_item is not None:
                outputs += self.drop_turn()
            self._input.committed()
        elif before.audio.input.turn_detection is not None and after.audio.input.turn_detection is None:
            # Of what was listened to, only the last moments are still there to be committed.
            self._input.keep(MIN_COMMIT_MS)
        return outputs

    def _check_voice(self, voice: str, param: str) -> None:
        if voice not in self._facts.voices:
            known = ", ".join(f"'{name}'" for name in sorted(self._facts.voices))
            raise ProtocolError("invalid_value", f"Invalid value: '{voice}'. Supported values are: {known}.", param)

    # The turn being spoken

    def speech_started(self, at_ms: int) -> list[Output]:
        """The person began to speak; ``at_ms`` of the session's sound, prefix padding included."""
        self._turn_item = self._turn_item or self._ids("item")
        self._turn_ended = False
        return [self._write("input_audio_buffer.speech_started", audio_start_ms=at_ms, item_id=self._turn_item)]

    def speech_stopped(self, at_ms: int) -> list[Output]:
        """The person's turn is over; ``at_ms`` includes the silence that decided it."""
        self._turn_ended = True
        return [self._write("input_audio_buffer.speech_stopped", audio_end_ms=at_ms, item_id=self._turn_item)]

    def drop_turn(self) -> list[Output]:
        """The sound so far is nobody's turn: it held no words, or the client cleared it."""
        self._turn_item, self._turn_ended = None, False
        self._input.committed()
        return [self._write("input_audio_buffer.cleared")]

    def commit(self) -> list[Output]:
        """Make the uncommitted sound the conversation's last item."""
        item = MessageItem(self._turn_item or self._ids("item"), "user", [Part("input_audio")])
        self._turn_item, self._turn_ended = None, False
        self._input.committed()
        previous = self.conversation.insert(item)
        committed = self._write("input_audio_buffer.committed", previous_item_id=previous, item_id=item.id)
        return [committed, *self._items.added(item, previous), TurnCommitted(item.id)]

    def idle_timeout(self, start_ms: int, end_ms: int, prompt: str) -> list[Output]:
        """Nobody has spoken in the session's sound from ``start_ms`` to ``end_ms``: commit that, and speak.

        ``prompt`` stands for what the person did not say. There must be no active response and no turn.
        """
        item = MessageItem(self._ids("item"), "user", [Part("input_audio", "")])
        previous = self.conversation.insert(item)
        self._input.committed()
        kind = "input_audio_buffer.timeout_triggered"
        messages = (*self.conversation.messages(), Message("user", prompt))
        return [
            self._write(kind, audio_start_ms=start_ms, audio_end_ms=end_ms, item_id=item.id),
            self._write("input_audio_buffer.committed", previous_item_id=previous, item_id=item.id),
            *self._items.added(item, previous),
            *self._start(_NO_OPTIONS, messages),
        ]

    def _commit_by_hand(self) -> list[Output]:
        if self._turn_item is None:
            held = 0.0 if self.session.audio.input.turn_detection else self._input.uncommitted_ms
            if held < MIN_COMMIT_MS:
                raise ProtocolError(
                    "input_audio_buffer_commit_empty",
                    f"Error committing input audio buffer: buffer too small. Expected at least {MIN_COMMIT_MS}ms of "
                    f"audio, but buffer only has {held:.2f}ms of audio.",
                )
        return self.commit()

    def transcribing(self, item_id: str, text: str) -> list[Output]:
        """The words of a user's item as far as they are known; they may still change."""
        item = self.conversation.find(item_id)
        if not isinstance(item, MessageItem) or not self.transcripts_wanted:
            return []
        return [*self._transcripts.partial(item_id, text, item.sound_index)]

    def transcribed(self, item_id: str, text: str, seconds: float) -> list[Output]:
        """The words of a user's item are known; ``seconds``: the length of its sound."""
        item = self.conversation.find(item_id)
        if not isinstance(item, MessageItem):
            return []
        item.transcribe(text)
        if not self.transcripts_wanted:
            return []
        return [*self._transcripts.complete(item_id, text, seconds, item.sound_index)]

    def transcription_failed(self, item_id: str, error: ErrorInfo) -> list[Output]:
        item = self.conversation.find(item_id)
        if not isinstance(item, MessageItem) or not self.transcripts_wanted:
            return []
        return [*self._transcripts.fail(item_id, error, item.sound_index)]

    @property
    def transcripts_wanted(self) -> bool:
        """Whether the client is to be told what people say."""
        return self.transcribes_only or self.session.audio.input.transcription is not None

    @property
    def transcribes_only(self) -> bool:
        """Whether this is a transcription session, in which nobody answers."""
        return self.session.type == "transcription"

    # Responses

    def respond(self) -> list[Output]:
        """Answer the conversation as it stands. There must be no active response."""
        return self._start(_NO_OPTIONS, None)

    def _create_response(self, options: client.ResponseOptions, beta: bool) -> list[Output]:
        outputs: list[Output] = []
        if self.transcribes_only:
            raise ProtocolError("invalid_event", "A transcription session gives no responses.", "type")
        check_options(options, self.session, self._facts.pcm_rates, beta=beta)
        voice = voice_name(options.audio.output.voice)
        if voice is not None:
            self._check_voice(voice, "response.audio.output.voice")
        messages, heard = None, None
        if options.input is not None:
            messages, heard = self._items.resolve(options.input, self.session.audio.input.format)
        if options.conversation == "auto":
            if (active := self.responses.active) is not None:
                raise ProtocolError(
                    "conversation_already_has_active_response",
                    f"Conversation already has an active response in progress: {active.id}. Wait until the response "
                    "is finished before creating a new one.",
                )
            if self._turn_ended and messages is None:
                outputs += self.commit()  # it asks for an answer to what was just said, so that counts as a turn
        return outputs + self._start(options, messages, heard)

    def prospect(self) -> ResponseSettings:
        """What would hold for an answer that the server began now."""
        return settings_for(self.session, _NO_OPTIONS)

    def _start(
        self,
        options: client.ResponseOptions,
        messages: tuple[Message, ...] | None,
        heard: ItemAudio | str | None = None,
    ) -> list[Output]:
        conversation = self.conversation if options.conversation == "auto" else None
        response = self.responses.begin(settings_for(self.session, options), conversation)
        return [response.created(), StartReply(response.id, messages, heard)]

    def _cancel_response(self, response_id: str | None) -> list[Output]:
        response = self.responses.active if response_id is None else self.responses.get(response_id)
        if response is None:
            raise ProtocolError("response_cancel_not_active", "Cancellation failed: no active response found.")
        return self.cancel(response.id, "client_cancelled")

    def cancel(self, response_id: str, reason: CancelReason) -> list[Output]:
        events = self.responses.cancel(response_id, reason)
        return [*events, CancelReply(response_id)] if events else []

    def heard(self, item_id: str, played_ms: float) -> list[ServerEvent]:
        """An answer's playback stopped there. Who plays it out knows: a client tells by truncating, and is told so."""
        item = self.conversation.find(item_id)
        if not isinstance(item, MessageItem) or item.alignment is None:
            return []
        if not self._facts.owns_playback:
            item.heard_ms = item.heard_ms if item.truncated else played_ms
            return []
        return self._items.truncated(item, item.cut(played_ms))

    def playback(self, what: Literal["started", "stopped", "cleared"], response_id: str) -> list[ServerEvent]:
        """What became of a response's sound; told where the server plays it out."""
        if not self._facts.owns_playback:
            return []
        return [self._write(f"output_audio_buffer.{what}", response_id=response_id)]

    # Shapes

    def server_error(self, code: str, message: str) -> list[Output]:
        """An ``error`` event for what no client event caused."""
        return [self._write.error(code, message, kind="server_error")]

    def _error(self, error: ProtocolError, event_id: str | None) -> Output:
        return self._write.error(
            error.code, error.message, param=error.param, event_id=event_id, kind="invalid_request_error"
        )

    def _session_json(self) -> dict[str, Any]:
        kind = "realtime.transcription_session" if self.transcribes_only else "realtime.session"
        settings: dict[str, Any] = shown(self.session) if self.transcribes_only else msgspec.to_builtins(self.session)
        return {**settings, "object": kind, "id": self.id, "expires_at": self._facts.expires_at}
