# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-decorators=False
# The compiler takes an annotation of a kernel for one of its own.
"""What code2wav does between its products of matrices on a GPU, each as one Triton kernel.

A signal's form here is ``[rows, steps, channels]``, contiguous but for its rows, whose distance is free. Everything is
computed in float32 and rounded once, when it is stored. Import this module only where Triton is installed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor

_STEPS: Final = 16
_CHANNELS: Final = 128
_SPAN: Final = 32
"""Channels that one program moves a history on in: it holds all steps of these at once."""
_KEPT: Final = 64
"""Steps of such a program at least: those of short histories share its kernel."""

# Of these values no variant of a kernel is compiled.
_PLAIN: Final = ("items", "distance", "steps", "kept", "dilation", "first", "whole")


class Wave(NamedTuple):
    """What SnakeBeta needs of its weights: float32 ``rate`` and ``share`` ``[channels]``."""

    rate: Tensor
    share: Tensor


class Past(NamedTuple):
    """What a convolution remembers: ``table`` ``[slots, kept, channels]`` of all streams, and each row's slot, long
    ``[rows]``. ``lengths``: long ``[rows]``, the steps of each row that count; None: all. ``first``: all rows begin
    their streams, whose past is silence."""

    table: Tensor
    slots: Tensor
    lengths: Tensor | None
    first: bool


def snake(signal: Tensor, wave: Wave) -> Tensor:
    """SnakeBeta of a contiguous signal, in its own type."""
    result = torch.empty_like(signal)
    channels = signal.shape[-1]
    items = signal.numel() // channels
    grid = (triton.cdiv(items, _STEPS), triton.cdiv(channels, _CHANNELS))
    _snake[grid](signal, *wave, result, items, channels, BLOCK=_STEPS, WIDTH=_CHANNELS)
    return result


def windows(signal: Tensor, past: Past, taps: int, dilation: int, wave: Wave | None) -> Tensor:
    """Of each step the ``taps`` steps that a causal convolution sees, the oldest first: ``[rows, steps, taps,
    channels]``, in the table's type. The past then moves on. With ``wave`` of the signal behind its SnakeBeta, which
    the past is already."""
    rows, steps, channels = signal.shape
    kept = past.table.shape[1]
    seen = past.table.new_empty(rows, steps, taps, channels)
    grid = (triton.cdiv(kept + steps, _STEPS), triton.cdiv(channels, _CHANNELS), rows)
    _windows[grid](
        *(signal, past.table, past.slots, seen, *(wave or (signal, signal))),
        *(signal.stride(0) // channels, steps, channels, kept, dilation, int(past.first)),
        TAPS=taps,
        WAVE=wave is not None,
        BLOCK=_STEPS,
        WIDTH=_CHANNELS,
    )
    lengths = past.slots if past.lengths is None else past.lengths
    _move_on[(rows, triton.cdiv(channels, _SPAN))](
        *(seen, past.table, past.slots, lengths),
        *(steps, channels, kept, int(past.first), int(past.lengths is None)),
        TAPS=taps,
        KEPT=max(_KEPT, triton.next_power_of_2(kept)),
        WIDTH=_SPAN,
    )
    return seen


def depthwise(seen: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Windows ``[rows, steps, taps, channels]`` times ``weight`` ``[taps, channels]``, added up over the taps, and
    ``bias`` ``[channels]``."""
    rows, steps, taps, channels = seen.shape
    result = seen.new_empty(rows, steps, channels)
    grid = (rows * steps, triton.cdiv(channels, _CHANNELS))
    _depthwise[grid](seen, weight, bias, result, channels, TAPS=taps, WIDTH=_CHANNELS)
    return result


