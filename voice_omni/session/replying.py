"""Which answer a response is given, and when the server answers without being asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from voice_omni.realtime.commands import ItemAudio, Output, StartReply
from voice_omni.realtime.core import RealtimeCore
from voice_omni.session.answers import Answers
from voice_omni.session.committed import CommittedTurns
from voice_omni.session.floor import Floor
from voice_omni.session.idle import IdleTimeout
from voice_omni.session.preparation import Preparation
from voice_omni.session.turn import NewTurns, Turn


class Replying:
    """What the protocol has to say of it is handed to ``do``."""

    def __init__(
        self,
        core: RealtimeCore,
        new_turns: NewTurns,
        preparation: Preparation,
        committed: CommittedTurns,
        answers: Answers,
        floor: Floor,
        idle: IdleTimeout,
        do: Callable[[Iterable[Output]], None],
    ) -> None:
        self._core = core
        self._new_turns = new_turns
        self._preparation = preparation
        self._committed = committed
        self._answers = answers
        self._floor = floor
        self._idle = idle
        self._do = do
        self._owed = False  # the server will answer the last turn without being asked
        self._unasked: str | None = None  # the last response that it began so

    def owe(self) -> None:
        """A turn was said that the server answers by itself, if the settings want that."""
        vad = self._core.session.audio.input.turn_detection
        self._owed = vad is not None and vad.create_response
        self.pay()

    def owe_again(self) -> None:
        """An answer was :meth:`displaced` by what was no turn."""
        self._owed = True
        self.pay()

    def pay(self) -> None:
        """Answer the last turn, if that is owed and no other answer is under way."""
        if self._owed and self._core.responses.active is None:
            self._owed = False
            outputs = self._core.respond()
            self._unasked = self._core.responses.active.id if self._core.responses.active is not None else None
            self._do(outputs)

    def displaced(self, unheard: str | None) -> bool:
        """Somebody has the floor, and the response ``unheard`` ended before a word of it was heard; None: none did.

        Nothing is owed any more. Whether that, or an unasked answer of which nothing was heard, had to give way.
        """
        owed, self._owed = self._owed, False
        return owed or (unheard is not None and unheard == self._unasked)

    def answer(self, command: StartReply) -> None:
        """Give the response its reply: the one that was prepared for it, if it is still what is asked for."""
        response_id, heard = command.response_id, command.heard
        response = self._core.responses.get(response_id)
        if response is None:
            return
        if isinstance(heard, ItemAudio):
            turn: Turn | None = self._new_turns.brought(heard)
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
