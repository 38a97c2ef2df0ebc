"""What the stages read of a request."""

from __future__ import annotations

from hashlib import blake2b
from typing import TypeVar

import msgspec

from voice_omni.proto.errors import OmniError
from voice_omni.proto.payload import OmniRequest

P = TypeVar("P", bound=msgspec.Struct)


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
