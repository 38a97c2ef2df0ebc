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
    """The parts of a form (RFC 7578) by their names."""
    head = f"Content-Type: {content_type}\r\n\r\n".encode("latin-1")
    form = BytesParser(policy=policy.HTTP).parsebytes(head + body)
    if not form.is_multipart():
        raise ProtocolError("invalid_value", "The body is not the form that its content type says.")
    parts: dict[str, bytes] = {}
    for part in form.iter_parts():
        if isinstance(part, EmailMessage):
            name = part.get_param("name", header="content-disposition")
            content = part.get_payload(decode=True)
            if isinstance(name, str) and isinstance(content, bytes):
                parts[name] = content
    return parts
