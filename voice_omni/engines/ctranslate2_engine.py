"""Rows on CTranslate2: int8 on a CPU, each row by itself.

The library decodes a batch in lockstep and admits nobody to it later, so each row is a call of its own on a thread of
its own, and one core: for models of this engine's size a second core makes a row slower (135 million parameters on two
cores: 48 tokens/s with one, 28 with two), while two rows on two cores keep their speed.

**Pausing.** The library asks a callback after each token; for a paused row the callback waits. The row keeps its KV
cache and its thread but no processor time. When another row needs the thread, the paused one gives both up, and is
computed again from its prompt and its tokens when it goes on.

**Prefixes.** For rows with a ``prefix_len`` the library keeps the KV cache of their first tokens, found again by exact
match, and never forgets one. This engine counts them: when their budget is spent it loads the weights anew on a thread
of its own, computes the most used prefixes there, and lets go of the old weights with their last row.

**Sampling.** The library draws from one generator per native thread, seeded once per process, so ``Sampling.seed`` has
no effect here: only greedy rows (``temperature`` 0) are reproducible. The repetition penalty looks at generated tokens,
not at the prompt.
"""

from __future__ import annotations

import json
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, Final

import ctranslate2

from voice_omni.engines.interface import FinishReason, Row, RowOutput
from voice_omni.proto.errors import OmniError

log = logging.getLogger(__name__)

MIN_PREFIX_TOKENS: Final = 8
"""Shorter prefixes are not kept: computing one costs no more than a token does."""
_WARM_UP_TOKENS: Final = 32


@dataclass(slots=True, eq=False)
class _Job:
    """A row on its way: waiting, running, or parked (paused without a thread).

    The scheduler's thread owns it; the computing thread reads ``gate`` and ``halt`` after each token. An open gate lets
    it go on, ``halt`` makes it return.
    """

    row: Row
    tokens: list[int] = field(default_factory=list)
    gate: Event = field(default_factory=Event)
    halt: bool = False
    paused: bool = False
    removed: bool = False


@dataclass(frozen=True, slots=True)
class _Gained:
    job: _Job
    token: int


