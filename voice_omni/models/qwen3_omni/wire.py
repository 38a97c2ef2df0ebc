"""What the stages of this model send each other. Between them a chunk is a dictionary with one of these keys;
``spoken`` may stand beside ``user``, which comes before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from voice_omni.engines.interface import Rows
from voice_omni.proto.payload import Data

PROMPT: Final = "prompt"
"""To the thinker: list of the next segments of the prompt, each the fields of a :class:`~.assembly.Segment`; with
``ended`` when these are the last."""
ROWS: Final = "rows"
"""To the thinker, from an encoder: the next rows of a medium. ``medium``: its number; ``heard``: float32 ``[n, width]``
of the audio tower, or ``seen`` and its ``deepstack`` ``[layers, n, width]`` of the vision tower. Of a live sound also
``first``, the number of the first of these rows, which replace what came before from there on, and ``ended``."""
LIVE: Final = -1
"""The number of the sound that is streamed in."""
FRAMES: Final = "frames"
"""To the image encoder: uint8 ``[frames, height, width, 3]``, RGB, resized: the next ones of ``medium``."""
SOUND: Final = "sound"
"""To the audio encoder: float32 ``[n]`` at 16 kHz, the next part of ``medium``; ``ended`` with the last."""
MEDIUM: Final = "medium"
ENDED: Final = "ended"
KEPT: Final = "kept"
"""Beside ``user``: so many positions that the talker was given stay, those behind do not."""
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
