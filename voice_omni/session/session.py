"""One conversation: executes what the protocol decides, and tells it what was heard and what is answered.

All of it runs on one event loop, and every decision is made without awaiting: between a person's onset and the end of
the old answer nothing else can run, so nothing stale can be sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from voice_omni.audio.pcm import Samples
from voice_omni.client.interface import AudioDelta, Done, TextDelta, ToolCallDelta, Transcript
from voice_omni.proto.errors import ErrorInfo
from voice_omni.realtime import commands
from voice_omni.session.answers import Answers
from voice_omni.session.committed import CommittedTurns
from voice_omni.session.floor import Floor
from voice_omni.session.idle import IdleTimeout
from voice_omni.session.outbox import Close
from voice_omni.session.parts import SessionParts
from voice_omni.session.preparation import Preparation
from voice_omni.session.reply_run import ReplyRun
from voice_omni.session.replying import Replying
from voice_omni.session.speakers import speaker_of
from voice_omni.session.timers import Timers
from voice_omni.session.turn import NewTurns
from voice_omni.session.turn_taking import TurnTaking


class VoiceSession:
    """Belongs to one transport, which passes on what the client sends and sends what the outbox gives."""

    def __init__(self, parts: SessionParts) -> None:
        core, options, clock = parts.core, parts.options, parts.clock
        self._core = core
        self._dialect = parts.dialect
        self._counters = parts.counters
        self._outbox = parts.outbox
        self._options = options
        self._timers = Timers()
        self._new_turns = NewTurns(parts.ids, parts.hearing.model_rate)
        self._preparation = Preparation(parts.client, core, parts.voices, self)
        speaker = speaker_of(parts)
        self._answers = Answers(
            core,
            parts.outbox,
            parts.fence,
            speaker,
            clock=clock,
            include_timings=parts.include_timings,
            finished=self._answered,
        )
        self._idle = IdleTimeout(core, speaker, self._timers, options, lambda: self._turns.quiet, self._speak_unasked)
        self._committed = CommittedTurns(
            core, self._preparation, self._timers, options, parts.transcribes, self._do, self._reconsider
        )
        floor = Floor(core, self._answers, speaker, options, parts.counters, clock, self._do)
        self._replying = Replying(
            core,
            self._new_turns,
            self._preparation,
            self._committed,
            self._answers,
            floor,
            self._idle,
            self._do,
        )
        self._turns = TurnTaking(
            parts,
            self._new_turns,
            self._preparation,
            self._committed,
            floor,
            self._replying,
            self._idle,
            self._timers,
            self._do,
        )

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
                await self._turns.ear.listen(output.samples, output.sample_rate)
            else:
                self._do([output])

    async def close(self) -> None:
        """End everything that runs for this session; returns when nothing does."""
        self._timers.cancel_all()
        self._turns.ear.close()
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
                self._turns.hear(self._turns.ear.hearing.push(samples, sample_rate))
            case commands.ClearAudio():
                self._turns.clear()
            case commands.KeepLatest(milliseconds):
                self._turns.shorten(milliseconds)
            case commands.TurnCommitted(item_id):
                self._turns.commit(item_id)
            case commands.ItemAudio():
                self._committed.given(self._new_turns.brought(command), command.item_id)
            case commands.StartReply():
                self._replying.answer(command)
            case commands.CancelReply(response_id):
                if self._answers.cut(response_id):
                    self._idle.answered()
            case commands.StopPlayback():
                self._answers.silence()
            case commands.ContextChanged():
                self._reconsider()
            case _:
                assert_never(command)

    def _reconsider(self) -> None:
        self._turns.reconsider()

    # What happens by itself

    def _answered(self, in_conversation: bool) -> None:
        self._reconsider()
        self._replying.pay()
        if in_conversation:
            self._idle.answered()

    def _speak_unasked(self, timeout_ms: int) -> None:
        """Nobody has said anything for so long: the model does."""
        self._counters.idle_timeouts += 1
        now_ms = self._turns.ear.hearing.position_ms
        self._do(self._core.idle_timeout(max(0, now_ms - timeout_ms), now_ms, self._options.idle_prompt))

    def _expire(self) -> None:
        minutes = self._options.max_duration_s // 60
        self._do(self._core.server_error("session_expired", f"The session has lasted {minutes} minutes, its maximum."))
        self._outbox.close(Close(1001, "session expired", told=True))

    # What replies report

    def on_transcript(self, run: ReplyRun, transcript: Transcript) -> None:
        self._learn(run)

    def on_answering(self, run: ReplyRun) -> None:
        turn = self._preparation.turn_of(run)
        if turn is not None and turn.run is run:
            self._turns.decide(turn)

    async def on_content(self, run: ReplyRun, delta: TextDelta | ToolCallDelta | AudioDelta) -> None:
        await self._answers.write(run, delta)

    async def on_done(self, run: ReplyRun, done: Done) -> None:
        self._answers.finish(run, done)

    def on_failed(self, run: ReplyRun, error: ErrorInfo) -> None:
        self._learn(run)
        if run.response_id is not None:
            self._answers.fail(run, error)

    def _learn(self, run: ReplyRun) -> None:
        turn = self._preparation.turn_of(run)
        if turn is not None and run in (turn.run, turn.scribe):
            self._committed.learn(turn)
            self._turns.decide(turn)
