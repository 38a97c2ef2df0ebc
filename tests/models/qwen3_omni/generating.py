"""The thinker's and the talker's stages on the tiny checkpoint: real runners, schedulers and engines, simulated
time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import torch

from tests.models.qwen3_omni.oracle import Answer, Case, Oracle, Prompts
from tests.models.qwen3_omni.segments import Segments
from tests.support.scheduling import Simulation, nothing_held
from voice_omni.engines.interface import Piece
from voice_omni.engines.torch_engine import TorchEngine
from voice_omni.model_runner.interface import StreamedRunner
from voice_omni.models.qwen3_omni.backbones import TalkerModules, ThinkerModules, load_talker, load_thinker
from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
from voice_omni.models.qwen3_omni.config import OmniConfig, TalkerConfig
from voice_omni.models.qwen3_omni.options import TalkerOptions, ThinkerOptions
from voice_omni.models.qwen3_omni.talker import Talker
from voice_omni.models.qwen3_omni.talker_prompt import TalkerPrompt
from voice_omni.models.qwen3_omni.talker_runner import TalkerRunner
from voice_omni.models.qwen3_omni.thinker import Thinker
from voice_omni.models.qwen3_omni.thinker_runner import ThinkerRunner
from voice_omni.models.qwen3_omni.wire import CODES, PROMPT, TOKENS, USER
from voice_omni.proto.payload import Data, OmniRequest, StagePayload
from voice_omni.scheduling.interface import (
    AbortedOut,
    AbortIn,
    ChunkIn,
    CreditIn,
    EndIn,
    FailedOut,
    Incoming,
    New,
    ResultOut,
    StreamOut,
)
from voice_omni.scheduling.omni import OmniScheduler
from voice_omni.scheduling.options import OmniOptions

CASES: dict[str, Callable[[Prompts], Case]] = {
    "text": lambda prompts: prompts.text(),
    "two turns of the person around an answer": lambda prompts: prompts.turns(),
    "0.6 s of sound": lambda prompts: prompts.audio(60),
    "1 s of sound": lambda prompts: prompts.audio(100),
    "2.37 s of sound": lambda prompts: prompts.audio(237),
    "9 s of sound": lambda prompts: prompts.audio(900),
    "two turns of sound around an answer": lambda prompts: prompts.two_sounds(130, 60),
    "a picture": lambda prompts: prompts.image(),
    "a film with its sound": lambda prompts: prompts.film(),
    "a picture, and a film with its sound": lambda prompts: prompts.film(image_too=True),
}


LIMITS = {"thinker_max_new_tokens": 12, "talker_max_new_tokens": 20}
"""The oracle's, as :class:`Stages` has them unless told otherwise."""


@dataclass(eq=False, repr=False)
class World:
    """The tiny checkpoint as the oracle has it and as the stages have it."""

    config: OmniConfig
    oracle: Oracle
    thinker: ThinkerModules
    talker: TalkerModules
    _asked: dict[str, Answer] = field(default_factory=dict)

    @classmethod
    def of(cls, checkpoint: Checkpoint, published: Any) -> World:
        config = checkpoint.config
        return cls(config, Oracle(published, config), load_thinker(checkpoint), load_talker(checkpoint))

    @property
    def speech(self) -> TalkerConfig:
        assert self.config.talker is not None
        return self.config.talker

    def case(self, name: str) -> Case:
        return CASES[name](Prompts(self.config))

    def piece(self, name: str) -> Piece:
        return self.oracle.piece(self.case(name))

    def theirs(self, name: str) -> Answer:
        """What the oracle answers within :data:`LIMITS`; it is asked once."""
        if name not in self._asked:
            self._asked[name] = self.oracle.answer(self.case(name), **LIMITS)
        return self._asked[name]


@dataclass
class Reply:
    """What came of one request."""

    tokens: list[int] = field(default_factory=list)
    frames: list[list[int]] = field(default_factory=list)
    parts: list[Data] = field(default_factory=list)
    thought: Data | None = None
    spoken: Data | None = None
    failed: list[FailedOut] = field(default_factory=list)
    aborted: int = 0

    @property
    def hidden(self) -> np.ndarray[Any, Any]:
        return np.concatenate([part["hidden"] for part in self.parts])


