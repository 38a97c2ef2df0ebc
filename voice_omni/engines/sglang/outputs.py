"""What SGLang's scheduler sends, as replies to single requests."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from sglang.srt.managers.io_struct import AbortReq, BatchTokenIDOutput, unwrap_from_pickle

from voice_omni.engines.sglang.hidden import HiddenRows
from voice_omni.engines.sglang.rows import End, Reply
from voice_omni.proto.errors import OmniError

FRAMES: Final = "frames"
"""Under which SGLang reports what a frame head wrote: for each token of a request its frame, or None."""
TAKEN_BACK: Final = "taken_back"
"""How a request ends that must be asked for again, because its place in the KV pool went to others."""


def replies(output: Any) -> list[Reply]:
    """The replies in one message. Raises ``TypeError`` for a kind of message that nothing here asks for."""
    match output:
        case HiddenRows(rid, rows):
            return [Reply(rid, [], hidden=rows.float().numpy())]
        case BatchTokenIDOutput():
            frames = (unwrap_from_pickle(output.customized_info) or {}).get(FRAMES) or [()] * len(output.rids)
            return [
                Reply(rid, list(tokens), *_ended(reason), cached=cached, frames=written)
                for rid, tokens, reason, cached, written in zip(
                    output.rids, output.output_ids, output.finished_reasons, output.cached_tokens, frames, strict=True
                )
            ]
        case AbortReq():
            # Of a request that had not begun to decode, or of one that no longer fits in the KV pool.
            return [Reply(output.rid, [], *_ended(output.finished_reason or {"type": "abort"}))]
    raise TypeError(f"SGLang's scheduler sent a {type(output).__name__}")


def _ended(reason: dict[str, Any] | None) -> tuple[End | None, Exception | None]:
    match reason:
        case None:
            return None, None
        case {"type": "length"}:
            return "length", None
        case {"type": "stop"}:
            return "stop", None
        case {"type": "abort", "status_code": int(status)}:
            # SGLang's own decision; an abort that was asked for has no status.
            refused = status == HTTPStatus.BAD_REQUEST
            message = str(reason.get("message"))
            return "error", OmniError("invalid_value" if refused else "overloaded", message, retryable=not refused)
        case {"type": "abort"}:
            return "aborted", None
        case {"type": "taken_back"}:
            return "taken_back", None
    raise TypeError(f"SGLang's scheduler ended a request with {reason!r}")
