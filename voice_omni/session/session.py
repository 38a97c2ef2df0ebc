"""One conversation: executes what the protocol decides, and tells it what was heard and what is answered.

All of it runs on one event loop, and every decision is made without awaiting: between a person's onset and the end of
the old answer nothing else can run, so nothing stale can be sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import assert_never

from voice_omni.audio.pcm import Samples
from voice_omni.client.interface import AudioDelta, Done, TextDelta, ToolCallDelta, Transcript
from voice_omni.proto.errors import ErrorInfo
from voice_omni.realtime import commands
from voice_omni.session.answers import Answers
from voice_omni.session.committed import CommittedTurns
from voice_omni.session.ear import Ear
from voice_omni.session.floor import Claim, Floor
from voice_omni.session.hearing import Heard, HearingEvent, TurnBegan
from voice_omni.session.idle import IdleTimeout
from voice_omni.session.interruption import Verdict
from voice_omni.session.outbox import Close
from voice_omni.session.parts import SessionParts
from voice_omni.session.preparation import Preparation
from voice_omni.session.reply_run import ReplyRun
from voice_omni.session.silero import RATE
from voice_omni.session.speakers import speaker_of
from voice_omni.session.timers import Timers
from voice_omni.session.turn import Contest, Moments, Turn
from voice_omni.session.turn_detection import Paused, Resumed, Stopped
from voice_omni.session.utterance import Utterance


class VoiceSession:
    """Belongs to one transport, which passes on what the client sends and sends what the outbox gives."""

    def __init__(self, parts: SessionParts) -> None:
        self._core = parts.core
        self._dialect = parts.dialect
        self._counters = parts.counters
        self._outbox = parts.outbox
        self._options = parts.options
        self._ids = parts.ids
        self._clock = parts.clock
        self._timers = Timers()
        self._ear = Ear(
            parts.hearing,
            parts.judge,
            self._timers,
            parts.options,
            parts.counters,
            parts.clock,
            self._hear,
            parts.core.id,
        )
        self._preparation = Preparation(parts.client, parts.core, parts.voices, self)
        self._speaker = speaker_of(parts)
        self._answers = Answers(
            parts.core,
            parts.outbox,
            parts.fence,
            self._speaker,
            clock=parts.clock,
            include_timings=parts.include_timings,
            finished=self._answered,
        )
        self._floor = Floor(
            parts.core, self._answers, self._speaker, parts.options, parts.counters, parts.clock, self._do
        )
        self._idle = IdleTimeout(
            parts.core, self._speaker, self._timers, parts.options, lambda: self._turn is None, self._speak_unasked
        )
        self._committed = CommittedTurns(
            parts.core,
            self._preparation,
            self._timers,
            parts.options,
            parts.transcribes,
            self._do,
            self._reconsider,
        )
        self._turn: Turn | None = None  # being spoken, or over and not decided
        self._owed = False  # the server will answer the last turn without being asked
        self._unasked: str | None = None  # the last response that it began so

    # For the transport

    def open(self) -> None:
        """Greet the client."""
        self._do(self._core.open())
        self._timers.set("expiry", self._options.max_duration_s, self._expire)

    async def receive(self, message: str | bytes) -> None:
        """One frame from the client, as it came. Frames must be handed over one after the other."""
        await self._take(self._core.receive(self._dialect.incoming(message), beta=self._dialect.is_beta))

    async def listen(self, samples: Samples, sample_rate: int) -> None:
        """float32 ``[samples]`` that came on a track of their own: one more frame."""
        await self._take(self._core.sound(samples, sample_rate))

    async def _take(self, outputs: Iterable[commands.Output]) -> None:
        for output in outputs:
            if isinstance(output, commands.AppendAudio):
                await self._ear.listen(output.samples, output.sample_rate)
            else:
                self._do([output])

    async def close(self) -> None:
        """End everything that runs for this session; returns when nothing does."""
        self._timers.cancel_all()
        self._ear.close()
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
                self._hear(self._ear.hearing.push(samples, sample_rate))
            case commands.ClearAudio():
                self._ear.cut()
                self._forget_turn()
            case commands.KeepLatest(milliseconds):
                self._shorten(milliseconds)
            case commands.TurnCommitted(item_id):
                self._commit(item_id)
            case commands.ItemAudio():
                self._committed.given(self._brought(command), command.item_id)
            case commands.StartReply():
                self._answer(command)
            case commands.CancelReply(response_id):
                self._answers.cut(response_id)
                self._idle.answered()
            case commands.StopPlayback():
                self._answers.silence()
            case commands.ContextChanged():
                self._reconsider()
            case _:
                assert_never(command)

    # What is heard

    def _hear(self, events: Iterable[HearingEvent]) -> None:
        for event in events:
            match event:
                case TurnBegan(begin, _):
                    self._began(_ms(begin))
                case Heard(samples, voiced_ms):
                    turn = self._begin_turn()
                    turn.utterance.append(samples)
                    turn.lasted_ms = max(turn.lasted_ms, voiced_ms)
                    if turn.contested is not None:
                        self._settle(turn, turn.contested)
                case Paused(quiet_from, at):
                    self._pause(quiet_from, at)
                case Resumed():
                    self._resume()
                case Stopped(quiet_from, at, _):
                    self._pause(quiet_from, at)
                    self._stop(at)

    def _began(self, began_ms: int) -> None:
        """Somebody speaks: a turn begins, or one that had ended goes on."""
        self._idle.pause()
        turn, over = self._turn, self._floor.audible()
        displaced, contest = False, None
        if turn is not None and turn.contested is not None:
            turn.contested.stopped_ms = None
            self._timers.cancel("resume")
        elif (claim := self._floor.claim() if turn is None else Claim.TAKE) is Claim.CONTEST:
            contest = Contest(began_ms)
        else:
            self._do(self._core.speech_started(began_ms))
            displaced = claim is Claim.TAKE and self._barge_in()
        turn = self._begin_turn()
        turn.contested = turn.contested or contest
        turn.over |= over
        turn.displaced |= displaced

    def _settle(self, turn: Turn, contest: Contest) -> bool:
        """Whether a contested turn has taken the floor."""
        match self._floor.judge(turn):
            case Verdict.WAIT:
                return False
            case Verdict.DISMISS:
                self._dismiss(turn)
                return False
        turn.contested = None
        self._timers.cancel("resume")
        self._do(self._core.speech_started(contest.began_ms))
        turn.displaced |= self._barge_in()
        self._floor.release()
        self._preparation.refresh(turn)
        if contest.stopped_ms is not None:
            self._do(self._core.speech_stopped(contest.stopped_ms))
        return True

    def _dismiss(self, turn: Turn) -> None:
        """What was said over the answer is nobody's turn, and the client has not been told of it."""
        if self._floor.echoes(turn):
            self._floor.caught_echo()
        self._counters.false_interruptions += 1
        self._forget_turn()
        self._idle.resume()

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
        return Turn(Utterance(self._ids("utt"), self._ear.hearing.model_rate))

    def _shorten(self, milliseconds: int) -> None:
        """Only the last of the turn's sound is answered."""
        if self._turn is not None:
            self._turn.utterance = self._turn.utterance.latest(self._ids("utt"), milliseconds / 1000)
            self._preparation.begin(self._turn)

    def _resume(self) -> None:
        """The turn goes on: an answer to its beginning is of no use."""
        if self._turn is not None:
            self._turn.moments = Moments()
            self._preparation.begin(self._turn)

    def _forget_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            self._preparation.drop(turn)
            if turn.contested is not None:
                self._timers.cancel("resume")
                self._floor.release()

    def _barge_in(self) -> bool:
        """End the answer under way. Whether one that the server owes was ended before a word of it was heard."""
        owed, self._owed = self._owed, False
        unheard = self._floor.interrupt()
        return owed or (unheard is not None and unheard == self._unasked)

    def _pause(self, quiet_from: int, at: int) -> None:
        turn = self._turn
        if turn is not None and turn.moments.paused is None:
            turn.moments.paused = self._clock()
            turn.moments.speech_end = turn.moments.paused - (at - quiet_from) / RATE
            self._preparation.end_input(turn)

    def _stop(self, at: int) -> None:
        turn = self._turn
        if turn is not None and turn.contested is not None:
            turn.contested.stopped_ms = _ms(at)
            self._timers.set("resume", self._options.resume_ms / 1000, partial(self._dismiss, turn))
        else:
            self._do(self._core.speech_stopped(_ms(at)))
        if turn is not None:
            turn.moments.stopped = self._clock()
            turn.ended = True
            self._preparation.end_input(turn)
            self._decide(turn)

    # From a turn to an item

    def _decide(self, turn: Turn) -> None:
        """Commit a turn that is over as soon as it is known to hold words; forget it if it holds none."""
        if turn is not self._turn or (turn.contested is not None and not self._settle(turn, turn.contested)):
            return
        run = turn.run
        if not turn.ended or run is None:
            return
        if run.found_nothing:
            self._counters.wordless += 1
            self._drop_turn(turn)
        elif self._floor.echoes(turn):
            self._floor.caught_echo()
            self._drop_turn(turn)
        elif run.error is not None and run.error.retryable and not turn.retried:
            turn.retried = True
            self._preparation.begin(turn)
        elif run.error is not None or run.found_words:
            self._counters.turns += 1
            self._do(self._core.commit())
            vad = self._core.session.audio.input.turn_detection
            self._owed = vad is not None and vad.create_response
            self._pay()

    def _drop_turn(self, turn: Turn) -> None:
        """It was none after all. An answer that had to make way for it unheard is made again."""
        self._forget_turn()
        self._do(self._core.drop_turn())
        if turn.displaced:
            self._counters.false_interruptions += 1
            self._owed = True
            self._pay()
        self._idle.resume()

    def _commit(self, item_id: str) -> None:
        """The turn is the conversation's item ``item_id``."""
        turn, self._turn = self._turn or self._new_turn(), None
        if not turn.ended:
            for heard in self._ear.cut():
                turn.utterance.append(heard.samples)
            turn.ended = True
            self._preparation.end_input(turn)
        self._idle.turn()
        turn.moments.committed = self._clock()
        self._committed.add(turn, item_id)

    def _brought(self, sound: commands.ItemAudio) -> Turn:
        """Sound that the client brings along is a turn that is over."""
        turn = self._new_turn()
        turn.utterance.append_all(sound.samples, sound.sample_rate)
        turn.ended = True
        return turn

    # From an item to an answer

    def _pay(self) -> None:
        """Answer the last turn, if the server is to do so by itself and no other answer is under way."""
        if self._owed and self._core.responses.active is None:
            self._owed = False
            outputs = self._core.respond()
            self._unasked = self._core.responses.active.id if self._core.responses.active is not None else None
            self._do(outputs)

    def _answer(self, command: commands.StartReply) -> None:
        response_id, heard = command.response_id, command.heard
        response = self._core.responses.get(response_id)
        if response is None:
            return
        if isinstance(heard, commands.ItemAudio):
            turn: Turn | None = self._brought(heard)
        else:
            turn = self._committed.spoken() if command.messages is None else self._committed.unknown(heard)
        request = self._preparation.request(response.settings, turn, command.messages)
        run = turn.run if turn is not None and response.in_conversation else None
        if turn is None or run is None or run.request != request or not turn.answerable:
            run = self._preparation.open(request, turn)
            if turn is not None and response.in_conversation:
                self._preparation.drop(turn)
                turn.run = run
        run.end_input()
        if response.in_conversation:
            self._idle.pause()
            self._floor.answering(response.settings.interruptible)
            if turn is not None:
                self._committed.answered(turn)
        self._answers.give(run, response_id, turn.moments if turn is not None else None)

    def _answered(self) -> None:
        self._reconsider()
        self._pay()
        self._idle.answered()

    def _speak_unasked(self, timeout_ms: int) -> None:
        """Nobody has said anything for so long: the model does."""
        self._counters.idle_timeouts += 1
        now_ms = self._ear.hearing.position_ms
        self._do(self._core.idle_timeout(max(0, now_ms - timeout_ms), now_ms, self._options.idle_prompt))

    def _reconsider(self) -> None:
        """Settings or items have changed: an answer being prepared from what held before begins anew."""
        vad, turn = self._core.session.audio.input.turn_detection, self._turn
        if vad is not None and not self._ear.hearing.detecting:
            self._forget_turn()  # it was waiting for a commit by hand
        elif vad is None and turn is not None and turn.contested is not None:
            turn.contested = None  # from now on the client says what is a turn
            self._timers.cancel("resume")
            self._floor.release()
        self._ear.hearing.configure(vad)
        if self._turn is not None:
            self._preparation.refresh(self._turn)

    # What replies report

    def on_transcript(self, run: ReplyRun, transcript: Transcript) -> None:
        turn = self._preparation.turn_of(run)
        if turn is not None and run in (turn.run, turn.scribe):
            self._committed.learn(turn)
            self._decide(turn)

    def on_answering(self, run: ReplyRun) -> None:
        turn = self._preparation.turn_of(run)
        if turn is not None and turn.run is run:
            self._decide(turn)

    async def on_content(self, run: ReplyRun, delta: TextDelta | ToolCallDelta | AudioDelta) -> None:
        await self._answers.write(run, delta)

    async def on_done(self, run: ReplyRun, done: Done) -> None:
        self._answers.finish(run, done)

    def on_failed(self, run: ReplyRun, error: ErrorInfo) -> None:
        turn = self._preparation.turn_of(run)
        if turn is not None and run in (turn.run, turn.scribe):
            self._committed.learn(turn)
            self._decide(turn)
        if run.response_id is not None:
            self._answers.fail(run, error)

    def _expire(self) -> None:
        minutes = self._options.max_duration_s // 60
        self._do(self._core.server_error("session_expired", f"The session has lasted {minutes} minutes, its maximum."))
        self._outbox.close(Close(1001, "session expired", told=True))


def _ms(position: int) -> int:
    return position * 1000 // RATE
