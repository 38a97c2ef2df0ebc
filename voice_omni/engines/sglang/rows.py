"""The rows of an engine whose scheduler only knows requests: which request each row needs next. No I/O, no SGLang.

SGLang has no way to hold one request back, or to extend its prompt. What it has is a radix cache, which keeps the KV
of everything computed until the pool needs the place. So a row is a sequence of requests, one at a time:

- while its prompt is open, one that prefills what has been fed and generates nothing;
- then one that generates. To pause the row this one is aborted; to go on, another is sent whose prompt ends with the
  tokens so far. Each pays for what the cache does not hold: the new piece, or the last token.

While rows generate, what is fed to a prompt that stays open waits up to ``patience_s`` for more of its kind: a prefill
of a few positions takes as long as several decode steps, and nearly as long as one of many positions. A prompt that is
closed waits for nothing, and takes what has waited with it.

A row ends by its own rules (:class:`~voice_omni.engines.interface.Row`). When a request ends otherwise, as on an
end-of-sequence token that the row does not stop at, the next request goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from voice_omni.engines.interface import Feed, FinishReason, Piece, Row, RowOutput, Sampling
from voice_omni.engines.sglang.fed_row import FedRow, Told
from voice_omni.engines.sglang.framed import Embed, FramedRow
from voice_omni.engines.sglang.patience import Patience
from voice_omni.engines.sglang.prompt import Given, Limits, Prompt
from voice_omni.proto.errors import OmniError

End = Literal["stop", "length", "aborted", "taken_back", "error"]


@dataclass(frozen=True, slots=True)
class Ask:
    """Continue ``prompt`` and ``said``, what the row has generated so far, by ``new_tokens``. ``positions``: of both,
    where the model does not count them by itself. ``hidden``: spans, first and last position, whose hidden rows are
    wanted."""

    rid: str
    prompt: tuple[int, ...]
    said: tuple[int, ...] = ()
    new_tokens: int = 0
    stop: frozenset[int] = frozenset()
    sampling: Sampling = field(default_factory=Sampling)
    session: str | None = None
    given: tuple[Given, ...] = ()
    positions: NDArray[np.int64] | None = field(default=None, compare=False)
    hidden: tuple[tuple[int, int], ...] = ()
    fed: FedRow | None = None


@dataclass(frozen=True, slots=True)
class Abort:
    rid: str


@dataclass(frozen=True, slots=True)
class Reply:
    """``tokens``: new ones, a stop token among them. ``end``: nothing more comes for this request; ``error`` with it
    when it is ``"error"``. ``cached``: how many positions of the prompt were not computed. ``hidden``: float32
    ``[m, width]``, all the hidden rows that were wanted, at once. ``frames``: what a frame head wrote with each
    token."""

    rid: str
    tokens: list[int]
    end: End | None = None
    error: Exception | None = None
    cached: int = 0
    hidden: NDArray[np.float32] | None = field(default=None, compare=False)
    frames: Sequence[Sequence[int] | None] = ()


@dataclass(slots=True)
class _RowState:
    """``rid``: of the request that is under way; ``generates``: it does, and does not only prefill; ``aborted``: it
    has been told to end. ``asked``: how much of the prompt, as it is now, the last request held; ``wanted``: the places
    in it of the hidden rows that this request was asked for; ``told``: how much of the prompt has its rows reported.
    ``framed``: of a model with a frame head, what the row has read and written; ``fed``: what its request that
    generates computes with."""

    row: Row
    prompt: Prompt
    open: bool
    tokens: list[int] = field(default_factory=list)
    paused: bool = False
    removed: bool = False
    finish: FinishReason | None = None
    rid: str | None = None
    generates: bool = False
    aborted: bool = False
    asked: int = 0
    wanted: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    told: int = 0
    framed: FramedRow | None = None
    fed: FedRow | None = None


@dataclass(slots=True)
class _Gained:
    """``hidden``: places in the prompt, and their rows."""

    tokens: list[int] = field(default_factory=list)
    frames: list[list[int]] = field(default_factory=list)
    finish: FinishReason | None = None
    error: Exception | None = None
    hidden: list[tuple[NDArray[np.int64], NDArray[np.float32]]] = field(default_factory=list)


class Rows:
    """``send`` takes requests and news of them on their way, in order. ``limits``: what the model takes. ``embed``: of
    one that has a frame head, what it reads of frames with a condition each.

    Request ids end with a dot and hold no other: SGLang aborts every request whose id begins with the one given.
    """

    def __init__(
        self,
        send: Callable[[Ask | Abort | Told], None],
        limits: Limits,
        embed: Embed | None = None,
        patience_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._send = send
        self._limits = limits
        self._embed = embed
        self._patience = Patience(patience_s, clock)
        self._rows: dict[str, _RowState] = {}
        self._asking: dict[str, _RowState] = {}
        self._gained: dict[str, _Gained] = {}
        self._sent = 0

    def add(self, row: Row) -> None:
        """Raises :class:`OmniError` ``invalid_value`` for a prompt that the scheduler could not survive."""
        state = _RowState(row, Prompt(self._limits), row.open)
        if self._limits.framed and self._embed is not None:
            state.framed = FramedRow(row, self._limits, self._embed)
        elif row.padding is not None:
            raise OmniError("invalid_value", "this model takes no conditions")
        state.prompt.extend(Piece(row.prompt))
        _check(state, open_still=row.open)
        self._rows[row.row_id] = state
        self._next(state)

    def feed(self, row_id: str, feed: Feed) -> None:
        state = self._rows.get(row_id)
        if state is None:
            return
        if (feed.conditions is not None or feed.ended) and state.framed is None:
            raise OmniError("invalid_value", "this model takes no conditions")
        if (feed.closed or feed.kept is not None or any(map(len, feed.pieces))) and not state.open:
            raise OmniError("invalid_value", "the prompt of this row is closed")
        if feed.kept is not None:
            self._take_back(state, feed.kept)
        for piece in feed.pieces:
            state.prompt.extend(piece)
        open_still = state.open and not feed.closed
        _check(state, open_still=open_still)
        if state.framed is not None:
            self._condition(state, state.framed, feed)
        state.open = open_still
        self._next(state)

    def pause(self, row_id: str) -> None:
        state = self._rows.get(row_id)
        if state is None or state.paused:
            return
        state.paused = True
        if state.fed is not None:
            self._send(Told(state.fed, held=True))
        elif state.generates:
            self._abort(state)
        self._release()

    def resume(self, row_id: str) -> None:
        state = self._rows.get(row_id)
        if state is not None and state.paused:
            state.paused = False
            if state.fed is not None:
                self._send(Told(state.fed, held=False))
            self._next(state)

    def remove(self, row_id: str) -> None:
        state = self._rows.get(row_id)
        if state is None or state.removed:
            return
        state.removed = True
        if state.rid is None:
            self._report_end(state)
        else:
            self._abort(state)

    def receive(self, reply: Reply) -> None:
        """Replies to a request come in its order; one whose row has been cleared is nobody's."""
        state = self._asking.get(reply.rid)
        if state is None:
            return
        self._take_in(state, reply)
        self._release()

    def _take_in(self, state: _RowState, reply: Reply) -> None:
        if reply.hidden is not None:
            self._tell(state, reply.hidden)
        # The last step of a row that was aborted while it waited has read what was not there yet.
        blind = state.framed is not None and reply.end == "aborted"
        if state.generates and reply.end != "error" and not blind:
            self._gain(state, reply)
        if reply.end is None:
            if state.finish is not None:
                self._abort(state)
            return
        del self._asking[reply.rid]
        if reply.end == "length" and state.generates:
            # The row's own end, or the pool or the model's context has no place for more.
            state.finish = state.finish or "length"
        state.rid, state.generates, state.aborted, state.fed = None, False, False, None
        if state.removed or state.finish is not None or reply.error is not None:
            self._report_end(state, reply.error)
        else:
            self._next(state)

    @property
    def news(self) -> bool:
        """Whether :meth:`take` has something to report."""
        return bool(self._gained)

    def take(self) -> list[RowOutput]:
        gained, self._gained = self._gained, {}
        return [
            RowOutput(row_id, gain.tokens, gain.finish, gain.error, gain.frames, _joined(gain.hidden))
            for row_id, gain in gained.items()
        ]

    def clear(self) -> None:
        self._rows.clear()
        self._patience.take()
        self._asking.clear()
        self._gained.clear()

    def stats(self) -> dict[str, int]:
        return {"rows": len(self._rows), "requests": len(self._asking)}

    def _next(self, state: _RowState) -> None:
        """Ask for what the row needs now, if nothing is asked for it already and if it cannot wait."""
        if _needs(state) and not (state.open and self._generating() and self._patience.hold(state.row.row_id)):
            self._request(state)

    def _request(self, state: _RowState) -> None:
        self._patience.drop(state.row.row_id)
        self._sent += 1
        state.rid, state.asked, state.generates = f"{self._sent}.", len(state.prompt), not state.open
        self._asking[state.rid] = state
        hidden = state.prompt.spans(state.told) if self._limits.hidden else ()
        state.wanted = np.array([place for first, last in hidden for place in range(first, last + 1)], np.int64)
        asked = _ask(state, state.rid, hidden)
        state.fed = asked.fed
        self._send(asked)

    def _release(self) -> None:
        """Ask for all that has waited, if it has done so for long enough or if nothing is left to wait for. Every step
        of the rows that generate comes by here."""
        if self._patience and (self._patience.over or not self._generating()):
            for row_id in self._patience.take():
                if _needs(state := self._rows[row_id]):
                    self._request(state)

    def _generating(self) -> bool:
        """Whether a step is under way."""
        return any(
            state.generates and not state.paused and (state.framed is None or not state.framed.waits)
            for state in self._asking.values()
        )

    def _condition(self, state: _RowState, framed: FramedRow, feed: Feed) -> None:
        if feed.conditions is None and not feed.ended:
            return
        framed.take(feed.conditions, ended=feed.ended)
        if state.fed is not None:
            self._send(Told(state.fed, feed.conditions, feed.ended))

    def _take_back(self, state: _RowState, kept: int) -> None:
        """A prefill that is under way goes on: what is kept of it is needed, and the rest can stay in the cache."""
        state.prompt.cut(kept)
        state.asked, state.told = min(state.asked, kept), min(state.told, kept)
        gained = self._gained.get(state.row.row_id)
        if gained is not None:
            gained.hidden = [(places[places < kept], rows[places < kept]) for places, rows in gained.hidden]

    def _tell(self, state: _RowState, hidden: NDArray[np.float32]) -> None:
        """Of what the request was asked for, that which has not been taken back since."""
        state.told = state.asked
        kept = state.wanted < state.asked
        if kept.any():
            self._news(state).hidden.append((state.wanted[kept], hidden[kept]))

    def _abort(self, state: _RowState) -> None:
        if state.rid is not None and not state.aborted:
            state.aborted = True
            self._send(Abort(state.rid))

    def _gain(self, state: _RowState, reply: Reply) -> None:
        """A step that runs while its abort is on the way may pass the row's end."""
        for number, token in enumerate(reply.tokens):
            if state.finish is not None:
                return
            frame: Sequence[int] | None = reply.frames[number] if state.framed is not None else ()
            if frame is None:
                # The end of the prompt, which a model with a frame head does not sample from.
                continue
            if token in state.row.stop:
                state.finish = "stop"
                return
            state.tokens.append(token)
            self._news(state).tokens.append(token)
            if len(state.tokens) == state.row.max_new_tokens:
                state.finish = "length"
            elif state.framed is not None:
                state.framed.frames.append([int(code) for code in frame])
                self._news(state).frames.append(state.framed.frames[-1])

    def _report_end(self, state: _RowState, error: Exception | None = None) -> None:
        del self._rows[state.row.row_id]
        self._patience.drop(state.row.row_id)
        news = self._news(state)
        news.error = error
        if error is None:
            news.finish = "removed" if state.removed else state.finish

    def _news(self, state: _RowState) -> _Gained:
        return self._gained.setdefault(state.row.row_id, _Gained())


