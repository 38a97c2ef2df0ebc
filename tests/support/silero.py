"""The real judge of voice activity, loaded once."""

from __future__ import annotations

import pytest

from voice_omni.session.silero import SileroModel
from voice_omni.session.weights import SILERO_VAD
from voice_omni.weights import fetch


@pytest.fixture(scope="session")
def silero() -> SileroModel:
    return SileroModel(fetch(SILERO_VAD, quiet=True) / SILERO_VAD.files[0])