def loudness(seen: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Windows ``[rows, steps, taps, channels]`` times ``weight`` ``[taps * channels]``, added up, and ``bias``
    ``[1]``: float32 samples ``[rows, steps]`` from -1 to 1."""
    rows, steps, _, _ = seen.shape
    result = torch.empty(rows, steps, device=seen.device)
    grid = (triton.cdiv(rows * steps, _STEPS),)
    _loudness[grid](*(seen, weight, bias, result, rows * steps), SEEN=len(weight), BLOCK=_STEPS, WIDTH=_CHANNELS)
    return result


@triton.jit
def _waved(signal, rates, shares, channel, inside):
    rate = tl.load(rates + channel, mask=inside, other=0.0)
    share = tl.load(shares + channel, mask=inside, other=0.0)
    wave = tl.sin(signal * rate[None, :])
    return signal + wave * wave * share[None, :]


@triton.jit(do_not_specialize=_PLAIN)
def _snake(
    signal,
    rates,
    shares,
    result,
    items,
    channels,
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
):
    item = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = channel < channels
    place = item[:, None].to(tl.int64) * channels + channel[None, :]
    there = (item < items)[:, None] & inside[None, :]
    given = tl.load(signal + place, mask=there, other=0.0).to(tl.float32)
    tl.store(result + place, _waved(given, rates, shares, channel, inside).to(result.dtype.element_ty), mask=there)


@triton.jit(do_not_specialize=_PLAIN)
def _windows(
    signal,
    table,
    slots,
    seen,
    rates,
    shares,
    distance,
    steps,
    channels,
    kept,
    dilation,
    first,
    TAPS: tl.constexpr,
    WAVE: tl.constexpr,
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
):
    # A step of past and signal joined is read once and stored wherever a window has it.
    step = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    row = tl.program_id(2).to(tl.int64)
    inside = channel < channels
    new = ((step >= kept) & (step < kept + steps))[:, None] & inside[None, :]
    place = (row * distance + (step - kept)[:, None]) * channels + channel[None, :]
    joined = tl.load(signal + place, mask=new, other=0.0).to(tl.float32)
    if WAVE:
        joined = _waved(joined, rates, shares, channel, inside)
    slot = tl.load(slots + row)
    past = (step < kept)[:, None] & inside[None, :]
    place = (slot * kept + step[:, None]) * channels + channel[None, :]
    joined = tl.where(past, tl.load(table + place, mask=past & (first == 0), other=0.0).to(tl.float32), joined)
    stored = joined.to(seen.dtype.element_ty)
    for tap in tl.static_range(TAPS):
        target = step - tap * dilation
        has = ((target >= 0) & (target < steps))[:, None] & inside[None, :]
        place = ((row * steps + target[:, None]) * TAPS + tap) * channels + channel[None, :]
        tl.store(seen + place, stored, mask=has)


@triton.jit(do_not_specialize=_PLAIN)
def _move_on(
    seen,
    table,
    slots,
    lengths,
    steps,
    channels,
    kept,
    first,
    whole,
    TAPS: tl.constexpr,
    KEPT: tl.constexpr,
    WIDTH: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    index = tl.arange(0, KEPT)
    there = (index < kept)[:, None] & (channel < channels)[None, :]
    slot = tl.load(slots + row)
    # What follows is the joined signal from ``begin`` on; of a window the last tap is the step itself.
    begin = tl.where(whole != 0, steps, tl.load(lengths + row))
    step = index + begin - kept
    place = ((row * steps + step[:, None]) * TAPS + TAPS - 1) * channels + channel[None, :]
    new = there & (step >= 0)[:, None]
    following = tl.load(seen + place, mask=new, other=0.0)
    past = there & (step < 0)[:, None]
    place = (slot * kept + step[:, None] + kept) * channels + channel[None, :]
    following = tl.where(past, tl.load(table + place, mask=past & (first == 0), other=0.0), following)
    # One program has all steps of its channels: none is overwritten before all have been read.
    tl.debug_barrier()
    tl.store(table + (slot * kept + index[:, None]) * channels + channel[None, :], following, mask=there)


@triton.jit
def _depthwise(seen, weight, bias, result, channels, TAPS: tl.constexpr, WIDTH: tl.constexpr):
    item = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = channel < channels
    total = tl.load(bias + channel, mask=inside, other=0.0).to(tl.float32)
    for tap in tl.static_range(TAPS):
        factor = tl.load(weight + tap * channels + channel, mask=inside, other=0.0).to(tl.float32)
        total += factor * tl.load(seen + (item * TAPS + tap) * channels + channel, mask=inside, other=0.0)
    tl.store(result + item * channels + channel, total.to(result.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=_PLAIN)
def _loudness(
    seen,
    weight,
    bias,
    result,
    items,
    SEEN: tl.constexpr,
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
):
    item = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, WIDTH), tl.float32)
    for begin in range(0, SEEN, WIDTH):
        column = begin + tl.arange(0, WIDTH)
        factor = tl.load(weight + column, mask=column < SEEN, other=0.0).to(tl.float32)
        place = item[:, None].to(tl.int64) * SEEN + column[None, :]
        there = (item < items)[:, None] & (column < SEEN)[None, :]
        total += factor[None, :] * tl.load(seen + place, mask=there, other=0.0).to(tl.float32)
    sample = tl.sum(total, axis=1) + tl.load(bias).to(tl.float32)
    tl.store(result + item, tl.minimum(tl.maximum(sample, -1.0), 1.0), mask=item < items)
