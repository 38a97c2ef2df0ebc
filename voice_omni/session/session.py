"""One conversation: executes what the protocol decides, and tells it what was heard and what is answered.

All of it runs on one event loop, and every decision is made without awaiting: between a person's onset and the end of
the old answer nothing else can run, so nothing stale can be sent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final, assert_never

from voice_omni.audio.pcm import Samples
from voice_omni.audio.resample import StreamResampler
from voice_omni.client.interface import AudioDelta, Done, Message, TextDelta, Transcript, VoiceClient
from voice_omni.proto.errors import ErrorInfo
from voice_omni.realtime import commands
from voice_omni.realtime.core import RealtimeCore
from voice_omni.realtime.ids import IdFactory
from voice_omni.session.answers import Answers
from voice_omni.session.fence import EpochFence
from voice_omni.session.hearing import Heard, Hearing, HearingEvent, TurnBegan
from voice_omni.session.options import SessionOptions
from voice_omni.session.outbox import Close, Outbox
from voice_omni.session.preparation import Preparation
from voice_omni.session.reply_run import ReplyRun
from voice_omni.session.silero import RATE
from voice_omni.session.speaker import Speaker
from voice_omni.session.timers import Timers
from voice_omni.session.turn import Moments, Turn
from voice_omni.session.turn_detection import Paused, Resumed, Stopped
from voice_omni.session.utterance import Utterance

_SLICE_S: Final = 0.2
"""Sound is worked through in slices of this length: after each the other sessions get their turn."""
_MAX_UNKNOWN: Final = 8
"""Turns of which the words are not known, yet or for ever, whose sound is kept."""


@dataclass(frozen=True, slots=True)
class SessionParts:
    """What a session is made of. ``voices``: the pipeline's own. ``clock``: monotonic seconds."""

    client: VoiceClient
    core: RealtimeCore
    hearing: Hearing
    fence: EpochFence
    outbox: Outbox
    options: SessionOptions
    voices: Collection[str]
    ids: IdFactory
    clock: Callable[[], float] = time.monotonic
    include_timings: bool = False


