"""Ports that nobody else takes while a test needs them."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved_port() -> Iterator[int]:
    """A TCP port on which nobody listens, unless a server is told to: it is bound, so that the system gives it to
    nobody, and ``SO_REUSEADDR`` lets a server that asks for it listen all the same."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def unused_udp_port() -> int:
    """Outside the range from which the system gives ports to those who ask for any, and free at the moment."""
    while True:
        port = random.SystemRandom().randrange(20_000, 30_000)
        with socket.socket(type=socket.SOCK_DGRAM) as probe:
            try:
                probe.bind(("0.0.0.0", port))
            except OSError:
                continue
            return port
