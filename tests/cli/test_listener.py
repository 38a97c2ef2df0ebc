"""Taking the port."""

from __future__ import annotations

import socket

import pytest

from voice_omni.cli.listener import bind, url_of
from voice_omni.proto.errors import OmniError


def test_port_0_takes_a_free_one_and_the_address_names_it() -> None:
    with bind("127.0.0.1", 0) as listener:
        assert url_of(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}"
        with socket.create_connection(listener.getsockname(), timeout=5):
            pass


def test_every_interface_is_reached_over_the_loopback() -> None:
    with bind("0.0.0.0", 0) as listener:
        assert url_of(listener).startswith("http://127.0.0.1:")


def test_a_port_in_use_is_refused_with_what_to_do() -> None:
    with bind("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(OmniError, match=rf"port {port} of 127\.0\.0\.1 is in use; .*--port") as caught:
            bind("127.0.0.1", port)
    assert caught.value.code == "port_in_use"


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
def test_an_address_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(OmniError, match=r"is no address of this machine|cannot listen on") as caught:
        bind(host, 0)
    assert caught.value.code == "invalid_config"
    assert caught.value.info.param == "server.host"
