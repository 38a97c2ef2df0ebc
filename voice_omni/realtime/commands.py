"""What the protocol asks its session to do."""

from __future__ import annotations

from dataclasses import dataclass

from voice_omni.audio.pcm import Samples
from voice_omni.client.interface import Message
from voice_omni.realtime.events import ServerEvent


@dataclass(frozen=True, slots=True)
class AppendAudio:
    """Sound from the client: float32 ``[samples]`` at ``sample_rate``."""

    samples: Samples
    sample_rate: int


@dataclass(frozen=True, slots=True)
class ClearAudio:
    """Forget the sound that has not become an item."""


@dataclass(frozen=True, slots=True)
class KeepLatest:
    """Forget the sound that has not become an item, all but its last ``milliseconds``."""

    milliseconds: int


@dataclass(frozen=True, slots=True)
class TurnCommitted:
    """The uncommitted sound is now the item ``item_id``."""

    item_id: str


@dataclass(frozen=True, slots=True)
class ItemAudio:
    """A client's own item holds sound whose words are unknown: float32 ``[samples]`` at ``sample_rate``."""

    item_id: str
    samples: Samples
    sample_rate: int


@dataclass(frozen=True, slots=True)
class StartReply:
    """A response has begun; generate its answer from ``messages``, or from the conversation when they are None.

    ``heard``: what the person said after the ``messages``, as sound, or as the id of an item of the conversation whose
    words were not known yet.
    """

    response_id: str
    messages: tuple[Message, ...] | None
    heard: ItemAudio | str | None = None


@dataclass(frozen=True, slots=True)
class CancelReply:
    """A response was cancelled; none of its sound may be sent any more."""

    response_id: str


@dataclass(frozen=True, slots=True)
class StopPlayback:
    """What has been sent and is not played yet is not to be played."""


@dataclass(frozen=True, slots=True)
class ContextChanged:
    """What a reply would be made of has changed: settings or items."""


Command = (
    AppendAudio
    | ClearAudio
    | KeepLatest
    | TurnCommitted
    | ItemAudio
    | StartReply
    | CancelReply
    | StopPlayback
    | ContextChanged
)
Output = ServerEvent | Command
