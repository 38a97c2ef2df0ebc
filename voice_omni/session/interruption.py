"""When speech over an answer interrupts it. Pure: what is known of the speech in, a verdict out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from voice_omni.session.options import SessionOptions
from voice_omni.session.words import is_backchannel


class Verdict(Enum):
    WAIT = "wait"
    INTERRUPT = "interrupt"
    DISMISS = "dismiss"
    """It was no interruption: the answer goes on, and nobody is told of the speech."""


@dataclass(frozen=True, slots=True)
class Speech:
    """What is known of speech over an answer.

    ``lasted_ms``: from its onset to its last sound. ``words``: understood so far, none of them the answer's own;
    ``final``: there will be no others; ``untold``: it is being answered by a pipeline that tells no words. ``over``:
    its turn has ended.
    """

    lasted_ms: float
    words: tuple[str, ...] = ()
    final: bool = False
    untold: bool = False
    over: bool = False


class InterruptStrategy(Protocol):
    @property
    def immediate(self) -> bool:
        """Whether any onset interrupts: there is nothing to wait for."""
        ...

    def judge(self, speech: Speech) -> Verdict: ...


@dataclass(frozen=True, slots=True)
class AtOnset:
    """What the Realtime contract describes, and what clients without a strategy of their own expect."""

    immediate: bool = True

    def judge(self, speech: Speech) -> Verdict:
        return Verdict.INTERRUPT


@dataclass(frozen=True, slots=True)
class Never:
    """Nothing interrupts the answer, and what is said over it to its end is dropped."""

    immediate: bool = False

    def judge(self, speech: Speech) -> Verdict:
        return Verdict.DISMISS if speech.over else Verdict.WAIT


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Speech interrupts when it has lasted, or when its words show that it means to.

    While that is open the answer's sound is held. Where words count, speech that ends before ``min_ms`` is judged by
    them once they are final; where they do not, it is no interruption. ``certain_ms`` is for pipelines that tell no
    words while somebody speaks.
    """

    min_ms: int
    min_words: int
    certain_ms: int
    ignore_backchannels: bool
    immediate: bool = False

    def judge(self, speech: Speech) -> Verdict:
        long_enough = speech.lasted_ms >= self.min_ms
        if self.min_words == 0 and not self.ignore_backchannels:
            return Verdict.INTERRUPT if long_enough else Verdict.DISMISS if speech.over else Verdict.WAIT
        enough = len(speech.words) >= max(self.min_words, 1)
        meant = enough and not (self.ignore_backchannels and is_backchannel(speech.words))
        if speech.over and speech.final:
            return Verdict.INTERRUPT if meant or speech.untold else Verdict.DISMISS
        certain = speech.lasted_ms >= self.certain_ms and not speech.over
        return Verdict.INTERRUPT if long_enough and (meant or certain) else Verdict.WAIT


_NEVER_MS: Final = 1 << 30


def interrupt_strategy(options: SessionOptions, *, echoing: bool) -> InterruptStrategy:
    """``echoing``: the answers are heard in the person's microphone, so that only words show who speaks."""
    if echoing:
        words = max(options.interrupt_min_words, 1)
        return Confirmed(options.interrupt_min_ms, words, _NEVER_MS, options.ignore_backchannels)
    if options.interrupt_min_ms == 0 and options.interrupt_min_words == 0 and not options.ignore_backchannels:
        return AtOnset()
    return Confirmed(
        options.interrupt_min_ms, options.interrupt_min_words, options.interrupt_certain_ms, options.ignore_backchannels
    )
