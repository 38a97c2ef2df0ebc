"""Requests and the payloads that flow between stages.

``Data`` is a tree of ``None``, booleans, integers, floats, strings, bytes, lists, dictionaries with string keys, numpy
arrays and torch tensors. Whoever receives a tree must not change it: inside one process it is handed over by reference.

Between processes a torch tensor arrives on the receiving process's device, without passing through the host, when both
have one and the stage is declared to send such (``StageSpec.device_tensors``). Otherwise it arrives as a numpy array,
``bfloat16`` and ``float8`` as float32; ``torch.as_tensor`` takes either. A tensor is complete when it is sent: who
sends it has waited for the stream that computes it, and who receives it waits for none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

Data = dict[str, Any]

CLIENT: Final = "client"
"""The name under which the client side of the pipeline appears as a source or a target of an edge."""


class OmniRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request on its way through the pipeline; the header that every stage of its route sees.

    ``route`` names the subset of the pipeline's stages that it runs through. ``inputs`` is what the client asked
    (see :mod:`voice_omni.proto.vocabulary`), ``params`` how it is to be answered. ``session_id`` and
    ``utterance_id`` let a stage reuse what it computed before: they are hints, never needed for a right result.
    """

    request_id: str
    route: str
    inputs: Data = msgspec.field(default_factory=dict)
    params: Data = msgspec.field(default_factory=dict)
    session_id: str | None = None
    utterance_id: str | None = None


@dataclass(frozen=True, slots=True)
class StagePayload:
    """What opens a request at a stage: the header, and the results of the stages before it by their names."""

    request: OmniRequest
    results: dict[str, Data] = field(default_factory=dict)

    @property
    def request_id(self) -> str:
        return self.request.request_id
