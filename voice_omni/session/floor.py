"""Who has the floor: what speech over an answer does to it, and whether it was only the answer's own echo."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final

from voice_omni.realtime.commands import Output
from voice_omni.realtime.core import RealtimeCore
from voice_omni.realtime.items import MessageItem
from voice_omni.session.answers import Answers
from voice_omni.session.counters import TurnCounters
from voice_omni.session.interruption import Never, Speech, Verdict, interrupt_strategy
from voice_omni.session.options import SessionOptions
from voice_omni.session.speaker import Speaker
from voice_omni.session.turn import Turn
from voice_omni.session.words import is_echo, words_of

_ECHO_TAIL_S: Final = 1.0
"""An answer that ended so long before speech began can still be its echo: rooms, networks, loudspeakers."""


class Claim(Enum):
    """What the onset of speech may do."""

    TAKE = "take"
    """Be told to the client, and end the answer that is under way or still being played."""
    SHARE = "share"
    """Be told to the client, and leave the answer alone."""
    CONTEST = "contest"
    """Nothing yet: the answer's sound is held until the strategy has judged."""


class Floor:
    """One session's. It remembers when the first answer began and whether answers echo; turns hold the rest."""

    def __init__(
        self,
        core: RealtimeCore,
        answers: Answers,
        speaker: Speaker,
        options: SessionOptions,
        counters: TurnCounters,
        clock: Callable[[], float],
        do: Callable[[Iterable[Output]], None],
    ) -> None:
        """``do`` carries out what the protocol decides."""
        self._core = core
        self._answers = answers
        self._do = do
        self._speaker = speaker
        self._options = options
        self._counters = counters
        self._clock = clock
        self._echoing = False
        self._last_protected = False

    def answering(self, interruptible: bool) -> None:
        """An answer in the conversation begins."""
        self._last_protected = not interruptible

    def claim(self) -> Claim:
        vad = self._core.session.audio.input.turn_detection
        if vad is None or not vad.interrupt_response:
            return Claim.SHARE
        if not self.taken:
            return Claim.TAKE
        if self._protected:
            return Claim.SHARE if self._options.protected_speech == "keep" else Claim.CONTEST
        if interrupt_strategy(self._options, echoing=self._echoing).immediate:
            return Claim.TAKE
        self._speaker.hold()
        return Claim.CONTEST

    def interrupt(self) -> str | None:
        """End the answer under way, or what is still being played of the last one.

        Returns the id of a response of which not a word was heard.
        """
        active = self._core.responses.active
        if active is None:
            if self._speaker.playing:
                self._counters.interruptions += 1
                self._answers.silence()
            return None
        self._counters.interruptions += 1
        self._do(self._core.cancel(active.id, "turn_detected"))
        return active.id if active.item is None or active.item.message() is None else None

    def release(self) -> None:
        """The answer may be heard again, if there still is one."""
        self._speaker.release()

    def judge(self, turn: Turn) -> Verdict:
        """Of a contested turn, from what is known of it now."""
        if not self.taken:
            return Verdict.INTERRUPT
        strategy = Never() if self._protected else interrupt_strategy(self._options, echoing=self._echoing)
        run = turn.run
        text = run.transcript.text if run is not None and run.transcript is not None else ""
        words = () if self.echoes(turn) else words_of(text)
        final = run is not None and (run.found_nothing or run.found_words or run.error is not None)
        untold = run is not None and run.answering and run.transcript is None
        lasted_ms = turn.lasted_ms
        return strategy.judge(Speech(lasted_ms, words, final=final, untold=untold, over=turn.ended))

    def echoes(self, turn: Turn) -> bool:
        """Whether the turn's words are those that were just being spoken to the person."""
        if turn.run is None or turn.run.transcript is None:
            return False
        items = (self._core.conversation.find(item_id) for item_id in turn.over)
        parts = (part for item in items if isinstance(item, MessageItem) for part in item.content)
        spoken = " ".join(part.text for part in parts if part.text)
        return is_echo(words_of(turn.run.transcript.text), words_of(spoken), self._options.echo_similarity)

    def caught_echo(self) -> None:
        """From now on in this session, only words that are not the answer's own interrupt it."""
        self._echoing = True
        self._counters.echoes += 1

    def audible(self) -> set[str]:
        """The items that are being played, or have been until just now."""
        return self._speaker.audible(self._clock() - _ECHO_TAIL_S)

    @property
    def taken(self) -> bool:
        """Whether there is an answer to interrupt."""
        return self._core.responses.active is not None or self._speaker.playing

    @property
    def _protected(self) -> bool:
        began, warm_up = self._speaker.first_sound, self._options.echo_warm_up_ms / 1000
        return self._last_protected or (began is not None and self._clock() - began < warm_up)
