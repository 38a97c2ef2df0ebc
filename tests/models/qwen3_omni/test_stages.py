"""How stages are built from their options. What they then do is tested with the stages themselves."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from voice_omni.models.qwen3_omni import stages
from voice_omni.models.qwen3_omni.options import ThinkerOptions
from voice_omni.pipeline.spec import StageContext
from voice_omni.proto.errors import OmniError


def test_where_sglang_is_missing_the_stage_says_what_to_install(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sglang", None)
    context = StageContext("thinker", ThinkerOptions(engine="sglang"), "cpu", 1, str(tiny))
    with pytest.raises(OmniError, match=r"voice-omni\[sglang\]") as raised:
        stages.thinker(context)
    assert raised.value.code == "missing_dependency"
