"""What an operator can set about calls over WebRTC."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from voice_omni.transports.webrtc.peer_interface import Codec, PeerSettings

_PEER: Final = PeerSettings()
"""Where the defaults of what concerns one call stand."""


class WebRtcOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The media processes, the network that their calls go through, and what the calls carry."""

    processes: Annotated[
        int, Meta(ge=1, le=64, description="media processes; each uses one core and is started when a call needs it")
    ] = 1
    max_calls: Annotated[int, Meta(ge=1, description="calls at the same time; one more is told to come back later")] = (
        32
    )
    udp_port_min: Annotated[
        int, Meta(ge=0, le=65535, description="first UDP port for media; 0: any port that is free")
    ] = 0
    udp_port_max: Annotated[int, Meta(ge=0, le=65535, description="last UDP port for media")] = 0
    public_address: (
        Annotated[str, Meta(min_length=1, description="address under which a 1:1 NAT shows this host to callers")]
        | None
    ) = None
    networks: Annotated[
        tuple[str, ...], Meta(description="CIDR blocks of own addresses that are offered to callers; none: all")
    ] = _PEER.networks
    excluded_networks: Annotated[
        tuple[str, ...], Meta(description="CIDR blocks of own addresses that are not offered")
    ] = _PEER.excluded_networks
    ipv6: Annotated[bool, Meta(description="offer own IPv6 addresses too")] = _PEER.ipv6
    ice_servers: Annotated[
        tuple[Annotated[str, Meta(pattern=r"^(stun|turn)s?:[^\s]+$")], ...],
        Meta(description="STUN and TURN servers for both sides, such as turn:turn.example.com:3478?transport=udp"),
    ] = ()
    turn_secret: Annotated[
        str,
        Meta(
            description="secret shared with the TURN servers (coturn: use-auth-secret), from which each caller gets "
            "credentials of its own",
            extra={"secret": True},
        ),
    ] = ""
    turn_ttl_s: Annotated[
        int, Meta(ge=60, le=172_800, description="how long TURN credentials let a caller in, seconds")
    ] = 7200
    relay_only: Annotated[bool, Meta(description="offer no own address, only that of the TURN server")] = (
        _PEER.relay_only
    )
    gather_timeout_s: Annotated[
        float, Meta(gt=0, le=30, description="how long STUN and TURN servers may take when a call begins, seconds")
    ] = _PEER.gather_timeout_s
    connect_timeout_s: Annotated[
        float, Meta(gt=0, le=300, description="a call that is not connected by then is given up, seconds")
    ] = _PEER.connect_timeout_s
    disconnect_timeout_s: Annotated[
        float, Meta(gt=0, le=300, description="a caller of whom nothing is heard for so long is gone, seconds")
    ] = _PEER.disconnect_timeout_s
    codecs: Annotated[tuple[Codec, ...], Meta(min_length=1, description="codecs that callers may choose from")] = (
        _PEER.codecs
    )
    bitrate: Annotated[int, Meta(ge=6000, le=128_000, description="of Opus that is sent, bits a second")] = (
        _PEER.bitrate
    )
    complexity: Annotated[int, Meta(ge=0, le=10, description="of the Opus encoder: processor time against quality")] = (
        _PEER.complexity
    )
    expected_loss_percent: Annotated[
        int, Meta(ge=0, le=50, description="packet loss that Opus is made redundant for; 0: no redundancy")
    ] = _PEER.expected_loss_percent
    min_wait_ms: Annotated[
        int, Meta(ge=0, le=1000, description="a missing packet is waited for at least so long, milliseconds")
    ] = _PEER.min_wait_ms
    max_wait_ms: Annotated[
        int, Meta(ge=0, le=2000, description="and at most so long, however much the path's delay varies, milliseconds")
    ] = _PEER.max_wait_ms

    def __post_init__(self) -> None:
        if (self.udp_port_min == 0) != (self.udp_port_max == 0) or self.udp_port_max < self.udp_port_min:
            raise ValueError(
                f"udp_port_min is {self.udp_port_min} and udp_port_max {self.udp_port_max}; set both, the second at "
                "least as large as the first, or neither"
            )
        if self.max_wait_ms < self.min_wait_ms:
            raise ValueError(
                f"max_wait_ms is {self.max_wait_ms} and min_wait_ms {self.min_wait_ms}; max_wait_ms must be at least "
                "min_wait_ms"
            )
        if self.public_address is not None:
            _check_address(self.public_address)
        for key, blocks in (("networks", self.networks), ("excluded_networks", self.excluded_networks)):
            for block in blocks:
                _check_block(key, block)
        turn = any(url.startswith("turn") for url in self.ice_servers)
        if turn != bool(self.turn_secret):
            missing = "turn_secret is not set" if turn else "ice_servers names no TURN server"
            raise ValueError(f"{missing}; a TURN server in ice_servers and turn_secret go together")
        if self.relay_only and not turn:
            raise ValueError("relay_only is true and ice_servers names no TURN server to relay through")


def _check_address(text: str) -> None:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        raise ValueError(f"public_address is '{text}'; it must be an IP address such as 203.0.113.7") from None


def _check_block(key: str, text: str) -> None:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        raise ValueError(f"{key} holds '{text}'; each must be a CIDR block such as 10.0.0.0/8") from None
