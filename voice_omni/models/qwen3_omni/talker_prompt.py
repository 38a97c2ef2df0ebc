"""The rows that the talker reads: what the person said, the head of the answer, and the answer's text.

The talker never sees token ids. Text is the thinker's embedding through one projection, a medium the rows of an inner
layer of the thinker through another. The answer's head joins text and codec rows by addition:

===== ============== ============== ============== ============== ============= =========== ==================
row   0, 1, 2        3              4              5              6             7           8
text  role header    tts_pad        tts_pad        tts_pad        tts_pad       tts_bos     first text token
codec none           nothink        think_bos      think_eos      speaker       codec_pad   codec_bos
===== ============== ============== ============== ============== ============= =========== ==================

Further text tokens, and ``tts_eos`` behind the last, are added to the inputs of decode steps, one for each; from then
on ``tts_pad`` is. See https://arxiv.org/abs/2509.17765.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from voice_omni.engines.interface import Rows
from voice_omni.models.qwen3_omni.backbones import TalkerTables
from voice_omni.models.qwen3_omni.config import TalkerConfig
from voice_omni.proto.errors import OmniError

HEADER_TOKENS: Final = 3
"""``<|im_start|>assistant`` and the line's end."""

_SPECIAL_CODES: Final = 1024
"""Ids at the end of the talker's vocabulary that stand for no sound."""


class TalkerPrompt:
    """Makes rows, float32 ``[n, talker width]``. Holds the thinker's embedding table."""

    def __init__(self, tables: TalkerTables) -> None:
        self._table = tables.thinker_embedding
        self._text = tables.text_projection
        self._hidden = tables.hidden_projection
        self._codec = tables.codec_embedding
        self._talker = tables.talker
        config = tables.config
        self.padding: Rows = self.text([config.tts_pad_token_id])[0]
        self.end: Rows = self.text([config.tts_eos_token_id])
        self._begin: Rows = self.text([config.tts_bos_token_id])
        self._heads: dict[int, Rows] = {}
        # The first call of this kind is slow, too, and somebody would wait for it.
        self.user([0, 0], np.array([1]), np.zeros((1, config.thinker.text.hidden_size), np.float32))

    @torch.inference_mode()
    def text(self, tokens: Sequence[int]) -> Rows:
        """Rows of text tokens; none for no tokens."""
        if not tokens:
            # The device would be asked, and waited for.
            return np.empty((0, len(self.padding)), np.float32)
        return _array(self._texts(tokens))

    @torch.inference_mode()
    def user(self, tokens: Sequence[int], at: NDArray[np.int64], hidden: Rows) -> Rows:
        """Rows of a part of the person's turn: text, but for media positions ``at`` ``[m]``, whose rows are made from
        the thinker's inner ones, ``hidden``, float32 ``[m, thinker width]``."""
        text = np.ones(len(tokens), dtype=bool)
        text[at] = False
        texts = self._texts(np.asarray(tokens)[text].tolist())
        media = self._hidden(torch.tensor(hidden).to(self._table.device, self._table.dtype)) if len(at) else texts[:0]
        made = _array(torch.cat((texts, media)))
        rows = np.empty_like(made)
        rows[text], rows[at] = made[: len(texts)], made[len(texts) :]
        return rows

    def answer(self, header: Sequence[int], first: int, speaker: int) -> Rows:
        """The nine rows between the person's last turn and the first frame. ``header``: :data:`HEADER_TOKENS` tokens;
        ``first``: the answer's first text token; ``speaker``: a codec id."""
        codec = self._codec_rows(speaker)
        head = self.text([*header, first])
        padding = np.broadcast_to(self.padding, (len(codec) - 2, len(self.padding)))
        rows = np.concatenate((head[:-1], padding, self._begin, head[-1:]))
        rows[len(header) :] += codec
        return rows

    def _texts(self, tokens: Sequence[int]) -> torch.Tensor:
        rows: torch.Tensor = self._text(self._table[torch.tensor(tokens, dtype=torch.int64, device=self._table.device)])
        return rows

    def _codec_rows(self, speaker: int) -> Rows:
        """Of an answer's head, which are the same for all answers of a speaker."""
        if speaker not in self._heads:
            talker = self._talker
            thinking = (talker.codec_nothink_id, talker.codec_think_bos_id, talker.codec_think_eos_id)
            self._heads[speaker] = self._codes([*thinking, speaker, talker.codec_pad_id, talker.codec_bos_id])
        return self._heads[speaker]

    @torch.inference_mode()
    def _codes(self, codes: Sequence[int]) -> Rows:
        return _array(self._codec(torch.tensor(codes, device=self._table.device)))


def speaker_of(config: TalkerConfig, voice: str) -> int:
    """The codec id of a voice, whatever its case. Raises :class:`OmniError` ``invalid_value``."""
    speaker = config.speaker_id.get(voice.lower())
    if speaker is None:
        known = ", ".join(sorted(config.speaker_id))
        raise OmniError("invalid_value", f"there is no voice {voice!r}; there are: {known}", param="voice")
    return speaker


def suppressed(config: TalkerConfig, *, ignore_eos: bool = False) -> frozenset[int]:
    """The first codes that are never drawn: the ids beyond the codebook, but for the end of speech, unless that is
    ignored."""
    vocabulary = config.text.vocab_size
    ending = () if ignore_eos else (config.codec_eos_token_id,)
    return frozenset(range(vocabulary - _SPECIAL_CODES, vocabulary)).difference(ending)


def _array(rows: torch.Tensor) -> Rows:
    array: Rows = rows.float().cpu().numpy()
    return array
