"""Server events: plain dictionaries in the contract's shape, ready to be encoded (bytes become base64)."""

from __future__ import annotations

from typing import Any

from voice_omni.realtime.ids import IdFactory

ServerEvent = dict[str, Any]


class EventWriter:
    """Writes events, each with an id of its own."""

    def __init__(self, ids: IdFactory) -> None:
        self._ids = ids

    def __call__(self, kind: str, **fields: Any) -> ServerEvent:
        return {"type": kind, "event_id": self._ids("event"), **fields}

    def error(
        self, code: str, message: str, *, param: str | None = None, event_id: str | None = None, kind: str
    ) -> ServerEvent:
        """``event_id`` is the client event that caused it; ``kind`` ``invalid_request_error`` or ``server_error``."""
        error = {"type": kind, "code": code, "message": message, "param": param, "event_id": event_id}
        return self("error", error=error)


def usage(
    input_tokens: int = 0, output_tokens: int = 0, *, spoken_input: bool = False, spoken_output: bool = False
) -> dict[str, Any]:
    """Token counts of one response; the whole of each side is attributed to its modality."""
    return {
        "total_tokens": input_tokens + output_tokens,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "input_token_details": {
            "text_tokens": 0 if spoken_input else input_tokens,
            "audio_tokens": input_tokens if spoken_input else 0,
            "image_tokens": 0,
            "cached_tokens": 0,
            "cached_tokens_details": {"text_tokens": 0, "audio_tokens": 0, "image_tokens": 0},
        },
        "output_token_details": {
            "text_tokens": 0 if spoken_output else output_tokens,
            "audio_tokens": output_tokens if spoken_output else 0,
        },
    }