class VoiceSession:
    """Belongs to one transport, which passes on what the client sends and sends what the outbox gives."""

    def __init__(self, parts: SessionParts) -> None:
        self._core = parts.core
        self._hearing = parts.hearing
        self._outbox = parts.outbox
        self._options = parts.options
        self._ids = parts.ids
        self._clock = parts.clock
        self._timers = Timers()
        self._preparation = Preparation(parts.client, parts.core, parts.voices, self)
        self._speaker = Speaker(
            parts.core.responses, parts.outbox, parts.options, parts.client.output_sample_rate, parts.clock
        )
        self._answers = Answers(
            parts.core,
            parts.outbox,
            parts.fence,
            self._speaker,
            clock=parts.clock,
            include_timings=parts.include_timings,
            finished=self._answered,
        )
        self._turn: Turn | None = None  # being spoken, or over and not decided
        self._prepared: Turn | None = None  # committed, its answer not asked for yet
        self._unknown: dict[str, Turn] = {}  # committed, words not known yet; by item id
        self._owed = False  # the server will answer the last turn without being asked
        self._last_sound = 0.0

    # For the transport

    def open(self) -> None:
        """Greet the client."""
        self._do(self._core.open())
        self._timers.set("expiry", self._options.max_duration_s, self._expire)

    async def receive(self, message: str | bytes) -> None:
        """One frame from the client, as it came. Frames must be handed over one after the other."""
        for output in self._core.receive(message):
            if isinstance(output, commands.AppendAudio):
                await self._listen(output.samples, output.sample_rate)
            else:
                self._do([output])

    async def close(self) -> None:
        """End everything that runs for this session; returns when nothing does."""
        self._timers.cancel_all()
        await self._preparation.close()

    # What the protocol asks for

    def _do(self, outputs: Iterable[commands.Output]) -> None:
        for output in outputs:
            if isinstance(output, dict):
                self._outbox.put([output])
            else:
                self._execute(output)

    def _execute(self, command: commands.Command) -> None:
        match command:
            case commands.AppendAudio(samples, sample_rate):
                self._hear(self._hearing.push(samples, sample_rate))
            case commands.ClearAudio():
                self._hearing.cut()
                self._forget_turn()
            case commands.TurnCommitted(item_id):
                self._committed(item_id)
            case commands.ItemAudio(item_id, samples, sample_rate):
                self._given(item_id, samples, sample_rate)
            case commands.StartReply(response_id, messages):
                self._answer(response_id, messages)
            case commands.CancelReply(response_id):
                self._answers.cut(response_id)
            case commands.ContextChanged():
                self._reconsider()
            case _:
                assert_never(command)

    # What is heard

    async def _listen(self, samples: Samples, sample_rate: int) -> None:
        longest = int(_SLICE_S * sample_rate)
        for start in range(0, len(samples), longest):
            if start:
                await asyncio.sleep(0)
            self._last_sound = self._clock()
            self._hear(self._hearing.push(samples[start : start + longest], sample_rate))

    def _hear(self, events: Iterable[HearingEvent]) -> None:
        for event in events:
            match event:
                case TurnBegan(begin, _):
                    self._do(self._core.speech_started(_ms(begin)))
                    self._barge_in()
                    self._begin_turn()
                case Heard(samples):
                    self._begin_turn().utterance.append(samples)
                case Paused(quiet_from, at):
                    self._pause(quiet_from, at)
                case Resumed():
                    self._resume()
                case Stopped(quiet_from, at, _):
                    self._pause(quiet_from, at)
                    self._stop(at)
        if self._hearing.engaged and "starvation" not in self._timers:
            self._timers.set("starvation", self._options.starvation_ms / 1000, self._check_starvation)

    def _begin_turn(self) -> Turn:
        if self._turn is None:
            self._turn = self._new_turn()
            self._preparation.begin(self._turn)
        elif self._turn.ended:
            # It ended and was not decided yet, so its answer has not been heard: what is said now belongs to it.
            self._turn.ended = False
            self._resume()
        return self._turn

    def _new_turn(self) -> Turn:
        return Turn(Utterance(self._ids("utt"), self._hearing.model_rate))

    def _resume(self) -> None:
        """The turn goes on: an answer to its beginning is of no use."""
        if self._turn is not None:
            self._turn.moments = Moments()
            self._preparation.begin(self._turn)

    def _forget_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            self._preparation.drop(turn)

    def _barge_in(self) -> None:
        vad = self._core.session.audio.input.turn_detection
        if vad is None or not vad.interrupt_response:
            return
        self._owed = False
        active = self._core.responses.active
        if active is not None:
            self._do(self._core.cancel(active.id, "turn_detected"))
        elif self._speaker.playing:
            self._answers.silence()

    def _pause(self, quiet_from: int, at: int) -> None:
        turn = self._turn
        if turn is not None and turn.moments.paused is None:
            turn.moments.paused = self._clock()
            turn.moments.speech_end = turn.moments.paused - (at - quiet_from) / RATE
            self._preparation.end_input(turn)

    def _stop(self, at: int) -> None:
        self._do(self._core.speech_stopped(_ms(at)))
        turn = self._turn
        if turn is not None:
            turn.moments.stopped = self._clock()
            turn.ended = True
            self._preparation.end_input(turn)
            self._decide(turn)

    def _check_starvation(self) -> None:
        """Sound that stops coming ends the turn: the silence that would do so never arrives."""
        if not self._hearing.engaged:
            return
        missing = self._last_sound + self._options.starvation_ms / 1000 - self._clock()
        if missing > 0:
            self._timers.set("starvation", missing, self._check_starvation)
        else:
            self._hear(self._hearing.starve())

    # From a turn to an item

    def _decide(self, turn: Turn) -> None:
        """Commit a turn that is over as soon as it is known to hold words; forget it if it holds none."""
        run = turn.run
        if turn is not self._turn or not turn.ended or run is None:
            return
        if run.found_nothing:
            self._forget_turn()
            self._do(self._core.drop_turn())
        elif run.error is not None and run.error.retryable and not turn.retried:
            turn.retried = True
            self._preparation.begin(turn)
        elif run.error is not None or run.found_words:
            self._do(self._core.commit())
            vad = self._core.session.audio.input.turn_detection
            self._owed = vad is not None and vad.create_response
            self._pay()

    def _committed(self, item_id: str) -> None:
        """The turn is the conversation's item ``item_id``; its answer, which is being made, may be asked for."""
        turn, self._turn = self._turn or self._new_turn(), None
        if not turn.ended:
            for heard in self._hearing.cut():
                turn.utterance.append(heard.samples)
            turn.ended = True
            self._preparation.end_input(turn)
        turn.item_id = item_id
        turn.moments.committed = self._clock()
        self._release_prepared()
        self._prepared = turn
        self._timers.set("hold", self._options.hold_ms / 1000, self._release_prepared)
        self._remember_unknown(turn, item_id)
        self._learn(turn)

    def _given(self, item_id: str, samples: Samples, sample_rate: int) -> None:
        """A client's item holds sound; its words will be known when it is answered."""
        resampler = StreamResampler(sample_rate, self._hearing.model_rate)
        turn = self._new_turn()
        turn.utterance.append(resampler.push(samples))
        turn.utterance.append(resampler.flush())
        turn.item_id, turn.ended = item_id, True
        self._remember_unknown(turn, item_id)

    def _remember_unknown(self, turn: Turn, item_id: str) -> None:
        self._unknown[item_id] = turn
        if len(self._unknown) > _MAX_UNKNOWN:
            del self._unknown[next(iter(self._unknown))]

    def _release_prepared(self) -> None:
        """Nobody asked for the answer that was being made; what was said may still have to be transcribed."""
        turn, self._prepared = self._prepared, None
        if turn is not None and turn.item_id not in self._unknown:
            self._preparation.drop(turn)

    def _learn(self, turn: Turn) -> None:
        """Pass on what is known of a committed turn's words."""
        run, item_id = turn.run, turn.item_id
        if run is None or item_id is None or item_id not in self._unknown:
            return
        if run.found_nothing or run.final_words is not None:
            del self._unknown[item_id]
            self._do(self._core.transcribed(item_id, run.final_words or "", turn.utterance.seconds))
            if turn is not self._prepared:
                self._preparation.drop(turn)
            self._reconsider()
        elif run.error is not None:
            self._do(self._core.transcription_failed(item_id, run.error))

    # From an item to an answer

    def _pay(self) -> None:
        """Answer the last turn, if the server is to do so by itself and no other answer is under way."""
        if self._owed and self._core.responses.active is None:
            self._owed = False
            self._do(self._core.respond())

    def _answer(self, response_id: str, messages: tuple[Message, ...] | None) -> None:
        response = self._core.responses.get(response_id)
        if response is None:
            return
        turn = self._spoken_turn() if messages is None else None
        request = self._preparation.request(response.settings, turn, messages)
        run = turn.run if turn is not None and response.in_conversation else None
        if turn is None or run is None or run.request != request or not turn.answerable:
            run = self._preparation.open(request, turn)
            if turn is not None and response.in_conversation:
                self._preparation.drop(turn)
                turn.run = run
        run.end_input()
        if turn is self._prepared and response.in_conversation:
            self._prepared = None
        self._answers.give(run, response_id, turn.moments if turn is not None else None)

    def _spoken_turn(self) -> Turn | None:
        """The turn that an answer is to be given to as sound: the last thing said, or what is not known as text."""
        conversation, prepared = self._core.conversation, self._prepared
        if prepared is not None and prepared.item_id == conversation.last_id:
            return prepared
        turns = (turn for item_id, turn in reversed(self._unknown.items()) if conversation.find(item_id) is not None)
        return next(turns, None)

    def _answered(self) -> None:
        self._reconsider()
        self._pay()

    def _reconsider(self) -> None:
        """Settings or items have changed: an answer being prepared from what held before begins anew."""
        vad = self._core.session.audio.input.turn_detection
        if vad is not None and not self._hearing.detecting:
            self._forget_turn()  # it was waiting for a commit by hand
        self._hearing.configure(vad)
        if self._turn is not None:
            self._preparation.refresh(self._turn)

    # What replies report

    def on_transcript(self, run: ReplyRun, transcript: Transcript) -> None:
        turn = self._preparation.turn_of(run)
        if turn is not None and turn.run is run and transcript.final:
            self._learn(turn)
            self._decide(turn)

    def on_answering(self, run: ReplyRun) -> None:
        turn = self._preparation.turn_of(run)
        if turn is not None and turn.run is run:
            self._decide(turn)

    async def on_content(self, run: ReplyRun, delta: TextDelta | AudioDelta) -> None:
        await self._answers.write(run, delta)

    async def on_done(self, run: ReplyRun, done: Done) -> None:
        self._answers.finish(run, done)

    def on_failed(self, run: ReplyRun, error: ErrorInfo) -> None:
        turn = self._preparation.turn_of(run)
        if turn is not None and turn.run is run:
            self._learn(turn)
            self._decide(turn)
        if run.response_id is not None:
            self._answers.fail(run, error)

    def _expire(self) -> None:
        minutes = self._options.max_duration_s // 60
        self._do(self._core.server_error("session_expired", f"The session has lasted {minutes} minutes, its maximum."))
        self._outbox.close(Close(1001, "session expired"))


def _ms(position: int) -> int:
    return position * 1000 // RATE
