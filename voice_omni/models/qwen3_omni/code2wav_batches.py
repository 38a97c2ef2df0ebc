"""Batches of code2wav on their way through its device: host memory, the state of all streams, and the network.

On a GPU a batch costs four calls that nobody waits for: its inputs are copied from pinned memory, a graph is launched,
its samples are copied back, an event is recorded. Graphs exist for chosen sizes only; a batch takes the smallest that
holds it and fills it up with rows of a scratch slot and with frames behind the end of its rows, neither of which a
stream's state can see. A batch that fits into none is computed in its own size, operation by operation; without a GPU
all are, unless sizes are prepared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from voice_omni.models.qwen3_omni.code2wav_layers import Rows, Tables
from voice_omni.models.qwen3_omni.code2wav_network import Code2Wav
from voice_omni.models.qwen3_omni.device_queue import Compute, Mark, queue_on
from voice_omni.models.qwen3_omni.options import Code2WavOptions

_HEADER: Final = 3
"""Integers of a row beside its codes: slot, frames, and the frames before them."""

Codes = NDArray[np.integer]
Samples = NDArray[np.float32]


class Size(NamedTuple):
    """``rows`` of ``frames`` frames. ``first``: all begin their streams; otherwise none does."""

    rows: int
    frames: int
    first: bool

    def holds(self, other: Size) -> bool:
        return self.first == other.first and self.rows >= other.rows and self.frames >= other.frames


def grid(options: Code2WavOptions, slots: int) -> list[Size]:
    """The sizes that the options ask for, as far as so many slots can fill them. Streams begin with one frame."""
    streams = sorted({min(count, slots) for count in options.graph_streams})
    begin = [Size(rows, 1, True) for rows in streams]
    going_on = [Size(rows, frames, False) for rows in streams for frames in options.graph_frames]
    return [size for size in (*begin, *going_on) if size.rows * size.frames <= options.graph_size]


class Piece(NamedTuple):
    """The next ``codes`` ``[frames, codebooks]`` of the stream in ``slot``, which has ``before`` frames behind it."""

    slot: int
    before: int
    codes: Codes


class Lane:
    """Host memory of one batch, from when it is written down until its samples have been read."""

    def __init__(self, inputs: int, samples: int, pinned: bool, mark: Mark) -> None:
        self.inputs = torch.empty(inputs, dtype=torch.int64, pin_memory=pinned)
        self.samples = torch.empty(samples, pin_memory=pinned)
        self.mark = mark


class Running:
    """A batch that has been begun."""

    def __init__(self, lane: Lane, samples: Tensor, lengths: Sequence[int], free: list[Lane]) -> None:
        self._lane = lane
        self._samples = samples
        self._lengths = lengths
        self._free = free

    def done(self) -> bool:
        """Whether :meth:`collect` would not wait."""
        return self._lane.mark.reached()

    def collect(self) -> list[Samples]:
        """Each piece's samples, in order; once. Waits for the device."""
        self._lane.mark.wait()
        rows = self._samples.numpy()[: len(self._lengths)]
        heard = [row[:length].copy() for row, length in zip(rows, self._lengths, strict=True)]
        self._free.append(self._lane)
        return heard


@dataclass(frozen=True, slots=True)
class _Program:
    """A size that has been prepared: ``run`` computes ``samples`` ``[rows, n]`` from ``inputs`` ``[n]``, in place."""

    inputs: Tensor
    samples: Tensor
    run: Compute


