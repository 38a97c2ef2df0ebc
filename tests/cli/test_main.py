"""The command: what it prints, how it fails and how fast it gets there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE_S
from voice_omni import __version__
from voice_omni.cli.main import main


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "voice_omni.cli.main", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


def test_the_version_is_printed() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"voice-omni {__version__}\n")


def test_starting_imports_nothing_heavy() -> None:
    heavy = "{'numpy', 'zmq', 'yaml', 'starlette', 'uvicorn', 'websockets', 'onnxruntime', 'ctranslate2', 'soundfile'}"
    code = f"import sys, voice_omni.cli.main as m; m.parser(); print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_an_expected_failure_is_one_line_and_an_exit_code() -> None:
    done = run("config", "check", "--set", "server.port=many")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (
        "voice-omni: error: command line: server.port is 'many'; it must be a whole number from 0 to 65535\n"
    )


def test_an_unknown_pipeline_is_named_with_those_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", "--set", "pipeline=nothing"]) == 1
    assert "no pipeline 'nothing'; there are:" in capsys.readouterr().err


def test_wrong_usage_has_its_own_exit_code() -> None:
    assert run("dance").returncode == 2
    assert run("talk").returncode == 2


def test_a_reader_who_leaves_is_no_failure_to_shout_about() -> None:
    command = f"{sys.executable} -m voice_omni.cli.main config reference | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_config_explain_shows_values_and_where_they_came_from(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("server:\n  host: 127.0.0.2\n")
    monkeypatch.setitem(os.environ, "VOICE_OMNI__SERVER__SHUTDOWN_S", "1")
    assert main(["config", "explain", "server", "--config", str(path), "--set", "server.port=9"]) == 0
    rows = [line.split()[:3] for line in capsys.readouterr().out.splitlines()]
    assert rows[:5] == [
        ["KEY", "VALUE", "FROM"],
        ["server.host", "127.0.0.2", f"{path}:2"],
        ["server.port", "9", "command"],
        ["server.max_sessions", "32", "default"],
        ["server.shutdown_s", "1.0", "environment"],
    ]


def test_config_explain_of_nothing_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "explain", "nothing"]) == 1
    assert "there is no value below 'nothing'" in capsys.readouterr().err


def test_config_check_sums_up_what_is_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", "--set", "processes.talker.replicas=2"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("valid: pipeline starter; 1 of ")
    assert "talker x2 (talker)" in out
