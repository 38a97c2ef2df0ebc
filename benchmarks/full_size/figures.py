"""From turns to figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from benchmarks.full_size.people import Turn
from voice_omni.client.interface import StageTiming

FRAME_SAMPLES = 1920
"""Of a codec frame: 80 ms at 24 kHz."""

PARTS = ("audio_encoder", "thinker", "talker", "code2wav", "to the client")
"""Of the way from the commit to the first sound, in order."""


def moments(committed: float, timings: Mapping[str, StageTiming], first_sound: float) -> tuple[float, ...]:
    """When each of :data:`PARTS` was through, the commit first."""
    spoken, heard = (timings[name].first_output or first_sound for name in ("talker", "code2wav"))
    # The detokeniser opens with the thinker's first token.
    return committed, timings["audio_encoder"].finished, timings["decode"].opened, spoken, heard, first_sound


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of all does not exceed; NaN of nothing."""
    if not values:
        return float("nan")
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def gap_s(sounds: Sequence[tuple[float, int]], rate: int) -> float:
    """Seconds of silence between chunks, each of which is played when it has come and what came before has ended."""
    silent, end = 0.0, 0.0
    for number, (at, samples) in enumerate(sounds):
        if number and at > end:
            silent += at - end
        end = (max(at, end) if number else at) + samples / rate
    return silent


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one crowd. Milliseconds but for ``real_time``, the time from the commit to the last sound as a share of the
    sound's length. ``frames``: of each complete answer. ``failed``: how often which error ended a turn; ``reasons``:
    what the first of each said."""

    first_ms: list[float]
    frame_ms: list[float]
    real_time: list[float]
    gaps_ms: list[float]
    abort_ms: list[float]
    frames: list[int]
    split_ms: dict[str, list[float]]
    failed: Counter[str]
    reasons: dict[str, str]

    @property
    def gap_free(self) -> float:
        """The share of the complete answers that play without a gap."""
        return sum(gap == 0 for gap in self.gaps_ms) / len(self.gaps_ms) if self.gaps_ms else float("nan")


def figures(turns: Sequence[Turn], rate: int, frame_samples: int) -> Figures:
    """``rate``: samples in a second of the answers' sound; ``frame_samples``: in a codec frame."""
    found = Figures([], [], [], [], [], [], {name: [] for name in PARTS}, Counter(), {})
    for turn in turns:
        if turn.failure is not None:
            found.failed[turn.failure.code] += 1
            found.reasons.setdefault(turn.failure.code, f"{turn.failure.stage}: {turn.failure.message}")
        if turn.abort_s is not None:
            found.abort_ms.append(turn.abort_s * 1000)
        if turn.committed is None or not turn.sounds:
            continue
        (first, samples), (last, _) = turn.sounds[0], turn.sounds[-1]
        found.first_ms.append((first - turn.committed) * 1000)
        if turn.timings is None:
            continue
        whole = sum(count for _, count in turn.sounds)
        found.frames.append(-(-whole // frame_samples))
        if whole > samples:
            found.frame_ms.append((last - first) * 1000 / ((whole - samples) / frame_samples))
        found.real_time.append((last - turn.committed) / (whole / rate))
        found.gaps_ms.append(gap_s(turn.sounds, rate) * 1000)
        passed = moments(turn.committed, turn.timings, first)
        for name, (start, stop) in zip(PARTS, pairwise(passed), strict=True):
            found.split_ms[name].append((stop - start) * 1000)
    return found


HEAD = (
    "| people | answers | first sound ms, p50 | p95 | frame ms | real-time factor, p50 | p95 | gap-free |"
    " longest gap ms | abort ms, p50 | p95 | GPU memory GB | failed |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def line(label: str, found: Figures, memory: str) -> str:
    """A row below :data:`HEAD`."""
    failed = ", ".join(f"{count} {code}" for code, count in found.failed.items()) or "0"

    def shown(values: Sequence[float], share: float, digits: int) -> str:
        return f"{percentile(values, share):.{digits}f}" if values else "-"

    cells = [
        label,
        str(len(found.frames)),
        *(shown(found.first_ms, share, 0) for share in (0.5, 0.95)),
        shown(found.frame_ms, 0.5, 2),
        *(shown(found.real_time, share, 3) for share in (0.5, 0.95)),
        f"{found.gap_free:.0%}" if found.gaps_ms else "-",
        shown(found.gaps_ms, 1, 0),
        *(shown(found.abort_ms, share, 1) for share in (0.5, 0.95)),
        memory,
        failed,
    ]
    return "| " + " | ".join(cells) + " |"


def split_table(found: Mapping[int, Figures]) -> str:
    """Medians of where the time to the first sound goes, with a column for each crowd by its size."""
    crowds = [each for each in found if any(found[each].split_ms.values())]
    lines = [
        f"| part of the time to the first sound, ms | {' | '.join(f'{people} people' for people in crowds)} |",
        f"|---|{'---|' * len(crowds)}",
    ]
    for name in PARTS:
        medians = (f"{median(found[people].split_ms[name]):.1f}" for people in crowds)
        lines.append(f"| {name} | {' | '.join(medians)} |")
    return "\n".join(lines)
