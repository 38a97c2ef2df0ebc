"""What an operator can set about calls, and what cannot be."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from voice_omni.config import load
from voice_omni.models import registry
from voice_omni.proto.errors import OmniError
from voice_omni.transports.webrtc.ice_servers import ice_servers, turn_credentials
from voice_omni.transports.webrtc.options import WebRtcOptions
from voice_omni.transports.webrtc.peer_interface import PeerSettings


def test_without_a_word_nothing_outside_is_asked_for_anything() -> None:
    options = WebRtcOptions()
    assert ice_servers(options, "caller", 0) == () == PeerSettings().ice_servers
    assert options.connect_timeout_s == PeerSettings().connect_timeout_s


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (["webrtc.udp_port_min=5000"], "udp_port_min is 5000 and udp_port_max 0; set both"),
        (["webrtc.udp_port_min=5000", "webrtc.udp_port_max=4000"], "udp_port_max 4000"),
        (["webrtc.public_address=example.com"], "public_address is 'example.com'; it must be an IP address"),
        (["webrtc.networks=[10.0.0.0/33]"], "networks holds '10.0.0.0/33'; each must be a CIDR block"),
        (["webrtc.ice_servers=[turn:t.example]"], "turn_secret is not set"),
        (["webrtc.turn_secret=s"], "ice_servers names no TURN server"),
        (["webrtc.ice_servers=[http://t.example]"], "webrtc.ice_servers is"),
        (["webrtc.relay_only=true"], "relay_only is true"),
        (["webrtc.max_wait_ms=10"], "max_wait_ms is 10 and min_wait_ms 40"),
        (["webrtc.processes=0"], "webrtc.processes is '0'; it must be a whole number from 1 to 64"),
        (["webrtc.codecs=[speex]"], "webrtc.codecs is"),
    ],
)
def test_what_cannot_be_is_told_by_key_value_and_what_would_be_right(said: list[str], complaint: str) -> None:
    with pytest.raises(OmniError, match="webrtc") as caught:
        load(registry.get("starter"), None, said, {})
    assert complaint in str(caught.value)


def test_the_secret_is_never_shown() -> None:
    said = ["webrtc.ice_servers=[turn:t.example]", "webrtc.turn_secret=tell-nobody"]
    resolved = load(registry.get("starter"), None, said, {})
    assert resolved.settings.webrtc.turn_secret == "tell-nobody"
    assert all("tell-nobody" not in str(value) for value in resolved.values)


def test_turn_credentials_are_those_that_coturn_computes() -> None:
    """With ``use-auth-secret``: the password is base64(HMAC-SHA1(secret, "expiry:name"))."""
    username, credential = turn_credentials("north", "rtc_1", 1_700_000_000)
    assert username == "1700000000:rtc_1"
    assert base64.b64decode(credential) == hmac.new(b"north", username.encode(), hashlib.sha1).digest()


def test_stun_and_turn_servers_are_told_apart() -> None:
    options = WebRtcOptions(
        ice_servers=("turn:t.example:3478", "stun:s.example", "turns:t.example:443?transport=tcp"),
        turn_secret="north",
        turn_ttl_s=100,
    )
    stun, turn = ice_servers(options, "page", 1000.9)
    assert (stun.urls, stun.username) == (("stun:s.example",), None)
    assert turn.urls == ("turn:t.example:3478", "turns:t.example:443?transport=tcp")
    assert turn.username == "1100:page"
