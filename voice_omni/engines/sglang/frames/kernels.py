"""The kernels of a frame head on a GPU, for batches of a few rows that are bound by how fast weights can be read.

Residuals are part of the product before them, and with few rows norms are part of the one that follows; attention makes
its own queries and keys; a draw also looks up what is read next.
"""

# mypy: ignore-errors
# What Triton compiles is not Python: types are those of its own.
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def row_product(
    x, norm, weight, out, epsilon, outputs, x_stride,
    count: tl.constexpr, inner: tl.constexpr, normed: tl.constexpr, gated: tl.constexpr, added: tl.constexpr,
    columns: tl.constexpr, span: tl.constexpr,
):  # fmt: skip
    """:func:`product` of a few rows, with the norm before it: each weight is read once, all of a program's at the same
    time, and multiplied by one row after the other.

    ``out = rms_norm(x) @ weight.T`` where ``normed``, else ``x @ weight.T``.
    """
    kind: tl.constexpr = weight.dtype.element_ty
    column = tl.program_id(0) * columns + tl.arange(0, columns)
    place = tl.arange(0, span)
    there = column < outputs
    inside = place < inner
    at = weight + column[:, None] * inner + place[None, :]
    tile = tl.load(at, there[:, None] & inside[None, :], 0.0)
    if gated:
        lower = tl.load(at + outputs * inner, there[:, None] & inside[None, :], 0.0)
    if normed:
        scale = tl.load(norm + place, inside, 0.0).to(tl.float32)
    for row in tl.static_range(count):
        values = tl.load(x + row * x_stride + place, inside, 0.0).to(tl.float32)
        if normed:
            factor = tl.rsqrt(tl.sum(values * values, 0) / inner + epsilon)
            values = (values * factor * scale).to(kind).to(tl.float32)
        total = tl.sum(tile.to(tl.float32) * values[None, :], 1)
        if gated:
            total = _opened(total, tl.sum(lower.to(tl.float32) * values[None, :], 1), kind)
        _put(out + row * outputs + column, total, there, added, kind)


@triton.jit
def normalising(x, norm, out, epsilon, x_stride, inner: tl.constexpr, span: tl.constexpr):
    """One row of ``out = rms_norm(x)``: ``x`` with rows ``x_stride`` apart, ``out`` ``[rows, inner]``."""
    row = tl.program_id(0)
    place = tl.arange(0, span)
    inside = place < inner
    values = tl.load(x + row * x_stride + place, inside, 0.0).to(tl.float32)
    factor = tl.rsqrt(tl.sum(values * values, 0) / inner + epsilon)
    scale = tl.load(norm + place, inside, 0.0).to(tl.float32)
    tl.store(out + row * inner + place, (values * factor * scale).to(out.dtype.element_ty), inside)


@triton.jit
def product(
    x, weight, out, count, outputs,
    inner: tl.constexpr, gated: tl.constexpr, added: tl.constexpr,
    rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr,
):  # fmt: skip
    """``out = x @ weight.T``; ``gated``: ``silu(gate) * up`` of its two halves; ``added``: to what is there.

    ``x`` ``[count, inner]``, ``weight`` ``[outputs or 2 * outputs, inner]``, ``out`` ``[count, outputs]``.
    """
    kind: tl.constexpr = weight.dtype.element_ty
    row = tl.program_id(1) * rows + tl.arange(0, rows)
    column = tl.program_id(0) * columns + tl.arange(0, columns)
    place = tl.arange(0, depth)
    here = row < count
    there = column < outputs
    total = tl.zeros((rows, columns), tl.float32)
    lower = tl.zeros((rows, columns), tl.float32)
    for start in range(0, inner, depth):
        inside = start + place < inner
        values = tl.load(x + row[:, None] * inner + start + place[None, :], here[:, None] & inside[None, :], 0.0)
        at = weight + column[None, :] * inner + start + place[:, None]
        total = tl.dot(values, tl.load(at, there[None, :] & inside[:, None], 0.0), total, input_precision="ieee")
        if gated:
            at += outputs * inner
            lower = tl.dot(values, tl.load(at, there[None, :] & inside[:, None], 0.0), lower, input_precision="ieee")
    if gated:
        total = _opened(total, lower, kind)
    _put(out + row[:, None] * outputs + column[None, :], total, here[:, None] & there[None, :], added, kind)


@triton.jit
def _opened(gate, up, kind: tl.constexpr):
    """``silu(gate) * up``, each rounded as it is where they are computed one after the other."""
    gate = gate.to(kind).to(tl.float32)
    return (gate * tl.sigmoid(gate)).to(kind).to(tl.float32) * up.to(kind).to(tl.float32)


