"""What the stages read of a request."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any, Final, TypeVar

import msgspec

from voice_omni.model_runner.tool_calls import OPEN
from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import OmniRequest
from voice_omni.proto.vocabulary import TOOL_CHOICE, TOOLS

P = TypeVar("P", bound=msgspec.Struct)

TRANSCRIBE: Final = "transcribe"
SPEAK: Final = "speak"
HEARING: Final = frozenset({"speech", "speech_text", TRANSCRIBE})
"""Routes of requests whose last turn is streamed in as sound."""


def params_of(request: OmniRequest, kind: type[P]) -> P:
    """The parameters that a stage knows. Raises :class:`OmniError` ``invalid_value``."""
    try:
        return msgspec.convert(request.params, kind)
    except msgspec.ValidationError as error:
        raise OmniError("invalid_value", f"params: {error}", param="params") from error


def seed_of(request: OmniRequest, seed: int | None) -> int:
    """The request's own seed, or one of its id: another draw for each request, the same one wherever it runs."""
    if seed is not None:
        return seed
    return int.from_bytes(blake2b(request.request_id.encode(), digest_size=8).digest(), "little")


def tools_of(request: OmniRequest) -> list[Any]:
    """The functions that may be called in this answer."""
    if request.inputs.get(TOOL_CHOICE) == "none" or request.route == TRANSCRIBE:
        return []
    return list(request.inputs.get(TOOLS) or ())


def forced_start(request: OmniRequest) -> str:
    """How an answer begins that has to call a function; empty where the model is free to."""
    tools, choice = tools_of(request), request.inputs.get(TOOL_CHOICE, "auto")
    if not tools or choice == "auto":
        return ""
    if choice == "required" and len(tools) > 1:
        return f'{OPEN}\n{{"name": "'
    name = tools[0]["name"] if choice == "required" else choice["name"]
    return f'{OPEN}\n{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": '
