"""Control messages between the nodes of a pipeline: typed, versioned msgpack, never pickle.

A node is one process with its event loop; it hosts stages. A message goes to one stage of a node, to the coordinator
(:data:`~voice_omni.proto.payload.CLIENT`) or to the node itself (an empty target).
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from voice_omni.proto.errors import ErrorInfo
from voice_omni.proto.payload import OmniRequest

PROTOCOL_VERSION: Final = 1


class RelayRef(msgspec.Struct, frozen=True, array_like=True):
    """Where a body's tensors lie in the receiver's registered buffer, in bytes."""

    offset: int
    nbytes: int


class ArrayMeta(msgspec.Struct, frozen=True, array_like=True):
    """One tensor of a body: its dtype, its shape, and its offset in the body's bytes.

    ``dtype``: numpy's string for an array, torch's name for a device tensor.
    """

    dtype: str
    shape: tuple[int, ...]
    offset: int


class Body(msgspec.Struct, frozen=True, array_like=True):
    """A ``Data`` tree on the wire: msgpack with tensors taken out.

    ``arrays``: those in host memory; they follow inline when ``ref`` is None. ``tensors``: those on a device, at
    ``tensors_ref`` of the receiver's device buffer.
    """

    tree: bytes
    arrays: tuple[ArrayMeta, ...] = ()
    ref: RelayRef | None = None
    tensors: tuple[ArrayMeta, ...] = ()
    tensors_ref: RelayRef | None = None


class _Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


class Open(_Message, frozen=True):
    """First message of a request on an edge: the header, and which node runs each stage of its route."""

    request: OmniRequest
    source: str
    bindings: dict[str, str]


class Deliver(_Message, frozen=True):
    """A chunk of a stream edge or the result of a payload edge. ``seq`` counts per request and edge from 0.

    ``body`` is a :class:`Body` on the wire and the tree itself inside a node.
    """

    request_id: str
    source: str
    seq: int
    kind: Literal["chunk", "result"]
    body: Any


class End(_Message, frozen=True):
    """The stream edge from ``source`` is complete."""

    request_id: str
    source: str
    seq: int


class Credit(_Message, frozen=True):
    """``stage`` has consumed ``count`` chunks of the edge into it."""

    request_id: str
    stage: str
    count: int


class Abort(_Message, frozen=True):
    """Stop the request. Always answered by :class:`AbortAck`, also where it is unknown."""

    request_id: str


class AbortAck(_Message, frozen=True):
    request_id: str
    stage: str
    node: str


class StageDone(_Message, frozen=True):
    """The request is finished at ``stage``, which no longer knows it. Times: seconds, monotonic, 0 for never.

    ``handed_to``: the other nodes that it went on to, and in which incarnation. Should one of them have died by the
    time this arrives, the request is lost there, and the sender, who has forgotten it, will not report that.
    """

    request_id: str
    stage: str
    opened: float
    input_ended: float
    first_output: float
    finished: float
    handed_to: dict[str, int] = {}


class RequestFailed(_Message, frozen=True):
    request_id: str
    stage: str
    error: ErrorInfo


class PeerUp(_Message, frozen=True):
    """``node`` can be reached; a higher ``incarnation`` replaces the one before, whose state is lost."""

    node: str
    incarnation: int
    endpoint: str


class PeerDown(_Message, frozen=True):
    node: str
    incarnation: int


class Region(_Message, frozen=True):
    """``node`` has registered receive buffers for the addressee's one-sided writes.

    ``device``: the descriptor of the one on its device; empty where device tensors must come as host arrays.
    """

    node: str
    incarnation: int
    descriptor: bytes
    device: bytes = b""


class Free(_Message, frozen=True):
    """``node`` has read what was written for it at these offsets of its buffers."""

    node: str
    incarnation: int
    offsets: tuple[int, ...]
    device_offsets: tuple[int, ...] = ()


class Loading(_Message, frozen=True):
    """Progress of a node that starts: one line for a person."""

    node: str
    stage: str
    text: str


class Ready(_Message, frozen=True):
    """Every stage of the node is loaded and warm."""

    node: str
    incarnation: int


class StartFailed(_Message, frozen=True):
    node: str
    incarnation: int
    error: ErrorInfo


class Heartbeat(_Message, frozen=True):
    """Sent at a fixed pace. ``stages``: for each stage, counts that are all 0 when it holds nothing. ``threads``: the
    system's ids of those without which the next one cannot come."""

    node: str
    incarnation: int
    rss_bytes: int
    stages: dict[str, dict[str, int]]
    threads: tuple[int, ...] = ()


class Shutdown(_Message, frozen=True):
    pass


Message = (
    Open
    | Deliver
    | End
    | Credit
    | Abort
    | AbortAck
    | StageDone
    | RequestFailed
    | PeerUp
    | PeerDown
    | Region
    | Free
    | Loading
    | Ready
    | StartFailed
    | Heartbeat
    | Shutdown
)


class Envelope(msgspec.Struct, frozen=True, array_like=True):
    """What one control frame holds: who sent it (a node and its incarnation), for whom, and the message."""

    version: int
    sender: str
    incarnation: int
    target: str
    message: Message