class Batches:
    """Computes batches in the order in which they are begun. Not thread-safe, but for :meth:`interrupt`.

    On a GPU a second one may be begun before the first has been collected.
    """

    def __init__(self, model: Code2Wav, slots: int, device: torch.device | str, dtype: torch.dtype) -> None:
        self._model = model
        self._device = torch.device(device)
        self._queue = queue_on(self._device, dtype)
        self._tables = Tables(model, slots, device, dtype)
        self._programs: dict[Size, _Program] = {}
        self._free: list[Lane] = []
        # The weights and the tables have not been written in this queue.
        self._queue.settle()

    def interrupt(self) -> None:
        """Callable from any thread: a batch that is being computed layer by layer raises ``aborted`` at the next."""
        self._tables.interrupted.set()

    @torch.inference_mode()
    def prepare(self, sizes: Iterable[Size]) -> None:
        """Give each size its place and, on a GPU, its graph. For once, before the first batch."""
        # The largest first: the others fit into the memory that its graph has taken.
        chosen = sorted(set(sizes), key=lambda size: size.rows * size.frames, reverse=True)
        numbers, samples = max(map(self._numbers, chosen)), max(map(self._samples, chosen))
        self._free = [self._lane(numbers, samples) for _ in range(2)]
        inputs = torch.zeros(numbers, dtype=torch.int64, device=self._device)
        outputs = torch.zeros(samples, device=self._device)
        for size in chosen:
            mine = inputs[: self._numbers(size)]
            heard = outputs[: self._samples(size)].view(size.rows, -1)
            # What a capture computes touches the scratch slot only.
            mine.copy_(self._written(size, (), self._free[0]))
            run = self._queue.captured(partial(self._compute_into, heard, size, mine))
            self._programs[size] = _Program(mine, heard, run)
        self._queue.settle()

    @torch.inference_mode()
    def begin(self, pieces: Sequence[Piece]) -> Running:
        """Pieces of different streams, all with frames before them or none. Raises ``aborted`` if interrupted."""
        self._tables.interrupted.clear()
        lengths = [len(piece.codes) for piece in pieces]
        first = pieces[0].before == 0
        size = self._fitting(Size(len(pieces), max(lengths), first))
        program = self._programs.get(size)
        lane = self._taken(size)
        inputs = self._written(size, pieces, lane)
        samples = lane.samples[: self._samples(size)].view(size.rows, -1)
        with self._queue.entered():
            if program is None:
                given = inputs.to(self._device, non_blocking=True)
                heard = self._computed(size, given, full=min(lengths) == size.frames)
            else:
                program.inputs.copy_(inputs, non_blocking=True)
                program.run()
                heard = program.samples
            samples.copy_(heard, non_blocking=True)
            lane.mark.set()
        missing = self._model.trim if first else 0
        return Running(lane, samples, [length * self._model.frame_samples - missing for length in lengths], self._free)

    # -- sizes -----------------------------------------------------------------------------------------------------

    def _fitting(self, size: Size) -> Size:
        """The smallest prepared size that holds this one; itself where there is none."""
        fitting = (each for each in self._programs if each.holds(size))
        return min(fitting, key=lambda each: each.rows * each.frames, default=size)

    def _numbers(self, size: Size) -> int:
        return size.rows * (_HEADER + self._model.codebooks * size.frames)

    def _samples(self, size: Size) -> int:
        return size.rows * (size.frames * self._model.frame_samples - self._model.trim * size.first)

    # -- host memory -----------------------------------------------------------------------------------------------

    def _lane(self, numbers: int, samples: int) -> Lane:
        return Lane(numbers, samples, self._queue.pinned, self._queue.mark())

    def _taken(self, size: Size) -> Lane:
        """A lane that nobody uses, with room for this size."""
        numbers, samples = self._numbers(size), self._samples(size)
        lane = self._free.pop(0) if self._free else None
        if lane is None or len(lane.inputs) < numbers or len(lane.samples) < samples:
            return self._lane(numbers, samples)
        return lane

    def _written(self, size: Size, pieces: Sequence[Piece], lane: Lane) -> Tensor:
        """The inputs of a batch, int64 ``[n]`` in host memory: slots, frames and frames before, then all codes."""
        inputs = lane.inputs[: self._numbers(size)]
        numbers = inputs.numpy()
        header = numbers[: _HEADER * size.rows].reshape(_HEADER, size.rows)
        codes = numbers[_HEADER * size.rows :].reshape(size.rows, self._model.codebooks, size.frames)
        # A row that no piece takes is a whole one at its stream's begin.
        header[:] = np.array((self._tables.scratch, size.frames, 0))[:, None]
        codes[:] = 0
        for row, piece in enumerate(pieces):
            header[:, row] = piece.slot, len(piece.codes), piece.before
            codes[row, :, : len(piece.codes)] = piece.codes.T
        return inputs

    # -- the device ------------------------------------------------------------------------------------------------

    def _compute_into(self, samples: Tensor, size: Size, inputs: Tensor) -> None:
        # Of rows of one frame none is shorter.
        samples.copy_(self._computed(size, inputs, full=size.frames == 1))

    def _computed(self, size: Size, inputs: Tensor, full: bool) -> Tensor:
        """float32 ``[rows, n]``. ``full``: no row is shorter than the size."""
        header = _HEADER * size.rows
        slots, lengths, before = inputs[:header].view(_HEADER, size.rows)
        codes = inputs[header:].view(size.rows, self._model.codebooks, size.frames)
        rows = Rows(self._tables, slots, before, size.first, None if full else lengths)
        with self._queue.kernels():
            heard: Tensor = self._model(codes, rows)
        # Here, since a copy to the host that also changes the type would wait.
        return heard.float()
