"""What an engine computes before it serves.

SGLang compiles what a batch needs when it meets the first of its kind, on top of the captured graphs: samplers and
penalties for one row and for several, attention and experts for sizes that no graph has. Each takes from half a second
to eight, in which nobody else's row goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from threading import Event
from typing import Final

import numpy as np

from voice_omni.engines.interface import Feed, Piece, Row, Sampling
from voice_omni.engines.sglang.engine import SglangEngine
from voice_omni.engines.sglang.prompt import Limits

_CROWDS: Final = (1, 2, 3, 11, 16)
"""Kernels are compiled apart for one row, for numbers that 16 divides, and for others. A prefill of more rows than its
graphs have places for has no graph, however short it is."""

_SHORTEST: Final = 3
_LENGTHS: Final = (_SHORTEST, 20, 47)
_LONG: Final = (301, 304, 601, 608, 1001, 1008, 1501, 1504, 2001, 2048)
"""Positions for which there is no prefill graph, usually. The experts' kernels have settings of their own about every
500, and each of these is compiled once for numbers that 16 divides and once for others."""

_NEW_TOKENS: Final = 3
_DRAWN: Final = Sampling(temperature=1.0, top_k=50, top_p=0.9, repetition_penalty=1.05)


def warm_up(engine: SglangEngine, sampling: Sampling = _DRAWN) -> None:
    """Prefill and decode rows like those to come, greedy ones and others that are drawn as ``sampling`` says: one and
    several at a time, short and long, new ones and such whose beginning is cached.

    For an engine that nobody drives yet. Raises what makes a row fail.
    """
    limits, numbers = engine.limits, count()
    most = engine.max_rows
    for crowd in sorted({*(each for each in _CROWDS if each < most), most}):
        place = min(engine.longest_prompt, engine.kv_tokens // (2 * crowd)) - _NEW_TOKENS
        lengths = (*_LENGTHS, *(_LONG if crowd == 1 else ()))
        for length in sorted({max(_SHORTEST, min(each, place)) for each in lengths}):
            new = [next(numbers) for _ in range(crowd)]
            # What comes again is found in the cache, but for its last position.
            for _ in range(2):
                _finish(engine, [_row(each, length, sampling, limits) for each in new])


def _row(number: int, length: int, sampling: Sampling, limits: Limits) -> tuple[Row, Feed]:
    """Begins with a position that no other number has."""
    drawn = Sampling(suppress=sampling.suppress) if number % 2 else sampling
    tokens = [number % limits.vocabulary, *[0] * (length - 1)]
    padding = np.zeros(limits.width, np.float32) if limits.framed and limits.width is not None else None
    row = Row(f"warm-up {number}", [], _NEW_TOKENS, frozenset(), drawn, open=True, padding=padding)
    if limits.width is None:
        return row, Feed([Piece(tokens)], closed=True)
    rows = np.full((length, limits.width), number / 1000, np.float32)
    if padding is None:
        return row, Feed([Piece(tokens[:1]), Piece(tokens[1:-1], rows[1:-1]), Piece(tokens[-1:])], closed=True)
    return row, Feed([Piece(tokens, rows)], closed=True, conditions=rows[:1], ended=True)


def _finish(engine: SglangEngine, rows: Iterable[tuple[Row, Feed]]) -> None:
    woken = Event()
    engine.start(woken.set)
    running = set(_started(engine, rows))
    while running:
        woken.wait()
        woken.clear()
        for output in engine.step():
            if output.error is not None:
                raise output.error
            if output.finish is not None:
                running.discard(output.row_id)


def _started(engine: SglangEngine, rows: Iterable[tuple[Row, Feed]]) -> Iterator[str]:
    for row, feed in rows:
        engine.add(row)
        engine.feed(row.row_id, feed)
        yield row.row_id
