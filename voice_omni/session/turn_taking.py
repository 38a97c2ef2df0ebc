"""From what is heard to what was said: a turn begins, pauses, goes on, ends, and becomes an item or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from voice_omni.realtime.commands import Output
from voice_omni.session.committed import CommittedTurns
from voice_omni.session.ear import Ear
from voice_omni.session.floor import Claim, Floor
from voice_omni.session.hearing import Heard, HearingEvent, TurnBegan
from voice_omni.session.idle import IdleTimeout
from voice_omni.session.interruption import Verdict
from voice_omni.session.parts import SessionParts
from voice_omni.session.preparation import Preparation
from voice_omni.session.replying import Replying
from voice_omni.session.silero import RATE
from voice_omni.session.timers import Timers
from voice_omni.session.turn import Contest, Moments, NewTurns, Turn
from voice_omni.session.turn_detection import Paused, Resumed, Stopped


class TurnTaking:
    """One session's turn, from its first sound to the item that it becomes.

    Every decision is made without awaiting. What the protocol has to say of it is handed to ``do``.
    """

    def __init__(
        self,
        parts: SessionParts,
        new_turns: NewTurns,
        preparation: Preparation,
        committed: CommittedTurns,
        floor: Floor,
        replying: Replying,
        idle: IdleTimeout,
        timers: Timers,
        do: Callable[[Iterable[Output]], None],
    ) -> None:
        self.ear = Ear(
            *(parts.hearing, parts.judge, timers, parts.options, parts.counters, parts.clock, self.hear, parts.core.id)
        )
        self._core = parts.core
        self._options = parts.options
        self._counters = parts.counters
        self._clock = parts.clock
        self._new_turns = new_turns
        self._preparation = preparation
        self._committed = committed
        self._floor = floor
        self._replying = replying
        self._idle = idle
        self._timers = timers
        self._do = do
        self._turn: Turn | None = None  # being spoken, or over and not decided

    @property
    def quiet(self) -> bool:
        """Whether nobody is speaking or being understood."""
        return self._turn is None

    # What is heard

    def hear(self, events: Iterable[HearingEvent]) -> None:
        for event in events:
            match event:
                case TurnBegan(begin, _):
                    self._began(_ms(begin))
                case Heard(_, voiced_ms):
                    turn = self._begin()
                    self._grow(turn, event)
                    turn.lasted_ms = max(turn.lasted_ms, voiced_ms)
                    if turn.contested is not None:
                        self._settle(turn, turn.contested)
                case Paused(quiet_from, at):
                    self._pause(quiet_from, at)
                case Resumed():
                    if self._turn is not None:
                        self._resume(self._turn)
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
        turn = self._begin()
        turn.contested = turn.contested or contest
        turn.over |= over
        turn.displaced |= displaced

    def _barge_in(self) -> bool:
        """End the answer under way. Whether one that the server owes was ended before a word of it was heard."""
        return self._replying.displaced(self._floor.interrupt())

    def _begin(self) -> Turn:
        if self._turn is None:
            self._turn = self._new_turns.begin()
            self._preparation.begin(self._turn)
        elif self._turn.ended:
            # It ended and was not decided yet, so its answer has not been heard: what is said now belongs to it.
            self._turn.ended = False
            self._resume(self._turn)
        return self._turn

    def _grow(self, turn: Turn, heard: Heard) -> None:
        if turn.moments.paused is not None:
            self._resume(turn)  # what is being answered lacks this
        turn.utterance.append(heard.samples)

    def _resume(self, turn: Turn) -> None:
        """The turn goes on: an answer to its beginning is of no use."""
        turn.moments = Moments()
        self._preparation.begin(turn)

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
            self.decide(turn)

    # What is said over an answer

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
        self.forget()
        self._idle.resume()

    # From a turn to an item

    def decide(self, turn: Turn) -> None:
        """Commit a turn that is over as soon as it is known to hold words; forget it if it holds none."""
        if turn is not self._turn or (turn.contested is not None and not self._settle(turn, turn.contested)):
            return
        run = turn.run
        if not turn.ended or run is None:
            return
        if run.found_nothing:
            self._counters.wordless += 1
            self._drop(turn)
        elif self._floor.echoes(turn):
            self._floor.caught_echo()
            self._drop(turn)
        elif run.error is not None and run.error.retryable and not turn.retried:
            turn.retried = True
            self._preparation.begin(turn)
        elif run.error is not None or run.found_words:
            self._counters.turns += 1
            self._do(self._core.commit())
            self._replying.owe()

    def _drop(self, turn: Turn) -> None:
        """It was none after all. An answer that had to make way for it unheard is made again."""
        self.forget()
        self._do(self._core.drop_turn())
        if turn.displaced:
            self._counters.false_interruptions += 1
            self._replying.owe_again()
        self._idle.resume()

    def commit(self, item_id: str) -> None:
        """The turn is the conversation's item ``item_id``."""
        turn, self._turn = self._turn or self._new_turns.begin(), None
        if not turn.ended:
            for heard in self.ear.cut():
                self._grow(turn, heard)
            turn.ended = True
            self._preparation.end_input(turn)
        self._idle.turn()
        turn.moments.committed = self._clock()
        self._committed.add(turn, item_id)

    # What the client or the settings want of it

    def forget(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            self._preparation.drop(turn)
            if turn.contested is not None:
                self._timers.cancel("resume")
                self._floor.release()

    def clear(self) -> None:
        """What has been heard by now is nobody's turn."""
        self.ear.cut()
        self.forget()

    def shorten(self, milliseconds: int) -> None:
        """Only the last of the turn's sound is answered."""
        if self._turn is not None:
            self._new_turns.shorten(self._turn, milliseconds)
            self._preparation.begin(self._turn)

    def reconsider(self) -> None:
        """Settings or items have changed: an answer being prepared from what held before begins anew."""
        vad, turn = self._core.session.audio.input.turn_detection, self._turn
        if vad is not None and not self.ear.hearing.detecting:
            self.forget()  # it was waiting for a commit by hand
        elif vad is None and turn is not None and turn.contested is not None:
            turn.contested = None  # from now on the client says what is a turn
            self._timers.cancel("resume")
            self._floor.release()
        self.ear.hearing.configure(vad)
        self._idle.reconsider()
        if self._turn is not None:
            self._preparation.refresh(self._turn)


def _ms(position: int) -> int:
    return position * 1000 // RATE
