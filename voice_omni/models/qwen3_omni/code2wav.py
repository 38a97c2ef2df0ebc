"""Codec frames to samples, streaming and exact: however a stream is cut, its samples are those of one decode.

A frame is 16 codes; 12.5 frames make a second of sound at 24 kHz. The decoder is causal but for its overlapping
upsampling layers, which hold back 555 samples: after k frames exactly the first 1920 k - 555 samples of the whole
decode are known, and these are what has been given out. At the end of a stream nothing is left to flush.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch

from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
from voice_omni.models.qwen3_omni.code2wav_batches import Batches, Codes, Piece, Running, Samples, Size
from voice_omni.models.qwen3_omni.code2wav_network import Code2Wav
from voice_omni.models.qwen3_omni.layout import Part
from voice_omni.proto.errors import OmniError


class Decoding:
    """Pieces of several streams that are being decoded."""

    def __init__(self, runs: Sequence[tuple[Sequence[int], Running]]) -> None:
        self._runs = runs

    def done(self) -> bool:
        """Whether :meth:`collect` would not wait."""
        return all(running.done() for _, running in self._runs)

    def collect(self) -> list[Samples]:
        """Each piece's samples, in the order in which the pieces were given; once. Waits for them."""
        samples: dict[int, Samples] = {}
        for indices, running in self._runs:
            samples |= zip(indices, running.collect(), strict=True)
        return [samples[index] for index in range(len(samples))]


class StreamDecoder:
    """Decodes many streams, each with its state in a slot; memory is fixed by the number of slots.

    Not thread-safe: for one scheduler's thread, but for :meth:`interrupt`. ``frame_samples`` is the hop (1920),
    ``trim`` what the whole signal is shorter than its frames (555). It is ready, and its first call as quick as all
    others, when it has been built; ``sizes`` are those that batches are filled up to.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        slots: int,
        device: torch.device | str,
        dtype: torch.dtype,
        sizes: Iterable[Size] = (),
    ) -> None:
        config = checkpoint.config.code2wav
        if config is None:
            raise OmniError("unsupported_model", "the checkpoint has no code2wav: it only writes", param="code2wav")
        with torch.device("meta"):
            model = Code2Wav(config)
        checkpoint.load(model, Part.CODE2WAV, device=device, dtype=dtype)
        model.prepare()
        self.codebooks, self.codebook_size = model.codebooks, model.codebook_size
        self.frame_samples, self.trim = model.frame_samples, model.trim
        self._batches = Batches(model, slots, device, dtype)
        self._free = list(range(slots))
        self._before = [0] * slots
        if chosen := set(sizes):
            self._batches.prepare(chosen)
        self._warm_up()

    def open(self) -> int:
        """A slot for a new stream. Raises ``overloaded`` if all are taken."""
        if not self._free:
            raise OmniError("overloaded", "code2wav has no free slot for another stream", retryable=True)
        slot = self._free.pop()
        # What the stream before has left is not read: the first piece of a stream has nothing behind it.
        self._before[slot] = 0
        return slot

    def close(self, slot: int) -> None:
        """The stream has ended; its slot may be another's."""
        self._free.append(slot)

    def check(self, codes: Codes) -> None:
        """Raises ``internal_error`` unless these are codes ``[frames, codebooks]``, each below the codebook's size."""
        if codes.ndim != 2 or codes.shape[1] != self.codebooks:
            raise OmniError("internal_error", f"expected codes [frames, {self.codebooks}], got {list(codes.shape)}")
        if codes.size and not 0 <= int(codes.min()) <= int(codes.max()) < self.codebook_size:
            raise OmniError(
                "internal_error", f"codes from {codes.min()} to {codes.max()}, expected 0 to {self.codebook_size - 1}"
            )

    def submit(self, pieces: Sequence[tuple[int, Codes]]) -> Decoding:
        """Begin to decode the next frames of each stream: ``(slot, codes [frames, codebooks])``, a slot once, at least
        one frame. Without a GPU it is done when this returns.

        Of each come float32 samples, ``frame_samples`` for each frame, ``trim`` less for the first piece of a stream.
        Raises ``aborted`` if interrupted; these streams cannot go on then.
        """
        waiting = [Piece(slot, self._before[slot], codes) for slot, codes in pieces]
        runs = []
        for first in (True, False):
            indices = [index for index, piece in enumerate(waiting) if (piece.before == 0) == first]
            if indices:
                runs.append((indices, self._batches.begin([waiting[index] for index in indices])))
        for piece in waiting:
            self._before[piece.slot] += len(piece.codes)
        return Decoding(runs)

    def decode(self, pieces: Sequence[tuple[int, Codes]]) -> list[Samples]:
        """:meth:`submit`, and wait for the samples."""
        return self.submit(pieces).collect()

    def interrupt(self) -> None:
        """Callable from any thread: a :meth:`submit` that is computing raises ``aborted`` soon. A batch that a GPU
        already computes is not stopped: it ends within milliseconds."""
        self._batches.interrupt()

    def _warm_up(self) -> None:
        """The first call of each kind chooses kernels and takes memory."""
        slot = self.open()
        for _ in range(2):
            self.decode([(slot, np.zeros((1, self.codebooks), np.int64))])
        self.close(slot)