def _needs(state: _RowState) -> bool:
    """Whether there is something to ask for the row, and nothing asked."""
    if state.rid is not None or state.paused or state.removed:
        return False
    return not state.open or state.asked != len(state.prompt)


def _ask(state: _RowState, rid: str, hidden: tuple[tuple[int, int], ...]) -> Ask:
    row, prompt = state.row, state.prompt
    tokens, given, positions = tuple(prompt.tokens), tuple(prompt.given), prompt.positions(len(state.tokens))
    if state.open:
        return Ask(rid, tokens, session=row.session, given=given, positions=positions, hidden=hidden)
    left = row.max_new_tokens - len(state.tokens)
    said = tuple(state.tokens)
    fed = None
    if state.framed is not None:
        # One more, for the end of the prompt.
        left += 1
        said = ()
        tokens, given, fed = state.framed.request(prompt)
    return Ask(rid, tokens, said, left, row.stop, row.sampling, row.session, given, positions, hidden, fed)


def _joined(hidden: list[tuple[NDArray[np.int64], NDArray[np.float32]]]) -> NDArray[np.float32] | None:
    return np.concatenate([rows for _, rows in hidden]) if any(len(rows) for _, rows in hidden) else None


def _check(state: _RowState, *, open_still: bool) -> None:
    """Raises :class:`OmniError` ``invalid_value`` for a prompt that the scheduler could not survive."""
    prompt = state.prompt
    if state.framed is not None:
        state.framed.check(prompt, open_still=open_still)
    if open_still:
        return
    if not prompt:
        raise OmniError("invalid_value", "the prompt of this row is empty")
    penalised = state.framed is None and state.row.sampling.repetition_penalty != 1.0
    if penalised and prompt.ends_with_row:
        # SGLang penalises the last position before the first token is known.
        raise OmniError("invalid_value", "the prompt of a row with a repetition penalty ends with a token")
