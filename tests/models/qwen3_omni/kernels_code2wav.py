"""Each kernel of code2wav gives what its definition gives, at sizes that its blocks do not divide."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from tests.support.triton import DEVICE
from voice_omni.models.qwen3_omni.code2wav_kernels import Past, Wave, depthwise, loudness, snake, windows

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
WIDE = 131
"""More channels than a block has."""
SLOTS = 6


def drawn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def waves(channels: int) -> Wave:
    return Wave((drawn(channels, seed=1) / 4).exp(), (drawn(channels, seed=2) / 4).exp())


def sent(wave: Wave) -> Wave:
    return Wave(wave.rate.to(DEVICE), wave.share.to(DEVICE))


def snaked(signal: Tensor, wave: Wave) -> Tensor:
    """In float64."""
    exact = signal.double()
    return exact + (exact * wave.rate.double()).sin() ** 2 * wave.share.double()


def assert_rounded(actual: Tensor, exact: Tensor, dtype: torch.dtype) -> None:
    """``actual`` is of ``dtype``, and ``exact`` but for one rounding to it."""
    assert actual.dtype == dtype
    # The interpreter cuts off what bfloat16 cannot hold, where a GPU rounds.
    close = {torch.float32: 4e-6, torch.float16: 2**-10, torch.bfloat16: 2**-7}[dtype]
    torch.testing.assert_close(actual.cpu().double(), exact.double(), rtol=close, atol=4e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 19, WIDE)])
def test_snake(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    signal, wave = drawn(*shape, dtype=dtype) * 3, waves(shape[-1])
    assert_rounded(
        snake(signal.to(DEVICE), Wave(wave.rate.to(DEVICE), wave.share.to(DEVICE))), snaked(signal, wave), dtype
    )


@dataclass(frozen=True)
class Case:
    """``lengths``: the steps that count of each row; None: all."""

    name: str
    taps: int
    dilation: int
    steps: int
    channels: int = 5
    dtype: torch.dtype = torch.float32
    lengths: tuple[int, int, int] | None = None
    first: bool = False
    wave: bool = False

    @property
    def kept(self) -> int:
        return (self.taps - 1) * self.dilation


CASES = [
    Case("two taps and one step", taps=2, dilation=1, steps=1),
    Case("fewer steps than are kept", taps=7, dilation=3, steps=4, wave=True),
    Case("as many steps as are kept", taps=3, dilation=4, steps=8),
    Case("steps of several blocks", taps=7, dilation=9, steps=37, wave=True),
    Case("channels of several blocks", taps=3, dilation=2, steps=5, channels=WIDE, wave=True),
    Case("more kept steps than a block has", taps=4, dilation=31, steps=3),
    Case("streams that begin", taps=7, dilation=1, steps=9, first=True, wave=True),
    Case("streams that begin with less than is kept", taps=7, dilation=2, steps=3, first=True),
    Case("rows of different lengths", taps=3, dilation=3, steps=11, lengths=(11, 2, 7), wave=True),
    Case("rows of which nothing counts", taps=7, dilation=1, steps=3, lengths=(0, 3, 0)),
    Case("streams of different lengths that begin", taps=3, dilation=5, steps=6, lengths=(1, 6, 4), first=True),
    Case("in float16", taps=7, dilation=3, steps=20, dtype=torch.float16, lengths=(20, 1, 19), wave=True),
    Case("in bfloat16", taps=7, dilation=3, steps=20, dtype=torch.bfloat16, lengths=(20, 1, 19), wave=True),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_windows(case: Case) -> None:
    slots = torch.tensor([4, 0, 3])
    wave = waves(case.channels) if case.wave else None
    # Behind the first steps of a longer signal: the rows are further apart than they are long.
    whole = drawn(3, case.steps + 2, case.channels, dtype=case.dtype)
    table = drawn(SLOTS, case.kept, case.channels, seed=3, dtype=case.dtype)
    if case.first:
        # What a slot had before is not even multiplied by zero.
        table[slots] = torch.nan
    kept = table.clone().to(DEVICE)
    lengths = None if case.lengths is None else torch.tensor(case.lengths)
    seen = windows(
        whole.to(DEVICE)[:, 2:],
        Past(kept, slots.to(DEVICE), None if lengths is None else lengths.to(DEVICE), case.first),
        case.taps,
        case.dilation,
        None if wave is None else sent(wave),
    )

    signal = whole[:, 2:].double() if wave is None else snaked(whole[:, 2:], wave)
    past = torch.zeros(3, case.kept, case.channels) if case.first else table[slots]
    joined = torch.cat((past.double(), signal), dim=1)
    expected = torch.stack([joined[:, case.dilation * tap :][:, : case.steps] for tap in range(case.taps)], dim=2)
    assert_rounded(seen, expected, case.dtype)
    following = table.double()
    for row, slot in enumerate(slots):
        begin = case.steps if case.lengths is None else case.lengths[row]
        following[slot] = joined[row, begin : begin + case.kept]
    assert_rounded(kept, following, case.dtype)


def test_rows_that_fill_up_a_batch_leave_the_streams_alone() -> None:
    """They share a slot, and what is in it afterwards does not matter."""
    signal, table, slots = drawn(4, 3, 5), drawn(SLOTS, 4, 5, seed=1), torch.tensor([2, 5, 5, 5])
    kept = table.clone().to(DEVICE)
    windows(
        signal.to(DEVICE), Past(kept, slots.to(DEVICE), torch.tensor([3, 0, 3, 1], device=DEVICE), False), 3, 2, None
    )
    alone = table.clone().to(DEVICE)
    windows(signal[:1].to(DEVICE), Past(alone, slots[:1].to(DEVICE), None, False), 3, 2, None)
    assert torch.equal(kept[:5], alone[:5])
    assert torch.equal(kept[:2].cpu(), table[:2])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 3, 7, WIDE)])
def test_depthwise(shape: tuple[int, int, int, int], dtype: torch.dtype) -> None:
    _, _, taps, channels = shape
    seen, weight, bias = drawn(*shape, dtype=dtype), drawn(taps, channels, dtype=dtype), drawn(channels, dtype=dtype)
    expected = (seen.double() * weight.double()).sum(dim=2) + bias.double()
    assert_rounded(depthwise(seen.to(DEVICE), weight.to(DEVICE), bias.to(DEVICE)), expected, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (3, 9, 7, 20), (2, 1, 2, 64)])
def test_loudness(shape: tuple[int, int, int, int], dtype: torch.dtype) -> None:
    """As samples: loud ones are cut."""
    inner = shape[2] * shape[3]
    seen, weight, bias = drawn(*shape, dtype=dtype), drawn(inner, seed=1, dtype=dtype), drawn(1, seed=2, dtype=dtype)
    weight = weight * inner**-0.5
    expected = seen.flatten(2).double() @ weight.double() + bias.double()
    assert inner == 1 or shape[1] == 1 or {-1.0, 1.0} < set(expected.clamp(-1.0, 1.0).flatten().tolist())
    samples = loudness(seen.to(DEVICE), weight.to(DEVICE), bias.to(DEVICE))
    assert_rounded(samples, expected.clamp(-1.0, 1.0), torch.float32)
