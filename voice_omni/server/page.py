"""``GET /``: the voice chat page, as it was built from ``web/`` into this package."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

STATIC: Final = Path(__file__).parent / "static"
"""``index.html`` and ``assets/``, whose names hold a digest of their content."""
_INDEX: Final = "index.html"
_TYPES: Final[Mapping[str, str]] = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
"""Not the system's table, which administrators can change: a script of another type is not run."""
_COMPRESSED: Final = frozenset({".css", ".html", ".js", ".svg", ".txt"})
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",  # audio worklets count as scripts
        "style-src 'self'",
        "font-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",  # the WebSocket of the same host included
        "base-uri 'none'",
        "form-action 'none'",
        # A page that may use the microphone must not be somebody else's invisible button.
        "frame-ancestors 'none'",
    )
)
_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "microphone=(self), speaker-selection=(self), camera=(), geolocation=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file of the page, ready to be sent. ``packed``: the same as gzip, where that is worth it.

    ``digest``: of the content, in hexadecimal.
    """

    content: bytes
    packed: bytes | None
    media_type: str
    cache_control: str
    digest: str


def load(folder: Path = STATIC) -> dict[str, PageFile]:
    """The files below ``folder`` by the path at which they are served.

    Raises ``FileNotFoundError`` where there is no page, and ``ValueError`` for a file whose type is not known.
    """
    if not (folder / _INDEX).is_file():
        raise FileNotFoundError(f"{folder} holds no page; 'npm ci && npm run build' in web/ makes it")
    found = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {"/" if name == _INDEX else f"/{name}": _read(path) for name, path in found.items()}


def _read(path: Path) -> PageFile:
    if path.suffix not in _TYPES:
        raise ValueError(f"{path} has a type that the page does not serve; known are {', '.join(sorted(_TYPES))}")
    content = path.read_bytes()
    # A new build has new names for what changed, and only the index knows them.
    cache = "no-cache" if path.name == _INDEX else "public, max-age=31536000, immutable"
    packed = gzip.compress(content, mtime=0) if path.suffix in _COMPRESSED else None
    digest = hashlib.sha256(content).hexdigest()[:32]
    return PageFile(content, packed, _TYPES[path.suffix], cache, digest)


def answer(file: PageFile, headers: Mapping[str, str]) -> Response:
    """``file`` for a request with these headers: packed if it takes that, 304 if it has it already."""
    tag = f'W/"{file.digest}"'  # weak: the same for both encodings
    sent = {**_HEADERS, "Cache-Control": file.cache_control, "ETag": tag, "Vary": "Accept-Encoding"}
    if tag in (known.strip() for known in headers.get("if-none-match", "").split(",")):
        return Response(status_code=304, headers=sent)
    if file.packed is not None and _takes_gzip(headers.get("accept-encoding", "")):
        return Response(file.packed, headers={**sent, "Content-Encoding": "gzip"}, media_type=file.media_type)
    return Response(file.content, headers=sent, media_type=file.media_type)


def _takes_gzip(accepted: str) -> bool:
    for entry in accepted.split(","):
        coding, _, quality = entry.partition(";")
        if coding.strip().lower() == "gzip":
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def routes(folder: Path = STATIC) -> list[BaseRoute]:
    """Of the page and its assets. Everybody may load them; what they then ask of the server is another matter."""
    files = load(folder)

    async def index(request: Request) -> Response:
        return answer(files["/"], request.headers)

    async def asset(request: Request) -> Response:
        file = files.get(f"/assets/{request.path_params['name']}")
        if file is None:
            raise HTTPException(404)
        return answer(file, request.headers)

    return [Route("/", index, methods=["GET"]), Route("/assets/{name}", asset, methods=["GET"])]
