"""What the stages of this model send each other. Between them a chunk is a dictionary with one of these keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from voice_omni.engines.interface import Piece, Rows
from voice_omni.proto.payload import Data

PIECES: Final = "pieces"
"""To the thinker: list of pieces of its prompt, each the fields of :class:`~voice_omni.engines.interface.Piece` that it
has, as a dictionary."""
TOKENS: Final = "tokens"
"""From the thinker: list of the answer's next token ids."""
SPOKEN: Final = "spoken"
"""To the talker: list of the next token ids of the answer's turn, its header first, without the last token of an answer
that was cut off by its length: that one never went through the thinker."""
USER: Final = "user"
"""To the talker: the fields of a :class:`UserPart`."""
CODES: Final = "codes"
"""From the talker: int16 ``[frames, codebooks]``."""


@dataclass(frozen=True, slots=True, eq=False)
class UserPart:
    """Consecutive positions of the person's turns, as the talker reads them.

    ``tokens`` [n]; ``positions``: float32 ``[3, n]``, the talker's rotary positions; ``hidden``: float32 ``[m,
    width]``, rows of a layer inside the thinker at ``at``, int64 ``[m]``, where a medium stands.
    """

    tokens: list[int]
    positions: Rows
    at: NDArray[np.int64]
    hidden: Rows

    def data(self) -> Data:
        return {name: getattr(self, name) for name in ("tokens", "positions", "at", "hidden")}


def piece_data(piece: Piece) -> Data:
    """A piece as a chunk carries it."""
    fields: dict[str, Any] = {
        "rows": piece.rows,
        "at": piece.at,
        "deepstack": piece.deepstack,
        "positions": piece.positions,
    }
    return {"tokens": list(piece.tokens), **{name: value for name, value in fields.items() if value is not None}}


def piece_of(data: Data) -> Piece:
    """A piece from a chunk."""
    return Piece(**data)
