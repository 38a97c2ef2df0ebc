"""The thinker's prompt: a conversation as tokens with positions, and the encoders' rows in their places.

A prompt can be written while its last sound is still coming: the tokens up to the rows that are encoded do not depend
on what follows, so they can be prefilled piece by piece (:meth:`Prompt.piece`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from voice_omni.engines.interface import Piece
from voice_omni.models.qwen3_omni.chat import ChatTemplate
from voice_omni.models.qwen3_omni.config import OmniConfig
from voice_omni.models.qwen3_omni.placeholders import Film, Medium, Placeholders, Positions
from voice_omni.models.qwen3_omni.tokenizer import Tokenizer
from voice_omni.proto.payload import Data

Rows = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """What the encoders made of one medium. ``sound``: ``[n, width]`` of the audio tower; ``rows``: ``[n, width]`` of
    the vision tower with its ``deepstack``: ``[layers, n, width]``. A film with sound has all."""

    sound: Rows | None = None
    rows: Rows | None = None
    deepstack: Rows | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """``positions``: float32 ``[3, n]``. ``at``: where the placeholders stand, those of ``media`` one after another."""

    tokens: list[int]
    positions: Positions
    media: tuple[Medium, ...]
    at: NDArray[np.int64]

    @property
    def next_position(self) -> float:
        """Of the first generated token, on all axes; further ones follow by one."""
        return float(self.positions.max()) + 1 if self.tokens else 0.0

    def piece(self, start: int, stop: int, rows: Rows, deepstack: Rows | None = None) -> Piece:
        """The prompt's tokens from ``start`` to ``stop``, for an engine.

        ``rows``: ``[m, width]`` of *all* placeholders up to ``stop`` at least, as :meth:`PromptWriter.rows` joins them,
        ``deepstack`` ``[layers, m, width]`` or None without pictures.
        """
        first, last = np.searchsorted(self.at, (start, stop))
        return Piece(
            self.tokens[start:stop],
            rows=rows[first:last] if last > first else None,
            at=self.at[first:last] - start if last > first else None,
            deepstack=deepstack[:, first:last] if deepstack is not None and last > first else None,
            positions=self.positions[:, start:stop],
        )


class PromptWriter:
    """Writes prompts for one checkpoint."""

    def __init__(self, config: OmniConfig, tokenizer: Tokenizer, template: ChatTemplate) -> None:
        self._tokenizer = tokenizer
        self._template = template
        self._placeholders = Placeholders(config.thinker)

    @classmethod
    def load(cls, folder: Path, config: OmniConfig) -> PromptWriter:
        """With the tokenizer and the template of a checkpoint's folder. Raises ``weights_corrupt``."""
        tokenizer = Tokenizer.load(folder)
        return cls(config, tokenizer, ChatTemplate.load(folder, tokenizer.plain))

    def write(
        self, messages: Sequence[Data], media: Sequence[Medium] = (), tools: Sequence[Data] = (), *, answer: bool = True
    ) -> Prompt:
        """The prompt of a conversation.

        ``messages`` and ``tools`` as :meth:`.chat.ChatTemplate.render` takes them; ``media``: the size of each of the
        messages' media, in their order. ``answer``: end where the answer begins, not behind the last message. Raises
        :class:`OmniError` ``invalid_value`` if the template refuses the conversation.
        """
        text = self._template.render(messages, tools, answer=answer)
        tokens = self._placeholders.expand(self._tokenizer.encode(text), media)
        positions = self._placeholders.positions(tokens, media)
        return Prompt(tokens, positions, tuple(media), self._placeholders.at(tokens))

    def rows(self, media: Sequence[Medium], features: Sequence[Features]) -> tuple[Rows, Rows | None]:
        """All media's rows ``[m, width]`` and deepstack ``[layers, m, width]`` in the order of their placeholders.

        The rows of a sound that is still coming may be fewer than its placeholders. Deepstack is None if there is
        neither picture nor film, and zero at sounds.
        """
        mixed = [self._mixed(medium, feature) for medium, feature in zip(media, features, strict=True)]
        parts = [(rows, deepstack) for rows, deepstack in mixed if len(rows)]
        rows = np.concatenate([rows for rows, _ in parts]) if parts else np.zeros((0, 0), np.float32)
        layers = max((len(deepstack) for _, deepstack in parts if deepstack is not None), default=0)
        if not layers:
            return rows, None
        return rows, np.concatenate(
            [np.zeros((layers, *part.shape), np.float32) if deep is None else deep for part, deep in parts], axis=1
        )

    def _mixed(self, medium: Medium, features: Features) -> tuple[Rows, Rows | None]:
        if features.rows is None or features.deepstack is None:
            return (features.sound if features.sound is not None else np.zeros((0, 0), np.float32)), None
        if not isinstance(medium, Film) or medium.sound_rows is None or features.sound is None:
            return features.rows, features.deepstack
        seen = self._placeholders.seen(medium)
        rows = np.zeros((len(seen), features.rows.shape[1]), np.float32)
        rows[seen], rows[~seen] = features.rows, features.sound
        deepstack = np.zeros((len(features.deepstack), *rows.shape), np.float32)
        deepstack[:, seen] = features.deepstack
        return rows, deepstack
