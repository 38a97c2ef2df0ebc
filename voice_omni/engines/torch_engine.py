"""Rows on a model in plain torch: the reference that other engines are compared with.

Synchronous: :meth:`TorchEngine.step` prefills what has been fed to each row that may run, or computes one token or
frame of it. Each row has a KV cache of its own and is computed by itself, and a draw depends on the row's seed, the
step and the codebook alone, so that what runs beside a row never changes its tokens, in no rounding either. The
weights' own precision is used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from voice_omni.engines.interface import Feed, FinishReason, Piece, Row, RowOutput, Rows
from voice_omni.engines.torch_model import Inputs, TorchModel, inputs_of
from voice_omni.engines.torch_prefix import UNIQUE, Context, Kept, keys_of, token_key
from voice_omni.engines.torch_sampling import choose, uniform
from voice_omni.proto.errors import OmniError


@dataclass(slots=True)
class _Running:
    """``pieces``: not prefilled yet. ``position``: the next rotary one, ``borders``: what it was behind each piece.
    ``written``: the input of the next decode step and its key; None until the prompt is closed and has given its first
    token."""

    row: Row
    context: Context
    pieces: deque[Piece]
    open: bool
    position: float = 0.0
    borders: dict[int, float] = field(default_factory=lambda: {0: 0.0})
    conditions: deque[torch.Tensor] = field(default_factory=deque)
    fed: bool = False
    tokens: list[int] = field(default_factory=list)
    written: tuple[torch.Tensor, bytes] | None = None
    paused: bool = False
    removed: bool = False

    @property
    def ready(self) -> bool:
        if self.removed or self.paused:
            return self.removed
        if self.pieces:
            return True
        if self.written is None:
            return not self.open
        return self.row.padding is None or bool(self.conditions) or self.fed


class TorchEngine:
    """A synchronous :class:`~voice_omni.engines.interface.StreamedEngine` over a
    :class:`~voice_omni.engines.torch_model.TorchModel`.

    ``kept_positions``: how many positions' KV it keeps in all of rows that have ended, for later rows of their
    sessions.
    """

    def __init__(self, model: TorchModel, *, kept_positions: int = 0) -> None:
        self._model = model
        self._rows: dict[str, _Running] = {}
        self._kept = Kept(kept_positions)

    def start(self, wake: Callable[[], None]) -> None:
        """Nothing happens outside :meth:`step`, so ``wake`` is never called."""

    def add(self, row: Row) -> None:
        pieces = deque([Piece(row.prompt)] if row.prompt else ())
        self._rows[row.row_id] = _Running(row, self._kept.take(row.session), pieces, row.open)

    def feed(self, row_id: str, feed: Feed) -> None:
        running = self._rows.get(row_id)
        if running is None:
            return
        pieces = [piece for piece in feed.pieces if len(piece)]
        if (pieces or feed.closed or feed.kept is not None) and not running.open:
            raise OmniError("invalid_value", "the prompt of this row is closed")
        if (feed.conditions is not None or feed.ended) and (running.row.padding is None or running.fed):
            raise OmniError("invalid_value", "this row takes no conditions")
        if feed.kept is not None:
            _take_back(running, feed.kept)
        running.pieces += pieces
        running.open = running.open and not feed.closed
        if feed.conditions is not None:
            running.conditions += self._tensor(feed.conditions)
        running.fed = running.fed or feed.ended

    def pause(self, row_id: str) -> None:
        if running := self._rows.get(row_id):
            running.paused = True

    def resume(self, row_id: str) -> None:
        if running := self._rows.get(row_id):
            running.paused = False

    def remove(self, row_id: str) -> None:
        if running := self._rows.get(row_id):
            running.removed = True

    @property
    def busy(self) -> bool:
        return any(running.ready for running in self._rows.values())

    def step(self) -> list[RowOutput]:
        outputs = [self._turn(running) for running in list(self._rows.values()) if running.ready]
        for output in outputs:
            if output.finish is not None or output.error is not None:
                running = self._rows.pop(output.row_id)
                if output.error is None:
                    self._kept.put(running.row.session, running.context)
        return outputs

    def stop(self) -> None:
        self._rows.clear()
        self._kept.clear()

    def stats(self) -> dict[str, int]:
        return {"rows": len(self._rows)}

    def _turn(self, running: _Running) -> RowOutput:
        row_id = running.row.row_id
        if running.removed:
            return RowOutput(row_id, [], "removed")
        try:
            with torch.inference_mode():
                hidden = self._prefill(running)
                if running.open:
                    return RowOutput(row_id, [], hidden=hidden)
                return self._decode(running, hidden)
        except Exception as error:  # noqa: BLE001 - a row's failure is its own
            return RowOutput(row_id, [], error=error)

    def _prefill(self, running: _Running) -> Rows | None:
        """Compute what has been fed; the inner rows that the model reports of it."""
        kept: list[torch.Tensor] = []
        while running.pieces:
            piece = running.pieces.popleft()
            inputs = inputs_of(self._model, piece, running.position)
            again = running.row.session is not None or running.row.open
            keys = keys_of(piece, inputs.positions) if again else [UNIQUE] * len(piece)
            kept += running.context.read(self._model, keys, inputs)
            running.position = float(inputs.positions[:, -1].max()) + 1
            running.borders[running.context.length] = running.position
        return torch.stack(kept).float().cpu().numpy() if kept else None

    def _decode(self, running: _Running, hidden: Rows | None) -> RowOutput:
        """Compute one step and draw from it."""
        row = running.row
        last = running.context.last(self._model) if running.written is None else self._step(running, *running.written)
        step = len(running.tokens)
        chance = uniform(row.sampling.seed, step)
        token = choose(self._model.logits(last).float().cpu(), running.tokens, row.sampling, chance)
        if token in row.stop:
            return RowOutput(row.row_id, [], "stop", hidden=hidden)
        running.tokens.append(token)
        finish: FinishReason | None = "length" if len(running.tokens) == row.max_new_tokens else None
        frames: list[list[int]] = []
        if finish is None:
            # A frame is completed as soon as its first code is known: nothing else in it waits for the next step.
            written = self._model.write(token, last, row.sampling, lambda book: uniform(row.sampling.seed, step, book))
            running.written = written.row, self._key(running, token if written.frame is None else None)
            frames = [written.frame] if written.frame is not None else []
        return RowOutput(row.row_id, [token], finish, frames=frames, hidden=hidden)

    def _step(self, running: _Running, written: torch.Tensor, key: bytes) -> torch.Tensor:
        if running.row.padding is not None:
            condition = running.conditions.popleft() if running.conditions else self._tensor(running.row.padding)
            written = written + condition
        positions = torch.full((3, 1), running.position, device=self._model.device)
        nowhere = torch.empty(0, dtype=torch.int64, device=self._model.device)
        running.position += 1
        return running.context.append(self._model, key, Inputs(written[None], positions, nowhere))

    def _key(self, running: _Running, token: int | None) -> bytes:
        if token is None or running.row.session is None:
            return UNIQUE
        return token_key(token, np.full(3, running.position, np.float32).tobytes())

    def _tensor(self, rows: Rows) -> torch.Tensor:
        return torch.tensor(rows).to(self._model.device, self._model.dtype)


def _take_back(running: _Running, kept: int) -> None:
    """Raises :class:`OmniError` ``invalid_value`` for a border inside of a piece that waits."""
    waiting = kept - running.context.length
    if waiting <= 0:
        if kept not in running.borders:
            raise OmniError("invalid_value", f"position {kept} is no border between two pieces")
        running.pieces.clear()
        running.context.rewind(kept)
        running.position = running.borders[kept]
        return
    stay: deque[Piece] = deque()
    for piece in running.pieces:
        if waiting <= 0:
            break
        stay.append(piece)
        waiting -= len(piece)
    if waiting:
        raise OmniError("invalid_value", f"position {kept} is no border between two pieces")
    running.pieces = stay
