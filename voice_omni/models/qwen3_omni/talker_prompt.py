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
from torch import nn

from voice_omni.engines.interface import Rows
from voice_omni.models.qwen3_omni.backbones import TalkerTables
from voice_omni.models.qwen3_omni.config import TalkerConfig
from voice_omni.models.qwen3_omni.device_queue import queue_on
from voice_omni.models.qwen3_omni.wire import UserPart
from voice_omni.proto.errors import OmniError

HEADER_TOKENS: Final = 3
"""``<|im_start|>assistant`` and the line's end."""

_SPECIAL_CODES: Final = 1024
"""Ids at the end of the talker's vocabulary that stand for no sound."""

_PROJECTED_AT_ONCE: Final = 8192
"""Tokens of the vocabulary; few enough to take no memory worth mentioning."""


class TalkerPrompt:
    """Makes rows, float32 ``[n, talker width]``.

    What each text token becomes is computed once, for the whole vocabulary, and kept in the host's memory: text comes a
    token at a time for everybody who is being answered, and the device has other things to do.
    """

    def __init__(self, tables: TalkerTables) -> None:
        self._texts = _projected(tables.thinker_embedding, tables.text_projection, tables.codec_embedding.weight.device)
        self._hidden = tables.hidden_projection
        self._codec = tables.codec_embedding
        self._talker = tables.talker
        self._config = config = tables.config
        self.padding: Rows = self.text([config.tts_pad_token_id])[0]
        self.end: Rows = self.text([config.tts_eos_token_id])
        self._begin: Rows = self.text([config.tts_bos_token_id])
        self._heads: dict[int, Rows] = {}
        self._queue = queue_on(self._codec.weight.device, self._codec.weight.dtype)
        self._mark = self._queue.mark()
        # The weights have not been written in this queue.
        self._queue.settle()
        # The first call of this kind is slow, and somebody would wait for it.
        self._media(np.zeros((1, config.thinker.text.hidden_size), np.float32))

    def text(self, tokens: Sequence[int] | NDArray[np.int64]) -> Rows:
        """Rows of text tokens."""
        return _array(self._texts[torch.tensor(tokens, dtype=torch.int64)])

    def check(self, part: UserPart) -> None:
        """Raises ``ValueError`` for one of which no rows can be made."""
        count, width = len(part.tokens), self._config.thinker.text.hidden_size
        if part.hidden.shape != (len(part.at), width):
            raise ValueError(f"inner rows are [{len(part.at)}, {width}], not {list(part.hidden.shape)}")
        if len(part.at) and not (part.at.min() >= 0 and part.at.max() < count):
            raise ValueError(f"a medium stands outside of {count} positions")
        text = np.delete(np.asarray(part.tokens, np.int64), part.at)
        if len(text) and not (text.min() >= 0 and text.max() < len(self._texts)):
            raise ValueError(f"a token is outside of a vocabulary of {len(self._texts)}")

    def user(self, parts: Sequence[UserPart]) -> list[Rows]:
        """Rows of parts of the person's turns, anybody's, that have been checked: the device is asked once for all of
        them. Text, but for media positions, whose rows are made from the thinker's inner ones."""
        hidden = [part.hidden for part in parts if len(part.at)]
        media = self._media(np.concatenate(hidden)) if hidden else np.empty((0, len(self.padding)), np.float32)
        made, taken = [], 0
        for part in parts:
            tokens = np.array(part.tokens, np.int64)
            tokens[part.at] = 0  # what stands for a medium need not be a token that the thinker has
            rows = self.text(tokens)
            rows[part.at] = media[taken : taken + len(part.at)]
            taken += len(part.at)
            made.append(rows)
        return made

    def answer(self, header: Sequence[int], first: int, speaker: int) -> Rows:
        """The nine rows between the person's last turn and the first frame. ``header``: :data:`HEADER_TOKENS` tokens;
        ``first``: the answer's first text token; ``speaker``: a codec id."""
        codec = self._codec_rows(speaker)
        head = self.text([*header, first])
        padding = np.broadcast_to(self.padding, (len(codec) - 2, len(self.padding)))
        rows = np.concatenate((head[:-1], padding, self._begin, head[-1:]))
        rows[len(header) :] += codec
        return rows

    @torch.inference_mode()
    def _media(self, hidden: Rows) -> Rows:
        """``hidden``: float32 ``[n, thinker width]``. Waits for nothing else that the process computes: a thread that
        did would keep SGLang's from launching anything."""
        weight, pinned = self._codec.weight, self._queue.pinned
        sent = torch.from_numpy(hidden)
        sent = sent.pin_memory() if pinned else sent
        with self._queue.entered():
            made = self._hidden(sent.to(weight.device, weight.dtype, non_blocking=True)).float()
            rows = torch.empty(made.shape, pin_memory=pinned).copy_(made, non_blocking=True)
            self._mark.set()
        self._mark.wait()
        array: Rows = rows.numpy()
        return array

    def _codec_rows(self, speaker: int) -> Rows:
        """Of an answer's head, which are the same for all answers of a speaker."""
        if speaker not in self._heads:
            talker = self._talker
            thinking = (talker.codec_nothink_id, talker.codec_think_bos_id, talker.codec_think_eos_id)
            self._heads[speaker] = self._codes([*thinking, speaker, talker.codec_pad_id, talker.codec_bos_id])
        return self._heads[speaker]

    @torch.inference_mode()
    def _codes(self, codes: Sequence[int]) -> Rows:
        return _array(self._codec(torch.tensor(codes, device=self._codec.weight.device)))


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


@torch.inference_mode()
def _projected(table: torch.Tensor, projection: nn.Module, device: torch.device) -> torch.Tensor:
    """``table``: ``[vocabulary, thinker width]``; ``[vocabulary, talker width]`` of the same type, in the host's
    memory."""
    return torch.cat([projection(some.to(device)).cpu() for some in torch.split(table, _PROJECTED_AT_ONCE)])


def _array(rows: torch.Tensor) -> Rows:
    array: Rows = rows.float().cpu().numpy()
    return array
