"""One turn of the person: its sound, and the reply that is being prepared for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from voice_omni.realtime.commands import ItemAudio
from voice_omni.realtime.ids import IdFactory
from voice_omni.session.reply_run import ReplyRun
from voice_omni.session.utterance import Utterance


@dataclass(slots=True)
class Moments:
    """When a turn was decided, in monotonic seconds; None where it has not come to that."""

    speech_end: float | None = None
    paused: float | None = None
    stopped: float | None = None
    committed: float | None = None
    first_audio: float | None = None


@dataclass(slots=True)
class Contest:
    """What the client will be told if the turn takes the floor: when speech began and, once it has, stopped."""

    began_ms: int
    stopped_ms: int | None = None


@dataclass(slots=True, eq=False)
class Turn:
    """From the first sound to the answer.

    ``run``: its reply. ``scribe``: what writes its words down where the reply does not tell them. ``ended``: nothing
    will be added. ``item_id``: the conversation's item that it has become. ``retried``: its reply failed once for a
    reason that may pass. ``contested``: it began over an answer, and the client does not know of it yet. ``over``: the
    items that were being played when it began. ``displaced``: an answer of which not a word was heard had to give way
    to it. ``lasted_ms``: of its speech, without the silence at its end.
    """

    utterance: Utterance
    run: ReplyRun | None = None
    scribe: ReplyRun | None = None
    ended: bool = False
    retried: bool = False
    item_id: str | None = None
    contested: Contest | None = None
    over: set[str] = field(default_factory=set)
    displaced: bool = False
    lasted_ms: float = 0.0
    moments: Moments = field(default_factory=Moments)

    @property
    def telling(self) -> ReplyRun | None:
        """What its words are learnt from."""
        return self.scribe or self.run

    @property
    def answerable(self) -> bool:
        """Whether its reply can be given to a response: nobody has it, and it has not failed but may yet succeed."""
        run = self.run
        if run is None or run.response_id is not None:
            return False
        return run.error is None or self.retried or not run.error.retryable


class NewTurns:
    """Makes one session's turns."""

    def __init__(self, ids: IdFactory, sample_rate: int) -> None:
        """``sample_rate``: Hz, at which the model takes sound."""
        self._ids = ids
        self._sample_rate = sample_rate

    def begin(self) -> Turn:
        return Turn(Utterance(self._ids("utt"), self._sample_rate))

    def brought(self, sound: ItemAudio) -> Turn:
        """Sound that the client brings along is a turn that is over."""
        turn = self.begin()
        turn.utterance.append_all(sound.samples, sound.sample_rate)
        turn.ended = True
        return turn

    def shorten(self, turn: Turn, milliseconds: int) -> None:
        """Only the last of the turn's sound is still its own."""
        turn.utterance = turn.utterance.latest(self._ids("utt"), milliseconds / 1000)
