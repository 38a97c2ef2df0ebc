"""The STUN and TURN servers of a call, with credentials that are good for a while.

TURN credentials follow "A REST API For Access To TURN Services" (draft-uberti-behave-turn-rest-00), which coturn knows
as ``use-auth-secret``: whoever shares the secret can make them, and the TURN server checks them without asking anybody.
"""

from __future__ import annotations

import base64
import hashlib
import hmac

from voice_omni.transports.webrtc.options import WebRtcOptions
from voice_omni.transports.webrtc.peer_interface import IceServer


def turn_credentials(secret: str, name: str, expires_at: int) -> tuple[str, str]:
    """Username and password for one user of a TURN server; ``expires_at``: Unix time."""
    username = f"{expires_at}:{name}"
    digest = hmac.new(secret.encode(), username.encode(), hashlib.sha1).digest()
    return username, base64.b64encode(digest).decode()


def ice_servers(options: WebRtcOptions, name: str, now: float) -> tuple[IceServer, ...]:
    """What is configured, for the user ``name``; ``now``: Unix time."""
    stun = tuple(url for url in options.ice_servers if url.startswith("stun"))
    turn = tuple(url for url in options.ice_servers if url.startswith("turn"))
    servers = [IceServer(urls=stun)] if stun else []
    if turn:
        username, credential = turn_credentials(options.turn_secret, name, int(now) + options.turn_ttl_s)
        servers.append(IceServer(urls=turn, username=username, credential=credential))
    return tuple(servers)
