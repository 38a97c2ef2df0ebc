"""The kernels that a GPU writes frames with give what plain torch gives."""

from __future__ import annotations

import os
import subprocess
import sys


def test_frames_of_the_kernels_are_those_of_torch() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.engines.sglang.contract.kernels"],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stdout
