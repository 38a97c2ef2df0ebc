"""A prompt as the stages before the thinker send it, made of pieces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import numpy as np

from voice_omni.engines.interface import Piece
from voice_omni.models.qwen3_omni.wire import ENDED, PROMPT, ROWS
from voice_omni.proto.payload import Data


def cut(piece: Piece, places: Iterable[int]) -> list[Piece]:
    """A piece in several, cut before these positions."""
    bounds = [0, *sorted(places), len(piece)]
    pieces = []
    for start, stop in pairwise(bounds):
        part = Piece(piece.tokens[start:stop])
        if piece.positions is not None:
            part = Piece(part.tokens, positions=piece.positions[:, start:stop])
        if piece.rows is not None and piece.at is not None:
            inside = (piece.at >= start) & (piece.at < stop)
            deepstack = None if piece.deepstack is None else piece.deepstack[:, inside]
            part = Piece(part.tokens, piece.rows[inside], piece.at[inside] - start, deepstack, part.positions)
        pieces.append(part)
    return pieces


class Segments:
    """The chunks of one prompt."""

    def __init__(self) -> None:
        self._count = 0
        self._place = 0.0

    def of(self, piece: Piece) -> list[Data]:
        """A piece as one segment, and what it holds of media behind it."""
        number = self._count
        self._count += 1
        if piece.positions is None:
            positions = self._place + np.arange(len(piece), dtype=np.float32)
            piece = replace(piece, positions=np.broadcast_to(positions, (3, len(piece))))
        assert piece.positions is not None
        self._place = float(piece.positions.max()) + 1
        segment: Data = {"tokens": list(piece.tokens), "positions": piece.positions}
        if piece.rows is None or piece.at is None or not len(piece.at):
            return [{PROMPT: [segment]}]
        kind = "heard" if piece.deepstack is None else "seen"
        segment |= {"medium": number, kind: piece.at}
        rows: Data = {"medium": number, kind: piece.rows}
        if piece.deepstack is not None:
            rows["deepstack"] = piece.deepstack
        return [{PROMPT: [segment]}, {ROWS: rows}]

    @staticmethod
    def end() -> Data:
        return {PROMPT: [], ENDED: True}
