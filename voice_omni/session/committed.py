"""Turns that are items of the conversation: words that are still to be learnt, an answer still to be asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from voice_omni.proto.errors import ErrorInfo
from voice_omni.realtime.commands import Output
from voice_omni.realtime.core import RealtimeCore
from voice_omni.session.options import SessionOptions
from voice_omni.session.preparation import Preparation
from voice_omni.session.timers import Timers
from voice_omni.session.turn import Turn

_MAX_UNKNOWN: Final = 64
_MAX_UNKNOWN_S: Final = 600.0
"""Turns of which the words are not known, yet or for ever, and seconds of them, whose sound is kept."""


class CommittedTurns:
    """What is learnt is handed to ``do``, as events; then ``changed`` is called, as the conversation says more."""

    def __init__(
        self,
        core: RealtimeCore,
        preparation: Preparation,
        timers: Timers,
        options: SessionOptions,
        transcribes: bool,
        do: Callable[[Iterable[Output]], None],
        changed: Callable[[], None],
    ) -> None:
        """``transcribes``: whether an answer to speech also tells what was heard."""
        self._core = core
        self._preparation = preparation
        self._timers = timers
        self._options = options
        self._transcribes = transcribes
        self._do = do
        self._changed = changed
        self._prepared: Turn | None = None  # its answer is being made, and not asked for yet
        self._unknown: dict[str, Turn] = {}  # words not known yet; by item id

    def add(self, turn: Turn, item_id: str) -> None:
        """The turn is the conversation's item ``item_id``; its answer, which is being made, may be asked for."""
        self._release()
        if not self._core.transcribes_only:
            self._prepared = turn
            self._timers.set("hold", self._options.hold_ms / 1000, self._release)
        self._remember(turn, item_id)
        self.learn(turn)

    def given(self, turn: Turn, item_id: str) -> None:
        """The turn is sound in a client's own item; its words are learnt now if somebody wants them or the model will
        not tell them, else when it is answered."""
        self._remember(turn, item_id)
        if self._core.transcripts_wanted and turn.scribe is None:
            self._preparation.transcribe(turn)

    def learn(self, turn: Turn) -> None:
        """Pass on what is known of the turn's words."""
        run, item_id = turn.telling, turn.item_id
        if run is None or item_id is None or item_id not in self._unknown:
            return
        if run.found_nothing or run.final_words is not None:
            del self._unknown[item_id]
            self._do(self._core.transcribed(item_id, run.final_words or "", turn.utterance.seconds))
            if turn is not self._prepared:
                self._preparation.drop(turn)
            self._preparation.dismiss(turn)
            self._changed()
        elif run.error is not None:
            self._do(self._core.transcription_failed(item_id, run.error))
        elif run.transcript is not None:
            self._do(self._core.transcribing(item_id, run.transcript.text))

    def spoken(self) -> Turn | None:
        """The turn that an answer is to be given to as sound: the last thing said, or what is not known as text."""
        conversation, prepared = self._core.conversation, self._prepared
        if prepared is not None and prepared.item_id == conversation.last_id:
            return prepared
        turns = (turn for item_id, turn in reversed(self._unknown.items()) if conversation.find(item_id) is not None)
        return next(turns, None)

    def unknown(self, item_id: str | None) -> Turn | None:
        """The turn that is the item, if its words are not known."""
        return self._unknown.get(item_id) if item_id is not None else None

    def answered(self, turn: Turn) -> None:
        """A response of the conversation has the turn's answer."""
        if turn is self._prepared:
            self._prepared = None

    def _remember(self, turn: Turn, item_id: str) -> None:
        """The item ``item_id`` is sound of which the words are not known. The oldest are given up for it."""
        turn.item_id = item_id
        self._unknown[item_id] = turn
        if not (self._transcribes or self._core.transcribes_only):
            self._preparation.transcribe(turn)
        seconds = sum(each.utterance.seconds for each in self._unknown.values())
        for old_id, old in list(self._unknown.items()):
            if old is turn or (len(self._unknown) <= _MAX_UNKNOWN and seconds <= _MAX_UNKNOWN_S):
                return
            seconds -= old.utterance.seconds
            del self._unknown[old_id]
            telling = old.telling
            if telling is not None and telling.response_id is None and telling.error is None:
                self._preparation.drop(old)
                self._preparation.dismiss(old)
                failure = ErrorInfo("overloaded", "Too much sound is waiting to be understood.", retryable=True)
                self._do(self._core.transcription_failed(old_id, failure))

    def _release(self) -> None:
        """Nobody asked for the answer that was being made; what was said may still have to be transcribed."""
        turn, self._prepared = self._prepared, None
        if turn is not None and turn.item_id not in self._unknown:
            self._preparation.drop(turn)
