"""Which web pages may use the server from a browser."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

from voice_omni.config.settings import is_loopback

LOCALHOST_ORIGIN = r"https?://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?"
"""Pages of this machine, as a pattern of their origin."""


def may_use(origin: str | None, host: str | None, allowed: Collection[str]) -> bool:
    """Whether a request with these ``Origin`` and ``Host`` headers may use a server that asks for no key.

    Only browsers send an origin, and they send cookies and requests of any page to any address, so that a page could
    otherwise talk to the server behind its visitor's back. Allowed are pages of this machine, the pages in ``allowed``
    (``*``: all), and those that the server's own address serves. An own address must be a number or ``localhost``:
    any name can be made to point here by whoever owns it.
    """
    if origin is None or "*" in allowed or origin in allowed:
        return True
    try:
        page = urlsplit(origin)
        name = page.hostname or ""
    except ValueError:
        return False
    if is_loopback(name):
        return True
    return page.netloc == host and _is_address(name)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
