"""The server tells nobody that it runs: no library that it loads may report to its maker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from voice_omni.session.weights import SILERO_VAD
from voice_omni.weights import fetch

_LISTEN = """
import sys
from voice_omni.session.silero import SileroModel
SileroModel(sys.argv[1])
"""
_KEPT = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "SYSTEMROOT")
"""Of the environment: without what would keep ONNX Runtime quiet anyway, as on machines that run tests."""


def test_onnx_runtime_does_not_identify_this_machine_or_keep_reports(tmp_path: Path) -> None:
    model = fetch(SILERO_VAD, quiet=True) / SILERO_VAD.files[0]
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ} | {"HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", _LISTEN, str(model)], env=environment, check=True, timeout=60)
    assert sorted(tmp_path.rglob("*")) == []