class Stages:
    """Both stages with a hand on everything between them. Use as a context."""

    def __init__(
        self,
        here: World,
        *,
        thinking: dict[str, Any] | None = None,
        talking: dict[str, Any] | None = None,
        max_rows: int = 16,
        lead_s: float | None = None,
    ) -> None:
        """``thinking``, ``talking``: options. Both are greedy if these do not say otherwise. ``lead_s``: of the
        talker."""
        stop = frozenset({here.config.im_end_token_id})
        think = ThinkerOptions(**{"max_new_tokens": 12, **(thinking or {})})
        talk = TalkerOptions(**{"max_new_tokens": 20, "temperature": 0.0, **(talking or {})})
        self.thinker_model, self.talker_model = Observed(Thinker(here.thinker)), Observed(Talker(here.talker))
        prompt = TalkerPrompt(here.talker)
        rows = OmniOptions(max_rows=max_rows)
        self._thinker = _simulation(ThinkerRunner(here.config, think, stop), self.thinker_model, think, rows)
        talker = TalkerRunner(here.speech, talk, prompt, here.config.frame_s)
        self._talker = _simulation(talker, self.talker_model, talk, msgspec.structs.replace(rows, lead_s=lead_s))
        self.replies: dict[str, Reply] = {}
        self.between: dict[str, list[Incoming]] = {}
        self._segments: dict[str, Segments] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Stages:
        self._stack.enter_context(self._thinker)
        self._stack.enter_context(self._talker)
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    # -- in --------------------------------------------------------------------------------------------------------

    def open(self, name: str, *, credits: int = 10_000, session: str | None = None, **params: Any) -> None:
        request = OmniRequest(request_id=name, route="test", params=params, session_id=session)
        self.replies[name] = Reply()
        self.between[name] = []
        self._segments[name] = Segments()
        self._thinker.feed(New(StagePayload(request), 10_000))
        self._talker.feed(New(StagePayload(request), credits))

    def prompt(self, name: str, *pieces: Piece) -> None:
        """Pieces of which each is a segment: what it holds of media comes right behind it."""
        for piece in pieces:
            for chunk in self._segments[name].of(piece):
                self._thinker.feed(ChunkIn(name, "preprocess" if PROMPT in chunk else "encoder", chunk))

    def close(self, name: str) -> None:
        self._thinker.feed(ChunkIn(name, "preprocess", Segments.end()), EndIn(name))

    def ask(self, name: str, *pieces: Piece, **how: Any) -> None:
        """A whole request at once."""
        self.open(name, **how)
        self.prompt(name, *pieces)
        self.close(name)

    def abort(self, name: str) -> None:
        self._thinker.feed(AbortIn(name))
        self._talker.feed(AbortIn(name))
        self.between[name].clear()

    def credit(self, name: str, count: int) -> None:
        self._talker.feed(CreditIn(name, count))

    # -- on the way ------------------------------------------------------------------------------------------------

    def think(self) -> None:
        """Let the thinker do what it can; what it says waits before the talker."""
        for message in self._thinker.run():
            reply, between = self.replies[message.request_id], self.between[message.request_id]
            match message:
                case StreamOut(name, data, targets):
                    reply.tokens += data.get(TOKENS, ())
                    reply.parts += [data[USER]] if USER in data else []
                    assert targets == (("decode",) if TOKENS in data else ("talker",))
                    if TOKENS not in data:
                        between.append(ChunkIn(name, "thinker", data))
                case ResultOut(name, data):
                    reply.thought = data
                    between.append(EndIn(name))
                case FailedOut() | AbortedOut():
                    _ended(reply, message)

    def hand_over(self, name: str, count: int | None = None) -> None:
        """Give the talker what waits for it, or the first so many chunks of it."""
        waiting = self.between[name]
        self._talker.feed(*waiting[:count])
        del waiting[:count]

    def talk(self, seconds: float = 0.0) -> None:
        for message in self._talker.run(seconds):
            reply = self.replies[message.request_id]
            match message:
                case StreamOut(_, data):
                    reply.frames += data[CODES].tolist()
                case ResultOut(_, data):
                    reply.spoken = data
                case FailedOut() | AbortedOut():
                    _ended(reply, message)

    def finish(self) -> dict[str, Reply]:
        """Everything to its end, as fast as it goes; nothing may be left."""
        self.think()
        for name in self.between:
            self.hand_over(name)
        self.talk()
        return self._at_rest()

    def finish_but(self, name: str) -> dict[str, Reply]:
        """Likewise, with a request that fails in the thinker's stage, whereupon the coordinator aborts it in the
        other."""
        self.think()
        self.abort(name)
        return self.finish()

    def _at_rest(self) -> dict[str, Reply]:
        assert nothing_held(self._thinker.scheduler.stats())
        assert nothing_held(self._talker.scheduler.stats())
        return self.replies


def answer(here: World, *pieces: Piece, stages: dict[str, Any] | None = None, **how: Any) -> Reply:
    """One request alone."""
    with Stages(here, **(stages or {})) as bench:
        bench.ask("alone", *pieces, **how)
        return bench.finish()["alone"]


class Observed:
    """A model whose inputs are noted: ``read``, each ``[n, width]``."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.read: list[torch.Tensor] = []

    @property
    def computed(self) -> int:
        """Positions in all."""
        return sum(map(len, self.read))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def forward(self, inputs: Any, cache: Any) -> Any:
        self.read.append(inputs.rows)
        return self._model.forward(inputs, cache)


@contextmanager
def recorded(*heads: torch.nn.Module) -> Iterator[list[torch.Tensor]]:
    """What these heads compute meanwhile, in order."""
    logits: list[torch.Tensor] = []
    hooks = [head.register_forward_hook(lambda module, given, output: logits.append(output)) for head in heads]
    try:
        yield logits
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def written(row: torch.Tensor, *heads: torch.Tensor, token: int) -> Iterator[None]:
    """A token's row ``[width]`` in ``heads``, ``[vocabulary, width]`` each: the oracle's and ours."""
    before = [head[token].clone() for head in heads]
    for head in heads:
        head.data[token] = row
    try:
        yield
    finally:
        for head, weights in zip(heads, before, strict=True):
            head.data[token] = weights


def ending(hidden: torch.Tensor, *heads: torch.Tensor, token: int) -> AbstractContextManager[None]:
    """Weights with which ``token`` ends the sequence at the last of these hidden rows ``[n, width]``, and not
    before."""
    wanted = torch.full((len(hidden), 1), -20.0)
    wanted[-1] = 40.0
    return written(torch.linalg.lstsq(hidden, wanted, driver="gelsd").solution[:, 0], *heads, token=token)


def _simulation(runner: StreamedRunner[Any], model: Observed, options: Any, rows: OmniOptions) -> Simulation:
    engine = TorchEngine(model, kept_positions=options.kept_positions)
    return Simulation(lambda outbox, clock: OmniScheduler(runner, engine, rows, outbox, clock))


def _ended(reply: Reply, message: FailedOut | AbortedOut) -> None:
    if isinstance(message, FailedOut):
        reply.failed.append(message)
    else:
        reply.aborted += 1
