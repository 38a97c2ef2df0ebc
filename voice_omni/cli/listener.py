"""The server's listening socket, taken before the models load, so that a port in use is known at once."""

from __future__ import annotations

import errno
import socket

from voice_omni.proto.errors import OmniError


def bind(host: str, port: int) -> socket.socket:
    """A TCP socket that listens on the address; who connects before the server is ready waits in its queue.

    Raises :class:`OmniError`: ``port_in_use`` or ``invalid_config``.
    """
    try:
        [(family, kind, protocol, _, address), *_] = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except socket.gaierror as error:
        raise OmniError(
            "invalid_config",
            f"server.host '{host}' is no address of this machine: {error.strerror}",
            param="server.host",
        ) from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except OSError as error:
        listener.close()
        raise _explained(error, host, port) from error
    return listener


def url_of(listener: socket.socket, scheme: str = "http") -> str:
    """``scheme://host:port`` under which this machine reaches the socket."""
    host, port = listener.getsockname()[:2]
    if host in {"0.0.0.0", "::"}:
        host = "127.0.0.1"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _explained(error: OSError, host: str, port: int) -> OmniError:
    if error.errno == errno.EADDRINUSE:
        advice = "stop the program that listens there, or choose another with --port (0: any free one)"
        return OmniError("port_in_use", f"port {port} of {host} is in use; {advice}", param="server.port")
    if error.errno == errno.EACCES:
        message = f"this user may not listen on port {port}; choose one above 1023 with --port"
        return OmniError("invalid_config", message, param="server.port")
    return OmniError("invalid_config", f"cannot listen on {host}:{port}: {error.strerror}", param="server.host")