@dataclass(frozen=True, slots=True)
class _Returned:
    """Nothing runs for the row any more. ``finish`` None: it was halted before its end."""

    job: _Job
    finish: FinishReason | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The weights once more, with the KV cache of these prefixes only."""

    generator: Any
    prefixes: list[tuple[int, ...]]


class CTranslate2Engine:
    """An asynchronous :class:`~voice_omni.engines.interface.Engine` over a folder with a decoder-only model.

    ``max_rows``: rows computed at the same time; others wait, first come first served. ``prefix_tokens``: how many
    tokens of prefixes are kept (``layers * heads * head_dim * 8`` bytes each, also where heads share keys and values).
    ``compute_type``: the library's name, ``default`` for the precision on disk. Raises
    :class:`~voice_omni.proto.errors.OmniError` (``weights_missing``) if there is no model.
    """

    def __init__(
        self, folder: Path, *, max_rows: int = 4, prefix_tokens: int = 1024, compute_type: str = "default"
    ) -> None:
        if not (folder / "model.bin").is_file():
            raise OmniError("weights_missing", f"there is no CTranslate2 model (model.bin) in {folder}.")
        self._folder = folder
        self._max_rows = max_rows
        self._compute_type = compute_type
        self._words: list[str] = json.loads((folder / "vocabulary.json").read_text(encoding="utf-8"))
        self._generator = self._load()
        self._prefixes = _PrefixBudget(prefix_tokens)
        self._loading = False
        self._jobs: dict[str, _Job] = {}
        self._waiting: deque[_Job] = deque()
        self._running: set[_Job] = set()
        self._events: deque[_Gained | _Returned | _Loaded] = deque()
        self._threads = ThreadPoolExecutor(max_rows, thread_name_prefix="ctranslate2-row")
        self._background = ThreadPoolExecutor(1, thread_name_prefix="ctranslate2-prefix")
        self._wake: Callable[[], None] = _nobody

    def start(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def add(self, row: Row) -> None:
        job = _Job(row)
        self._jobs[row.row_id] = job
        self._waiting.append(job)
        self._dispatch()

    def pause(self, row_id: str) -> None:
        job = self._jobs.get(row_id)
        if job is None or job.paused:
            return
        job.paused = True
        if job in self._waiting:
            self._waiting.remove(job)
        elif not job.halt:
            job.gate.clear()
        self._dispatch()

    def resume(self, row_id: str) -> None:
        job = self._jobs.get(row_id)
        if job is None or not job.paused:
            return
        job.paused = False
        if job in self._running:
            job.gate.set()
        elif not job.removed:
            self._waiting.append(job)
            self._dispatch()

    def remove(self, row_id: str) -> None:
        job = self._jobs.get(row_id)
        if job is None or job.removed:
            return
        job.removed = True
        if job in self._running:
            _halt(job)
            return
        if job in self._waiting:
            self._waiting.remove(job)
        self._post(_Returned(job))

    def warm(self, prefix: list[int]) -> None:
        """Compute the KV cache of a prefix that a row is expected to begin with; nothing if there is no room for it."""
        if self._keep(tuple(prefix)):
            self._background.submit(self._compute, self._generator, prefix).add_done_callback(_warmed)

    @property
    def busy(self) -> bool:
        return bool(self._events)

    def step(self) -> list[RowOutput]:
        gained: dict[str, list[int]] = {}
        ended: list[_Returned] = []
        while self._events:
            match self._events.popleft():
                case _Gained(job, token):
                    job.tokens.append(token)
                    gained.setdefault(job.row.row_id, []).append(token)
                case _Returned(job) as returned:
                    self._running.discard(job)
                    if job.removed or returned.finish or returned.error:
                        del self._jobs[job.row.row_id]
                        ended.append(returned)
                    elif not job.paused:
                        self._waiting.append(job)
                case _Loaded(generator, prefixes):
                    self._generator, self._loading = generator, False
                    self._prefixes.restart(prefixes)
        self._dispatch()
        outputs = [
            RowOutput(end.job.row.row_id, gained.pop(end.job.row.row_id, []), end.finish or "removed", end.error)
            for end in ended
        ]
        return [RowOutput(row_id, tokens) for row_id, tokens in gained.items()] + outputs

    def stop(self) -> None:
        self._waiting.clear()
        for job in self._running:
            _halt(job)
        self._threads.shutdown(wait=True)
        self._background.shutdown(wait=True, cancel_futures=True)
        self._jobs.clear()
        self._running.clear()
        self._events.clear()
        self._generator = None

    def stats(self) -> dict[str, int]:
        return {"rows": len(self._jobs), "running": len(self._running), "waiting": len(self._waiting)}

    # Choosing what runs

    def _dispatch(self) -> None:
        while self._waiting and len(self._running) < self._max_rows:
            job = self._waiting.popleft()
            job.halt = False
            job.gate.set()
            self._running.add(job)
            prefix = job.row.prompt[: job.row.prefix_len]
            kept = len(prefix) < len(job.row.prompt) and self._keep(tuple(prefix))
            call = self._threads.submit(self._run, self._generator, job, len(prefix) if kept else 0)
            call.add_done_callback(partial(self._returned, job))
        halting = sum(job.halt for job in self._running)
        idle = [job for job in self._running if job.paused and not job.halt]
        for job in idle[: max(0, len(self._waiting) - halting)]:
            _halt(job)

    def _keep(self, prefix: tuple[int, ...]) -> bool:
        if len(prefix) < MIN_PREFIX_TOKENS:
            return False
        if self._prefixes.take(prefix):
            return True
        if len(prefix) <= self._prefixes.limit and not self._loading:
            self._loading = True
            wanted = [*self._prefixes.popular(self._prefixes.limit // 2), prefix]
            self._background.submit(self._reload, wanted).add_done_callback(self._reloaded)
        return False

    # On other threads

    def _load(self) -> Any:
        workers = self._max_rows + 1
        generator = ctranslate2.Generator(
            str(self._folder),
            compute_type=self._compute_type,
            inter_threads=workers,
            intra_threads=1,
            max_queued_batches=-1,
        )
        # A worker's first call takes twice as long as the others: so many at once that each worker gets one.
        words = self._words[:_WARM_UP_TOKENS]
        calls = [
            generator.generate_batch([words], max_length=1, include_prompt_in_result=False, asynchronous=True)[0]
            for _ in range(workers)
        ]
        for call in calls:
            call.result()
        return generator

    def _reload(self, prefixes: list[tuple[int, ...]]) -> _Loaded:
        generator = self._load()
        for prefix in prefixes:
            self._compute(generator, prefix)
        return _Loaded(generator, prefixes)

    def _reloaded(self, done: Future[_Loaded]) -> None:
        if done.cancelled():
            return
        if error := done.exception():
            log.warning("No new prefixes are kept: the model in %s could not be loaded again: %s", self._folder, error)
        else:
            self._post(done.result())

    def _compute(self, generator: Any, prefix: Sequence[int]) -> None:
        words = self._spell(prefix)
        generator.generate_batch([words[-1:]], max_length=1, static_prompt=words, include_prompt_in_result=False)

    def _run(self, generator: Any, job: _Job, prefix_len: int) -> FinishReason | None:
        if job.halt:
            return None
        row, sampling = job.row, job.row.sampling
        known = len(job.tokens)
        # Tokens from before a preemption count for the penalty only where the decoding loop itself walks through them.
        replay = known > 0 and sampling.repetition_penalty != 1.0
        head = len(row.prompt) - 1 if replay else prefix_len
        seen = 0
        finish: FinishReason | None = None

        def on_token(step: Any) -> bool:
            nonlocal seen, finish
            seen += 1
            if replay and seen <= known:
                return job.halt
            if step.token_id in row.stop:
                finish = "stop"
                return True
            self._post(_Gained(job, step.token_id))
            if step.is_last:
                finish = "length"
                return True
            job.gate.wait()
            return job.halt

        generator.generate_batch(
            [self._spell([*row.prompt[head:], *job.tokens])],
            static_prompt=self._spell(row.prompt[:head]) if head else None,
            cache_static_prompt=not replay,
            include_prompt_in_result=replay,
            max_length=row.max_new_tokens - (0 if replay else known),
            end_token=sorted(row.stop),
            sampling_topk=1 if sampling.temperature == 0 else sampling.top_k,
            sampling_topp=sampling.top_p,
            sampling_temperature=sampling.temperature or 1.0,
            repetition_penalty=sampling.repetition_penalty,
            callback=on_token,
        )
        return finish

    def _returned(self, job: _Job, done: Future[FinishReason | None]) -> None:
        error = done.exception()
        if error is not None and not isinstance(error, Exception):
            error = RuntimeError(repr(error))
        self._post(_Returned(job, None if error else done.result(), error))

    def _spell(self, tokens: Sequence[int]) -> list[str]:
        return [self._words[token] for token in tokens]

    def _post(self, event: _Gained | _Returned | _Loaded) -> None:
        self._events.append(event)
        self._wake()


class _PrefixBudget:
    """Which prefixes the library holds now, and whether one more fits."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._uses: Counter[tuple[int, ...]] = Counter()

    def take(self, prefix: tuple[int, ...]) -> bool:
        if prefix not in self._uses and sum(map(len, self._uses)) + len(prefix) > self.limit:
            return False
        self._uses[prefix] += 1
        return True

    def popular(self, tokens: int) -> list[tuple[int, ...]]:
        """The most used ones, with at most so many tokens in sum; once for a turn before it came, and then for it, is
        not popular."""
        chosen = []
        for prefix, uses in self._uses.most_common():
            if uses > 2 and len(prefix) <= tokens:
                chosen.append(prefix)
                tokens -= len(prefix)
        return chosen

    def restart(self, prefixes: Iterable[tuple[int, ...]]) -> None:
        self._uses = Counter(prefixes)


def _warmed(done: Future[None]) -> None:
    if not done.cancelled() and (error := done.exception()):
        log.warning("A prefix could not be computed ahead: %s", error)


def _halt(job: _Job) -> None:
    job.halt = True
    job.gate.set()


def _nobody() -> None:
    """Stands in for the scheduler before :meth:`CTranslate2Engine.start`."""
