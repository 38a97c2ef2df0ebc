"""The kernels of the small decoder's layers give what their definitions give."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.support.triton import DEVICE, INTERPRETED
from voice_omni.engines.sglang.frames import kernels

DTYPES = [torch.float32 if INTERPRETED else torch.bfloat16, torch.float16]
CLOSE = {torch.float32: 1e-5, torch.float16: 2**-9, torch.bfloat16: 2**-6}
"""A sum that is rounded, and rounded again where it is an intermediate value."""
EPSILON = 1e-6


@dataclass(frozen=True)
class Case:
    """``count`` rows of ``inner`` values to ``outputs``, in blocks of ``rows``; ``depth`` values at a time."""

    count: int
    inner: int
    outputs: int
    rows: int = 16
    depth: int = 32


CASES = [Case(1, 32, 16), Case(5, 24, 19), Case(17, 70, 33, rows=32), Case(67, 100, 16, rows=64)]
"""One tile; less than a tile; several steps of depth and blocks of columns; several blocks of rows."""
products = pytest.mark.parametrize("case", CASES, ids=str)
dtypes = pytest.mark.parametrize("dtype", DTYPES)


def drawn(*shape: int, seed: int, dtype: torch.dtype, size: float = 1.0) -> Tensor:
    return (torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * size).to(DEVICE, dtype)


def grid(case: Case) -> tuple[int, int]:
    return -(-case.outputs // 16), -(-case.count // case.rows)


def assert_near(actual: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    torch.testing.assert_close(actual.double(), expected.double(), rtol=CLOSE[dtype], atol=CLOSE[dtype])


def fenced(count: int, width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Place for ``[count, width]``, and all of it with what lies around it."""
    whole = torch.full(((count + 2) * width,), 77.0, dtype=dtype, device=DEVICE)
    return whole[width:-width].view(count, width), whole


def assert_within(whole: Tensor, width: int) -> None:
    """Nothing has been written around the place."""
    assert (whole[:width] == 77).all()
    assert (whole[-width:] == 77).all()


