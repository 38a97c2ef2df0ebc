"""HTTP downloads with a known SHA-256: resumed where they broke off, checked before anybody may use them."""

from __future__ import annotations

import base64
import http.client
import logging
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit, urlunsplit

from tqdm import tqdm

from voice_omni import __version__
from voice_omni.proto.errors import OmniError
from voice_omni.weights.cache import sha256_of

_BLOCK = 1 << 18
_TIMEOUT_S = 30.0
_PAUSES_S = (0.5, 2.0, 5.0)
_log = logging.getLogger("voice_omni.weights")

_BROKEN = (urllib.error.URLError, TimeoutError, ConnectionError, ssl.SSLError, http.client.HTTPException)


class Meter(Protocol):
    """Shows how far one download is; ``tqdm`` objects fit. A negative count takes bytes back."""

    def update(self, n: int, /) -> object: ...

    def close(self) -> object: ...


def progress_bar(label: str, size: int, *, quiet: bool) -> Meter:
    """A progress bar on standard error; nothing where that is not a terminal, or if ``quiet``."""
    disable = True if quiet else None  # None: tqdm looks whether it writes to a terminal
    meter: Meter = tqdm(desc=label, total=size, unit="B", unit_scale=True, dynamic_ncols=True, disable=disable)
    return meter


class Http:
    """GET requests through the proxy and with the certificates that a package index needs.

    ``proxy`` None leaves the choice to the environment (``HTTPS_PROXY`` and the like), ``certificates`` None to the
    system. A user and password in an address are sent as basic authentication, to that host only. Raises OSError if the
    certificates cannot be read.
    """

    def __init__(self, *, proxy: str | None = None, certificates: str | None = None) -> None:
        folder = certificates is not None and Path(certificates).is_dir()
        context = ssl.create_default_context(
            cafile=None if folder else certificates, capath=certificates if folder else None
        )
        handlers: list[urllib.request.BaseHandler] = [urllib.request.HTTPSHandler(context=context)]
        if proxy:
            handlers.append(urllib.request.ProxyHandler({"http": proxy, "https": proxy}))
        self._opener = urllib.request.build_opener(*handlers)

    def get(self, url: str, headers: dict[str, str] | None = None) -> http.client.HTTPResponse:
        """The open response. Raises OSError, of which ``urllib.error.HTTPError`` is one kind."""
        address, authorization = _without_login(url)
        request = urllib.request.Request(
            address, headers={"User-Agent": f"voice-omni/{__version__}", **(headers or {})}
        )
        if authorization:
            # Unredirected: a redirect to a content host must not take the password along.
            request.add_unredirected_header("Authorization", authorization)
        response: http.client.HTTPResponse = self._opener.open(request, timeout=_TIMEOUT_S)
        return response


def download(
    client: Http, url: str, part: Path, sha256: str, *, meter: Meter, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Bring the file at ``url`` to ``part`` and check it.

    What ``part`` holds already is kept and only the rest is asked for. A connection that breaks is taken up again, up
    to three times in a row without progress. Raises OSError when the server cannot be reached or refuses, and
    ``weights_corrupt``, with the file removed, when the whole has another hash.
    """
    part.parent.mkdir(parents=True, exist_ok=True)
    resumed = _size(part)
    meter.update(resumed)
    _complete(client, url, part, meter, sleep)
    actual = sha256_of(part)
    if actual != sha256 and resumed:
        _log.warning("the resumed download of %s is damaged, starting again", shown(url))
        meter.update(-_size(part))
        part.unlink()
        _complete(client, url, part, meter, sleep)
        actual = sha256_of(part)
    if actual != sha256:
        part.unlink()
        raise OmniError(
            "weights_corrupt", f"{shown(url)} has SHA-256 {actual}, but {sha256} is declared", retryable=True
        )


def shown(url: str) -> str:
    """The address without its user and password, for messages."""
    return _without_login(url)[0]


def with_login_of(origin: str, url: str) -> str:
    """``url`` with the user and password of ``origin`` if it is on the same host and has none of its own."""
    login, _, host = urlsplit(origin).netloc.rpartition("@")
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{login}@{host}")) if login and parts.netloc == host else url


def _complete(client: Http, url: str, part: Path, meter: Meter, sleep: Callable[[float], None]) -> None:
    pauses = iter(_PAUSES_S)
    while True:
        before = _size(part)
        try:
            if _transfer(client, url, part, meter):
                return
            cause: Exception = ConnectionError(f"{shown(url)}: the connection ended early")
        except _BROKEN as error:
            if isinstance(error, urllib.error.HTTPError) and error.code < 500 and error.code != 429:
                raise
            cause = error
        if _size(part) > before:
            pauses = iter(_PAUSES_S)
            continue
        pause = next(pauses, None)
        if pause is None:
            raise ConnectionError(f"{shown(url)}: {cause}") from cause
        sleep(pause)


def _transfer(client: Http, url: str, part: Path, meter: Meter) -> bool:
    """Ask for what is missing, once; whether the file is whole now."""
    start = _size(part)
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        response = client.get(url, headers)
    except urllib.error.HTTPError as error:
        if start and error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            return True  # nothing is missing; the hash tells whether it is the right file
        raise
    with response, part.open("ab", buffering=0) as file:
        if start and response.status != http.client.PARTIAL_CONTENT:
            file.truncate(0)
            meter.update(-start)
            start = 0
        length = response.headers.get("Content-Length")
        received = 0
        while block := response.read1(_BLOCK):
            file.write(block)
            received += len(block)
            meter.update(len(block))
    return length is None or received == int(length)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _without_login(url: str) -> tuple[str, str | None]:
    parts = urlsplit(url)
    login, separator, host = parts.netloc.rpartition("@")
    if not separator:
        return url, None
    token = base64.b64encode(unquote(login).encode()).decode()
    return urlunsplit(parts._replace(netloc=host)), f"Basic {token}"
