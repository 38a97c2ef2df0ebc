"""The server as a process of its own: it says what it runs, serves, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Callable

import pytest

from tests.support.toy_server import address, read_until

Start = Callable[..., "subprocess.Popen[str]"]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_what_it_runs_serves_and_ends_on_a_signal(start: Start, number: signal.Signals) -> None:
    process = start()
    lines = read_until(process, "stdout", "listening")
    assert lines[0] == "pipeline   toy: counts and sings"
    rows = [line.split() for line in lines if line.startswith(("listen ", "think", "speak", "vocode"))]
    assert [row[:2] for row in rows] == [[name, name] for name in ("listen", "think", "speak", "vocode")]
    url = lines[-1].split()[1]
    with urllib.request.urlopen(f"{url}/health", timeout=10) as answer:
        assert json.load(answer)["status"] == "ready"
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert errors.splitlines()[-1] == "stopped"
    assert not any(alive(int(row[2])) for row in rows)


def test_a_signal_while_models_load_ends_it_too(start: Start) -> None:
    process = start()
    read_until(process, "stderr", "listen:")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 0


def test_a_port_in_use_is_known_before_any_model_loads(start: Start) -> None:
    port = int(address(start()).rpartition(":")[2])
    output, errors = start(port).communicate(timeout=30)
    assert output == ""
    assert "loading" not in errors
    assert f"port {port} of 127.0.0.1 is in use" in errors
