"""What is delivered to this node, handed on in the order of each edge while reads out of the relay overlap."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from voice_omni.pipeline.lanes import Lane, Place
from voice_omni.pipeline.node import Node, Parcel
from voice_omni.proto.errors import OmniError
from voice_omni.proto.messages import Deliver, End, StageDone

Item = TypeVar("Item", Deliver | End, Deliver | StageDone)
"""What a lane carries beside deliveries depends on who sends."""


class Intake:
    """Opens parcels for whoever they are delivered to."""

    def __init__(self, node: Node, failed: Callable[[str, OmniError], None]) -> None:
        """``failed`` is told of a request of which something could not be read; its lane goes past that."""
        self._node = node
        self._failed = failed

    def take(self, lane: Lane[Item] | None, message: Deliver, parcel: Parcel | None) -> None:
        """Put the message in its lane, with the data from the parcel if it came with one. No lane: nobody wants it."""
        if lane is None:
            if parcel is not None:
                parcel.drop()
        elif parcel is None:
            lane.pass_through(message)
        else:
            # Reserved before the read starts: reads overlap, the order is that of arrival.
            self._node.spawn(self._read(lane, lane.reserve(), message, parcel))

    async def _read(self, lane: Lane[Item], place: Place[Item], message: Deliver, parcel: Parcel) -> None:
        delivered: Deliver | None = None
        try:
            tree = await parcel.open()
            delivered = Deliver(message.request_id, message.source, message.seq, message.kind, tree)
        except OmniError as error:
            self._failed(message.request_id, error)
        finally:
            lane.fill(place, delivered)