def inputs(case: Case, dtype: torch.dtype, gated: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Rows that are further apart than they are long, their norm's weights, and the product's."""
    rows = drawn(case.count, 2, case.inner, seed=1, dtype=dtype, size=3.0)[:, 1]
    norm = 1 + drawn(case.inner, seed=2, dtype=dtype, size=0.1)
    weight = drawn(case.outputs * (1 + gated), case.inner, seed=3, dtype=dtype, size=case.inner**-0.5)
    return rows, norm, weight


def normed(rows: Tensor, norm: Tensor) -> Tensor:
    return functional.rms_norm(rows.double(), (rows.shape[1],), norm.double(), EPSILON)


def multiplied(rows: Tensor, weight: Tensor, before: Tensor | None, gated: bool) -> Tensor:
    product = rows.double() @ weight.double().T
    if gated:
        gate, up = product.chunk(2, dim=-1)
        product = functional.silu(gate) * up
    return product if before is None else before.double() + product


KINDS = [(False, False, False), (True, False, False), (True, True, False), (False, False, True)]
"""Normed, gated, added: as a layer has them, and none."""


@pytest.mark.parametrize(("is_normed", "gated", "added"), KINDS, ids=["plain", "normed", "gated", "added"])
@dtypes
@pytest.mark.parametrize("case", [Case(1, 32, 16), Case(3, 24, 19), Case(4, 70, 33)], ids=str)
def test_a_product_of_few_rows(case: Case, dtype: torch.dtype, is_normed: bool, gated: bool, added: bool) -> None:
    rows, norm, weight = inputs(case, dtype, gated)
    before = drawn(case.count, case.outputs, seed=4, dtype=dtype) if added else None
    out, whole = fenced(case.count, case.outputs, dtype)
    if before is not None:
        out.copy_(before)
    kernels.row_product[(-(-case.outputs // 8),)](
        rows, norm if is_normed else None, weight, out, EPSILON, case.outputs, rows.stride(0),
        count=case.count, inner=case.inner, normed=is_normed, gated=gated, added=added,
        columns=8, span=1 << (case.inner - 1).bit_length(), num_warps=4,
    )  # fmt: skip
    given = normed(rows, norm) if is_normed else rows
    assert_near(out, multiplied(given, weight, before, gated), dtype)
    assert_within(whole, case.outputs)


@pytest.mark.parametrize("inner", [32, 70])
@dtypes
def test_norming(inner: int, dtype: torch.dtype) -> None:
    rows, norm, _ = inputs(Case(5, inner, 1), dtype, False)
    out, whole = fenced(5, inner, dtype)
    kernels.normalising[(5,)](
        rows, norm, out, EPSILON, rows.stride(0), inner=inner, span=1 << (inner - 1).bit_length(), num_warps=4
    )
    assert_near(out, normed(rows, norm), dtype)
    assert_within(whole, inner)


@pytest.mark.parametrize(("gated", "added"), [(False, False), (True, False), (False, True)])
@dtypes
@products
def test_a_product_of_many_rows(case: Case, dtype: torch.dtype, gated: bool, added: bool) -> None:
    rows, _, weight = inputs(case, dtype, gated)
    rows = rows.contiguous()
    before = drawn(case.count, case.outputs, seed=4, dtype=dtype) if added else None
    out, whole = fenced(case.count, case.outputs, dtype)
    if before is not None:
        out.copy_(before)
    kernels.product[grid(case)](
        rows, weight, out, case.count, case.outputs, inner=case.inner, gated=gated, added=added,
        rows=case.rows, columns=16, depth=case.depth, num_warps=4, num_stages=3,
    )  # fmt: skip
    assert_near(out, multiplied(rows, weight, before, gated), dtype)
    assert_within(whole, case.outputs)


@pytest.mark.parametrize("count", [3, 6])
@dtypes
def test_a_product_in_float32_is_rounded_as_the_weights_are(dtype: torch.dtype, count: int) -> None:
    """So are the scores of plain torch."""
    rows, norm, weight = inputs(Case(count, 20, 9), dtype, False)
    out = torch.empty(count, 9, device=DEVICE)
    if count <= 4:
        kernels.row_product[(1,)](
            rows, norm, weight, out, EPSILON, 9, rows.stride(0), count=count, inner=20, normed=True, gated=False,
            added=False, columns=16, span=32, num_warps=4,
        )  # fmt: skip
    else:
        rows = normed(rows, norm).to(dtype)
        kernels.product[(1, 1)](
            rows, weight, out, count, 9, inner=20, gated=False, added=False, rows=16, columns=16, depth=32,
            num_warps=4, num_stages=3,
        )  # fmt: skip
    assert torch.equal(out, out.to(dtype).float())


HEAD, PLACES = 8, 4


def attended(joined: Tensor, group: int, heads: int, norms: tuple[Tensor, Tensor], rotation: Tensor) -> Tensor:
    """Of ``[rows, positions, (heads * group + 2 * heads) * head]``, the whole at once, in float64."""
    rows, positions, _ = joined.shape
    parts = joined.double().view(rows, positions, -1, HEAD).transpose(1, 2)
    query, key, value = parts.split([heads * group, heads, heads], dim=1)
    cosine, sine = rotation.double()[:, :positions]

    def turned(each: Tensor, norm: Tensor) -> Tensor:
        each = functional.rms_norm(each, (HEAD,), norm.double(), EPSILON)
        low, high = each.chunk(2, dim=-1)
        return each * cosine + torch.cat((-high, low), dim=-1) * sine

    seen = functional.scaled_dot_product_attention(
        turned(query, norms[0]), turned(key, norms[1]), value, is_causal=True, enable_gqa=True
    )
    return seen.transpose(1, 2).flatten(2)


@pytest.mark.parametrize(("rows", "heads", "group"), [(1, 1, 1), (3, 2, 3)])
@dtypes
def test_attention_goes_on_where_it_stopped(dtype: torch.dtype, rows: int, heads: int, group: int) -> None:
    """Two positions first, and then one after the other up to the last place. What has not been written is not read."""
    joined = drawn(rows, PLACES, heads * (group + 2) * HEAD, seed=1, dtype=dtype, size=2.0)
    norms = 1 + drawn(HEAD, seed=2, dtype=dtype, size=0.2), 1 + drawn(HEAD, seed=3, dtype=dtype, size=0.2)
    angles = torch.arange(PLACES)[:, None] * 100.0 ** -(torch.arange(0, HEAD, 2) / HEAD)
    rotation = torch.stack((angles.cos(), angles.sin())).repeat(1, 1, 2).to(DEVICE)
    cache = torch.full((2, rows, heads, PLACES, HEAD), torch.nan, dtype=dtype, device=DEVICE)
    heard = []
    place = 0
    for steps in (2, 1, 1):
        out, whole = fenced(rows * steps, heads * group * HEAD, dtype)
        kernels.attention[(rows, heads)](
            joined[:, place : place + steps].contiguous(), cache, *norms, rotation, out, EPSILON, HEAD**-0.5,
            place, rows, steps=steps, group=group, heads=heads, head=HEAD, places=PLACES, num_warps=4,
        )  # fmt: skip
        assert_within(whole, heads * group * HEAD)
        heard.append(out.view(rows, steps, -1))
        place += steps
        assert cache[:, :, :, place:].isnan().all()
    assert_near(torch.cat(heard, dim=1), attended(joined, group, heads, norms, rotation), dtype)
