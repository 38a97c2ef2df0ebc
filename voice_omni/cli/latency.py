"""The latency table that follows a conversation. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from voice_omni.cli.table import table
from voice_omni.cli.turns import Turn

_STAGE_MOMENTS: Final = ("opened", "input_ended", "first_output", "finished")
_TURN_MOMENTS: Final = {
    "paused": "pause noticed",
    "stopped": "turn over",
    "committed": "words known",
    "first_audio": "first sound sent",
}


def latency_table(turns: Iterable[Turn]) -> str:
    """Milliseconds from the end of each turn's speech to every moment after it; ``-`` where nothing happened."""
    rows: list[tuple[str, ...]] = [
        ("turn", "decided", "answer begins", "first audio", "first audible sample", "status")
    ]
    for number, turn in enumerate(turns, 1):
        moments = (turn.decided, turn.created, turn.first_audio, turn.first_audible)
        rows.append((str(number), *(_since(turn.speech_end, moment) for moment in moments), _status(turn)))
    return "milliseconds after the end of speech\n" + table(rows, right=frozenset(range(5)))


def stage_table(timings: Mapping[str, Any]) -> str:
    """The server's own account of one answer, as ``response.timings`` gives it.

    ``turn``: when the pause was noticed, the turn was over, its words were known and its first sound was sent;
    ``stages``: what each stage did when. All in milliseconds after the end of speech, None where nothing happened.
    """
    heads = ("stage", "opened", "input ended", "first output", "finished")
    rows: list[tuple[str, ...]] = [heads]
    for name, stage in timings["stages"].items():
        rows.append((name, *(_milliseconds(stage[key]) for key in _STAGE_MOMENTS)))
    turn = ", ".join(f"{words} {_milliseconds(timings['turn'][key])}" for key, words in _TURN_MOMENTS.items())
    return f"in the server: {turn}\n" + table(rows, right=frozenset(range(1, 5)))


def _since(start: float | None, moment: float | None) -> str:
    return _milliseconds(None if start is None or moment is None else (moment - start) * 1000)


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _status(turn: Turn) -> str:
    if turn.status is None:
        return "no answer"
    return f"{turn.status} ({turn.reason})" if turn.reason else turn.status
