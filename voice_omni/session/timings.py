"""Where the time of one answer went, for ``response.timings``."""

from __future__ import annotations

from typing import Any

from voice_omni.client.interface import Done
from voice_omni.session.turn import Moments


def timings(done: Done, moments: Moments) -> dict[str, Any]:
    """Milliseconds after the end of speech; None where nothing happened or nobody spoke.

    ``turn``: when the pause was noticed, the turn was over, its words were known, and its first sound was sent.
    ``stages``: what each stage did when.
    """
    zero = moments.speech_end

    def since(moment: float | None) -> float | None:
        return None if zero is None or moment is None else round((moment - zero) * 1000, 3)

    turn = {name: since(getattr(moments, name)) for name in ("paused", "stopped", "committed", "first_audio")}
    stages = {
        name: {
            "opened": since(stage.opened),
            "input_ended": since(stage.input_ended),
            "first_output": since(stage.first_output),
            "finished": since(stage.finished),
        }
        for name, stage in done.timings.items()
    }
    return {"turn": turn, "stages": stages}
