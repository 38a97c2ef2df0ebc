"""Which addresses and ports are offered, and which candidates are worth trying."""

from __future__ import annotations

import random

import pytest

from voice_omni.transports.webrtc.ice import local_addresses, ports_to_try, without_hopeless_candidates
from voice_omni.transports.webrtc.peer_interface import PeerSettings

FOUND = ["192.168.1.5", "172.17.0.1", "169.254.3.4", "2001:db8::7", "fe80::1"]


@pytest.mark.parametrize(
    ("settings", "offered"),
    [
        (PeerSettings(), ["192.168.1.5", "172.17.0.1", "2001:db8::7"]),
        (PeerSettings(ipv6=False), ["192.168.1.5", "172.17.0.1"]),
        (PeerSettings(excluded_networks=("172.16.0.0/12",), ipv6=False), ["192.168.1.5", "169.254.3.4"]),
        (PeerSettings(networks=("192.168.0.0/16",)), ["192.168.1.5"]),
        (PeerSettings(networks=("10.0.0.0/8",)), []),
    ],
)
def test_own_addresses_are_offered_as_configured(settings: PeerSettings, offered: list[str]) -> None:
    assert local_addresses(FOUND, settings) == offered


def test_a_host_without_a_network_offers_its_loopback_address() -> None:
    assert local_addresses([], PeerSettings()) == ["127.0.0.1"]
    assert local_addresses(["127.0.1.1", "::1"], PeerSettings()) == ["127.0.0.1"]
    assert local_addresses([], PeerSettings(networks=("10.0.0.0/8",))) == []


def test_without_a_range_the_system_chooses_the_port() -> None:
    assert list(ports_to_try(None, random.Random(1))) == [0]


def test_every_port_of_a_range_is_tried_once_and_not_always_the_same_first() -> None:
    tried = [list(ports_to_try((50_000, 50_009), random.Random(seed))) for seed in range(20)]
    assert all(sorted(ports) == list(range(50_000, 50_010)) for ports in tried)
    assert len({ports[0] for ports in tried}) > 3


def test_candidates_that_cannot_be_reached_are_left_out() -> None:
    lines = [
        "v=0",
        "m=audio 9 UDP/TLS/RTP/SAVPF 111",
        "a=candidate:1 1 udp 2113937151 4f2a.local 50000 typ host",
        "a=candidate:2 1 tcp 1518280447 192.168.1.9 9 typ host tcptype active",
        "a=candidate:3 1 udp 2113937151 192.168.1.9 50001 typ host",
        "a=candidate:4 1 UDP 1677729535 198.51.100.4 50002 typ srflx raddr 0.0.0.0 rport 0",
        "a=candidate:5",
        "a=end-of-candidates",
        "a=mid:0",
    ]
    kept = without_hopeless_candidates("\r\n".join(lines) + "\r\n").split("\r\n")
    assert kept == [lines[0], lines[1], lines[4], lines[5], lines[8], ""]
