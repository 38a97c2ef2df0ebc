"""The command ``talk``: what it prints and saves, and its exit code."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.support.toy_server import address
from voice_omni.cli.main import main

Start = Callable[[], "subprocess.Popen[str]"]


def test_an_answered_call_prints_both_sides_and_the_latencies_and_saves_the_answer(
    start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "answer.wav"
    assert main(["talk", "--demo", "--url", address(start()), "--save", str(saved)]) == 0
    lines = capsys.readouterr().out.splitlines()
    # The transcript of what was said takes its time; the answer does not wait for it.
    assert {line.split()[0] for line in lines[:2]} == {"you:", "agent:"}
    assert any(line.endswith(f"answers saved to {saved}") for line in lines)
    [heads] = [line for line in lines if line.startswith("turn ")]
    turn = lines[lines.index(heads) + 1].split()
    assert turn[0] == "1"
    assert turn[-1] == "completed"
    assert {line.split()[0] for line in lines[-4:]} == {"listen", "think", "speak", "vocode"}
    samples, rate = soundfile.read(saved)
    assert rate == 24_000
    assert np.abs(samples).max() > 0.01


def test_a_call_without_an_answer_fails(start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    silence = tmp_path / "silence.wav"
    soundfile.write(silence, np.zeros(8_000), 16_000)
    assert main(["talk", str(silence), "--url", address(start()), "--timeout", "1"]) == 1
    assert "no answer came" in capsys.readouterr().err
