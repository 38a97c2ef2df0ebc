"""Which addresses and ports a call uses, and which of the caller's candidates are worth trying. No sockets here."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterable, Iterator, Sequence

from voice_omni.transports.webrtc.peer_interface import PeerSettings

_LOOPBACK = "127.0.0.1"


def local_addresses(found: Iterable[str], settings: PeerSettings) -> list[str]:
    """Those of this host's addresses that are offered. A host that has no other offers its loopback address."""
    networks = [ipaddress.ip_network(block) for block in settings.networks]
    excluded = [ipaddress.ip_network(block) for block in settings.excluded_networks]

    def offered(text: str) -> bool:
        address = ipaddress.ip_address(text)
        if address.version == 6 and not settings.ipv6:
            return False
        if any(address in network for network in excluded):
            return False
        return not networks or any(address in network for network in networks)

    others = [text for text in found if not ipaddress.ip_address(text).is_loopback]
    return [text for text in others or [_LOOPBACK] if offered(text)]


def ports_to_try(ports: tuple[int, int] | None, rng: random.Random) -> Iterator[int]:
    """All of the range once, from a random one on, so that calls rarely meet a taken one; 0 lets the system choose."""
    if ports is None:
        yield 0
        return
    first, last = ports
    start = rng.randint(first, last)
    yield from range(start, last + 1)
    yield from range(first, start)


def without_hopeless_candidates(sdp: str) -> str:
    """The offer without candidates that cannot be reached from here, and without the claim that there are no more.

    Browsers hide their addresses behind mDNS names, which are looked up by multicast for a second and known on the same
    network at most; and candidates over TCP are not for us. A caller whom none of its candidates reaches is found all
    the same, by its own checks, which come from an address that is then known (RFC 8445, section 7.3.1.3). That is also
    how a caller is found who sends its offer before it has gathered any.
    """
    lines = sdp.replace("\r\n", "\n").split("\n")
    return "\r\n".join(line for line in lines if not _hopeless(line.strip().split()))


def _hopeless(fields: Sequence[str]) -> bool:
    if not fields:
        return False
    if fields[0] == "a=end-of-candidates":
        return True
    if not fields[0].startswith("a=candidate:"):
        return False
    return len(fields) < 8 or fields[2].lower() != "udp" or fields[4].endswith(".local")
