"""Errors over HTTP, in OpenAI's shape, and request bodies that may be wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from voice_omni.proto.errors import OmniError
from voice_omni.realtime.errors import ProtocolError, from_validation

MAX_BODY_BYTES: Final = 256 * 1024
"""Largest JSON body: a session with long instructions and many tools."""

T = TypeVar("T")

_CODES: Final[Mapping[int, str]] = {
    404: "not_found",
    405: "method_not_allowed",
    413: "request_too_large",
    415: "unsupported_content_type",
}
_STATUS: Final[Mapping[str, int]] = {"rate_limit_exceeded": 429, "overloaded": 503}


def error_response(
    status: int, code: str, message: str, *, param: str | None = None, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """``{"error": {"message", "type", "param", "code"}}``, which every OpenAI client library understands."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    error = {"message": message, "type": kind, "param": param, "code": code}
    return JSONResponse({"error": error}, status_code=status, headers=headers)


async def on_http_error(request: Request, error: Exception) -> Response:
    """404, 405 and whatever else a route raises as an HTTP status."""
    if not isinstance(error, HTTPException):
        raise error
    code = _CODES.get(error.status_code, "invalid_request")
    what = f"{request.method} {request.url.path}"
    message = {404: f"There is no {what}.", 405: f"{what} is not possible."}.get(error.status_code, error.detail)
    return error_response(error.status_code, code, message, headers=error.headers)


async def on_protocol_error(_: Request, error: Exception) -> Response:
    """Something in the body that the protocol does not allow."""
    if not isinstance(error, ProtocolError):
        raise error
    return error_response(400, error.code, error.message, param=error.param)


async def on_omni_error(_: Request, error: Exception) -> Response:
    """An expected failure; one that may pass says so with 429 or 503."""
    if not isinstance(error, OmniError):
        raise error
    status = _STATUS.get(error.code, 503 if error.info.retryable else 400)
    return error_response(status, error.code, error.info.message, param=error.info.param)


async def on_fault(_: Request, error: Exception) -> Response:
    """A fault of the server: what it was stands in the log, not in the answer."""
    return error_response(500, "internal_error", "The server made a mistake while it answered this request.")


HANDLERS: Final[dict[Any, Callable[..., Any]]] = {
    HTTPException: on_http_error,
    ProtocolError: on_protocol_error,
    OmniError: on_omni_error,
    Exception: on_fault,
}
"""For the application: which exception is answered how."""


async def read_json(request: Request, kind: type[T]) -> T:
    """The body, validated; an empty one counts as ``{}``.

    Raises :class:`ProtocolError` (``invalid_json`` and what is wrong with one field) and ``HTTPException`` 413.
    """
    return decode_json(await read_body(request, MAX_BODY_BYTES) or b"{}", kind)


async def read_body(request: Request, most: int) -> bytes:
    """Raises ``HTTPException`` 413 as soon as more than ``most`` bytes have come."""
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > most:
                raise HTTPException(413, f"The body is larger than {most // 1024} KiB.")
    except ClientDisconnect:
        raise HTTPException(400, "The body ended early.") from None
    return bytes(body)


def decode_json(data: bytes, kind: type[T], param: str = "") -> T:
    """``param``: what the data is the value of; empty for a body. Raises :class:`ProtocolError`: ``invalid_json`` and
    what is wrong with one field."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise from_validation(error, param) from None
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        what = f"'{param}'" if param else "The body"
        raise ProtocolError("invalid_json", f"{what} is not valid JSON.", param or None) from None
