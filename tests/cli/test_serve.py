"""The server as a process of its own: it says what it runs, serves, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from tests.support.patience import PATIENCE_S
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
    with urllib.request.urlopen(f"{url}/health", timeout=PATIENCE_S) as answer:
        assert json.load(answer)["status"] == "ready"
    process.send_signal(number)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert errors.splitlines()[-1] == "stopped"
    assert not any(alive(int(row[2])) for row in rows)


def test_a_signal_while_models_load_ends_it_too(start: Start) -> None:
    process = start()
    read_until(process, "stderr", "listen:")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0


def test_a_port_in_use_is_known_before_any_model_loads(start: Start) -> None:
    port = int(address(start()).rpartition(":")[2])
    output, errors = start(port).communicate(timeout=PATIENCE_S)
    assert output == ""
    assert "loading" not in errors
    assert f"port {port} of 127.0.0.1 is in use" in errors


def test_with_a_certificate_it_speaks_tls(start: Start, tmp_path: Path) -> None:
    authority = trustme.CA()
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(key)
    for pem in certificate.cert_chain_pems:
        pem.write_to_path(chain, append=True)
    url = address(start(tls_certificate=str(chain), tls_key=str(key)))
    assert url.startswith("https://")
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with urllib.request.urlopen(f"{url}/health", timeout=PATIENCE_S, context=trusting) as answer:
        assert json.load(answer)["status"] == "ready"


def test_a_certificate_that_cannot_be_used_stops_the_start(start: Start, tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.pem"
    nothing.write_text("no certificate")
    output, errors = start(tls_certificate=str(nothing), tls_key=str(nothing)).communicate(timeout=PATIENCE_S)
    assert output == ""
    assert "tls_certificate and server.tls_key are no usable pair" in errors