@triton.jit
def _put(at, values, mask, added: tl.constexpr, kind: tl.constexpr):
    values = values.to(kind).to(tl.float32)
    if added:
        values += tl.load(at, mask, 0.0).to(tl.float32)
    tl.store(at, values.to(at.dtype.element_ty), mask)


@triton.jit
def attention(
    joined, cache, q_norm, k_norm, rotation, out, epsilon, sharpness, place, count,
    steps: tl.constexpr, group: tl.constexpr, heads: tl.constexpr, head: tl.constexpr, places: tl.constexpr,
):  # fmt: skip
    """One row and one key head: its ``steps`` positions from ``place`` on, each attending to those before and itself.

    ``joined`` ``[count * steps, (heads * group + 2 * heads) * head]``: queries, keys and values; ``cache`` ``[2,
    count, heads, places, head]``; ``rotation`` float32 ``[2, places, head]``; ``out`` ``[count * steps, heads * group *
    head]``.
    """
    row = tl.program_id(0)
    key_head = tl.program_id(1)
    half: tl.constexpr = head // 2
    low = tl.arange(0, half)
    past = tl.arange(0, places)
    kind = cache.dtype.element_ty
    stride: tl.constexpr = (heads * group + 2 * heads) * head
    base = cache + (row * heads + key_head) * places * head
    values_at = base + count * heads * places * head
    for step in tl.static_range(steps):
        now = place + step
        source = joined + (row * steps + step) * stride
        cosine = tl.load(rotation + now * head + low)
        sine = tl.load(rotation + (places + now) * head + low)
        scale_low = tl.load(k_norm + low).to(tl.float32)
        scale_high = tl.load(k_norm + half + low).to(tl.float32)
        at = source + (heads * group + key_head) * head + low
        key_low = tl.load(at).to(tl.float32)
        key_high = tl.load(at + half).to(tl.float32)
        factor = tl.rsqrt((tl.sum(key_low * key_low, 0) + tl.sum(key_high * key_high, 0)) / head + epsilon)
        key_low *= factor * scale_low
        key_high *= factor * scale_high
        turned_low = (key_low * cosine - key_high * sine).to(kind)
        turned_high = (key_high * cosine + key_low * sine).to(kind)
        at = source + (heads * group + heads + key_head) * head + low
        value_low = tl.load(at)
        value_high = tl.load(at + half)
        tl.store(base + now * head + low, turned_low)
        tl.store(base + now * head + half + low, turned_high)
        tl.store(values_at + now * head + low, value_low)
        tl.store(values_at + now * head + half + low, value_high)
        before = (past < now)[:, None]
        own = (past == now)[:, None]
        at_past = past[:, None] * head + low[None, :]
        keys_low = tl.where(own, turned_low[None, :], tl.load(base + at_past, before, 0.0)).to(tl.float32)
        keys_high = tl.where(own, turned_high[None, :], tl.load(base + at_past + half, before, 0.0)).to(tl.float32)
        vals_low = tl.where(own, value_low[None, :], tl.load(values_at + at_past, before, 0.0)).to(tl.float32)
        vals_high = tl.where(own, value_high[None, :], tl.load(values_at + at_past + half, before, 0.0)).to(tl.float32)
        scale_low = tl.load(q_norm + low).to(tl.float32)
        scale_high = tl.load(q_norm + half + low).to(tl.float32)
        for member in tl.static_range(group):
            number = key_head * group + member
            at = source + number * head + low
            query_low = tl.load(at).to(tl.float32)
            query_high = tl.load(at + half).to(tl.float32)
            factor = tl.rsqrt((tl.sum(query_low * query_low, 0) + tl.sum(query_high * query_high, 0)) / head + epsilon)
            query_low *= factor * scale_low
            query_high *= factor * scale_high
            asked_low = (query_low * cosine - query_high * sine).to(kind).to(tl.float32)
            asked_high = (query_high * cosine + query_low * sine).to(kind).to(tl.float32)
            scores = tl.sum(keys_low * asked_low[None, :], 1) + tl.sum(keys_high * asked_high[None, :], 1)
            scores = tl.where(past <= now, scores * sharpness, float("-inf"))
            weights = tl.exp(scores - tl.max(scores, 0))
            weights = (weights / tl.sum(weights, 0))[:, None]
            at = out + (row * steps + step) * heads * group * head + number * head + low
            tl.store(at, tl.sum(vals_low * weights, 0).to(kind))
            tl.store(at + half, tl.sum(vals_high * weights, 0).to(kind))
        # The next position reads the key and the value that this one has stored.
        tl.debug_barrier()


@triton.jit
def _mixed(value):
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB
    return value ^ (value >> 31)


