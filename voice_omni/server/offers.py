"""The body of ``POST /v1/realtime/calls``: an SDP offer, alone or with the session that it asks for."""

from __future__ import annotations

from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request

from voice_omni.realtime.errors import ProtocolError
from voice_omni.server.http_errors import MAX_BODY_BYTES, decode_json, read_body

MAX_SDP_BYTES: Final = 64 * 1024
"""Far more than a browser's offer of sound and one data channel."""
MAX_PARTS: Final = 8
MAX_HEAD_BYTES: Final = 1024
"""Of one part of a form, and of its content type."""


async def read_offer(request: Request) -> tuple[str, dict[str, Any] | None]:
    """The offer and, if one came with it, the session.

    ``application/sdp`` is an offer; ``multipart/form-data`` has it as ``sdp`` and the session, as JSON, as ``session``.
    Raises :class:`ProtocolError` and ``HTTPException`` 413 and 415.
    """
    kind = request.headers.get("content-type", "")
    match kind.partition(";")[0].strip().lower():
        case "application/sdp":
            return _offer(await read_body(request, MAX_SDP_BYTES)), None
        case "multipart/form-data":
            parts = _parts(kind, await read_body(request, MAX_BODY_BYTES + MAX_SDP_BYTES))
        case _:
            raise HTTPException(415, "An offer comes as application/sdp, or as multipart/form-data with a session.")
    if "sdp" not in parts:
        raise ProtocolError("missing_required_parameter", "Missing required parameter: 'sdp'.", "sdp")
    session = parts.get("session")
    return _offer(parts["sdp"]), decode_json(session, dict[str, Any], "session") if session is not None else None


def _offer(data: bytes) -> str:
    if len(data) > MAX_SDP_BYTES:
        raise HTTPException(413, f"The offer is larger than {MAX_SDP_BYTES // 1024} KiB.")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = ""
    if not text.startswith("v=0"):
        raise ProtocolError("invalid_sdp", "The offer is no session description: it begins with 'v=0'.", "sdp")
    return text


def _parts(content_type: str, body: bytes) -> dict[str, bytes]:
    """The parts of a form (RFC 7578) by their names.

    A form is flat, so this looks no deeper: what a general parser of mail makes of parts within parts, and of very many
    of them, takes long and holds everybody up.
    """
    boundary = _head(f"Content-Type: {content_type}".encode("latin-1")).get_boundary()
    if not boundary:
        raise _no_form()
    _, *pieces = (b"\r\n" + body).split(b"\r\n--" + boundary.encode(errors="replace"), MAX_PARTS + 1)
    if not pieces or not pieces.pop().startswith(b"--"):
        raise _no_form()
    parts: dict[str, bytes] = {}
    for piece in pieces:
        head, _, content = piece.partition(b"\r\n\r\n")
        name = _head(head.lstrip()).get_param("name", header="content-disposition")
        if isinstance(name, str):
            parts[name] = content
    return parts


def _head(lines: bytes) -> EmailMessage:
    if len(lines) > MAX_HEAD_BYTES:
        raise _no_form()
    return BytesParser(EmailMessage, policy=policy.HTTP).parsebytes(lines + b"\r\n\r\n", headersonly=True)


def _no_form() -> ProtocolError:
    return ProtocolError("invalid_value", "The body is not the form that its content type says.")