@triton.jit
def _drawn(keys, reach, heat, top_p, chance, size: tl.constexpr, count: tl.constexpr):
    """The code that ``chance`` picks of the ``reach`` likeliest, of ``count`` sorted ``keys``."""
    place = tl.arange(0, count)
    order = size - 1 - (keys & 0xFFFFFFFF)
    bits = (keys >> 32).to(tl.int32)
    bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    ranked = bits.to(tl.float32, bitcast=True) / heat
    weights = tl.where(place < reach, tl.exp(ranked - tl.max(ranked, 0)), 0.0)
    weights = weights / tl.sum(weights, 0)
    ends = tl.cumsum(weights, 0)
    # A scan may add in another order for each place, so that the ends behind the last candidate differ. What has no
    # weight is not one, however they compare.
    kept = tl.maximum(tl.sum((((ends - weights) < top_p) & (weights > 0.0)).to(tl.int32), 0), 1)
    total = tl.sum(tl.where(place == kept - 1, ends, 0.0), 0)
    passed = tl.sum(((ends <= chance * total) & (place < kept)).to(tl.int32), 0)
    return tl.sum(tl.where(place == tl.minimum(passed, kept - 1), order, 0), 0)


@triton.jit
def drawing(
    logits, said, penalty, suppressed, seeds, steps, temperatures, top_ks, top_ps, codes, table, read, sums,
    slot, vocabulary, book, width, books, read_stride, fixed_top_k, fixed_top_p,
    first: tl.constexpr, short: tl.constexpr, size: tl.constexpr, few: tl.constexpr, span: tl.constexpr,
):  # fmt: skip
    """One row: the code of a book, and what is read of it.

    ``logits`` float32 ``[n, vocabulary]``; ``codes`` int64 ``[n, books]``; ``table`` ``[vocabulary, width]``, whose row
    of the code goes to ``read``, rows ``read_stride`` apart, and is added to ``sums`` float32 ``[n, width]``. What is
    known of each slot (``slot`` int64 ``[n]`` numbers them): ``seeds``, ``steps``, ``temperatures``. The ``first`` book
    is drawn as the row says, without codes that are ``suppressed`` (float32 ``[vocabulary]``, added) and with a penalty
    on those ``said``; the others with ``fixed_top_k`` and ``fixed_top_p`` where the row draws at all. All codes are
    sorted only if more than ``few`` of them can be drawn, which is not so where ``short``.
    """
    row = tl.program_id(0)
    mine = tl.load(slot + row)
    place = tl.arange(0, size)
    real = place < vocabulary
    score = tl.load(logits + row * vocabulary + place, real, float("-inf"))
    temperature = tl.load(temperatures + mine)
    greedy = temperature <= 0.0
    if first:
        top_k = tl.load(top_ks + mine)
        top_p = tl.load(top_ps + mine)
        factor = tl.load(penalty + mine)
        before = tl.load(said + mine * vocabulary + place, real, 0) != 0
        score = tl.where(before, tl.where(score < 0, score * factor, score / factor), score)
        score += tl.load(suppressed + place, real, 0.0)
        heat = tl.where(greedy, 1.0, temperature)
    else:
        top_k = tl.zeros((), tl.int64) + fixed_top_k
        top_p = tl.zeros((), tl.float32) + fixed_top_p
        heat = tl.zeros((), tl.float32) + 1.0
    # Scores and places in one integer, whose order is that of the scores and, where they are equal, of the places.
    bits = score.to(tl.int32, bitcast=True)
    bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    keys = (bits.to(tl.int64) << 32) + (size - 1 - place)
    state = tl.load(seeds + mine).to(tl.uint64)
    golden: tl.constexpr = 0x9E3779B97F4A7C15
    state = _mixed(state + golden)
    state = _mixed((state ^ tl.load(steps + mine).to(tl.uint64)) + golden)
    state = _mixed((state ^ (tl.zeros((), tl.uint64) + book)) + golden)
    chance = (state >> 40).to(tl.int32).to(tl.float32) * (1.0 / 16777216.0)
    # A greedy row takes the first of however many.
    reach = tl.where(greedy, 1, tl.where(top_k == 0, vocabulary, tl.minimum(top_k, vocabulary)))
    if short:  # noqa: SIM114 - known when this is compiled, the next one when it runs
        code = _drawn(tl.topk(keys, few), reach, heat, top_p, chance, size, few)
    elif reach <= few:
        code = _drawn(tl.topk(keys, few), reach, heat, top_p, chance, size, few)
    else:
        code = _drawn(tl.sort(keys, descending=True), reach, heat, top_p, chance, size, size)
    tl.store(codes + row * books + book, code)
    at = tl.arange(0, span)
    inside = at < width
    vector = tl.load(table + code * width + at, inside, 0.0)
    tl.store(read + row * read_stride + at, vector, inside)
    added = vector.to(tl.float32)
    if not first:
        added += tl.load(sums + row * width + at, inside, 0.0)
    tl.store(sums + row * width + at, added, inside)
