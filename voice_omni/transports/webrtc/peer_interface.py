"""One WebRTC call as the rest of the program sees it: sound and messages in both directions, and how it ends.

Everything here runs on one event loop, which nothing may block: a media process does no other work than its calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Protocol

import msgspec

from voice_omni.audio.pcm import Samples

PLAY_RATE: Final = 24_000
"""Hz, of the sound that :meth:`PeerInterface.play` takes."""

Codec = Literal["opus", "PCMU", "PCMA"]
CloseReason = Literal["local", "remote", "connect_timeout", "disconnected", "failed"]
"""Who or what ended a call: :meth:`PeerInterface.close`, the other side, no connection or event channel in time,
nothing heard from the other side for too long, or a failure of ICE or DTLS."""


class IceServer(msgspec.Struct, frozen=True, kw_only=True):
    """A STUN or TURN server (RFC 7064, RFC 7065); of each kind the first one is used."""

    urls: tuple[str, ...]
    username: str | None = None
    credential: str | None = None


class PeerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How calls are connected and what they carry. The defaults suit a host with an address of its own."""

    ice_servers: tuple[IceServer, ...] = ()
    """None: no server outside is ever asked for anything."""
    relay_only: bool = False
    """Offer no address but that of the TURN server."""
    udp_ports: tuple[int, int] | None = None
    """First and last port for media, one for each call and network address; None: any that is free."""
    public_address: str | None = None
    """The address under which a 1:1 NAT shows this host; announced beside the local ones, with the same ports."""
    networks: tuple[str, ...] = ()
    """CIDR blocks of local addresses that may be offered; empty: all."""
    excluded_networks: tuple[str, ...] = ("169.254.0.0/16", "fe80::/10")
    """CIDR blocks of local addresses that are not offered. Link-local ones only cost time."""
    ipv6: bool = True
    gather_timeout_s: float = 2.0
    """How long STUN and TURN servers may take to answer; then the call goes on without."""
    codecs: tuple[Codec, ...] = ("opus", "PCMU", "PCMA")
    """What may be negotiated; among these the caller's order decides."""
    bitrate: int = 32_000
    """Bits a second, of Opus that is sent."""
    complexity: int = 1
    """Of the Opus encoder, 0 to 10: processor time against quality."""
    expected_loss_percent: int = 5
    """Redundancy in Opus that is sent, for callers who said that they use it; 0: none."""
    input_rate: Literal[16_000, 24_000, 48_000] = 24_000
    """Hz, of the sound that is handed to :meth:`PeerListener.audio`."""
    min_wait_ms: int = 40
    max_wait_ms: int = 120
    """Between these, as the path's jitter demands, a missing packet is waited for. Packets in order never wait."""
    stall_wait_ms: int = 200
    """When nothing at all arrives, the timeline goes on with concealment after this: a path that stalls loses
    nothing then."""
    max_queued_s: float = 60.0
    """Sound that may wait to be sent."""
    max_queued_bytes: int = 8 * 1024 * 1024
    """Messages that may wait to be sent."""
    connect_timeout_s: float = 30.0
    disconnect_timeout_s: float = 20.0
    """A caller of whom nothing at all was heard for so long is gone. A muted one still sends connectivity checks."""


@dataclass(frozen=True, slots=True)
class ReceivedSound:
    """A stretch of the caller's sound. Stretches follow each other without gap or overlap."""

    samples: Samples
    """float32 ``[n]`` mono at ``PeerSettings.input_rate``."""
    position: int
    """Index of the first sample on the call's timeline, which begins at 0 with the first packet."""
    concealed: bool
    """Nothing of it was received: it was extrapolated, or is silence."""


@dataclass(frozen=True, slots=True)
class PeerStats:
    """What one call has come to so far. Durations in seconds."""

    codec: Codec | None
    """None before the connection is made."""
    packets_received: int
    packets_late: int
    """Came after their place on the timeline had been concealed, or twice."""
    received_s: float
    """The length of the timeline: sound, concealment and pauses."""
    lost_s: float
    """Of it, concealed because a packet was lost or late."""
    paused_s: float
    """Of it, what the caller did not send: silence suppression, a mute, an outage."""
    wait_ms: float
    """How long a missing packet is waited for at present."""
    mean_buffering_ms: float
    """Between the arrival of a packet and its being handed on, on average."""
    packets_sent: int
    slots_skipped: int
    """20 ms slots in which nothing was sent because this process was held up."""
    played_s: float
    """Sound sent that came from :meth:`PeerInterface.play`."""
    round_trip_ms: float | None
    """As the caller's receiver reports allow to compute it."""
    sent_lost_fraction: float | None
    """Of what was sent, lost on the way of late, as the caller reports."""


class PeerListener(Protocol):
    """Told what happens in a call. Everything is called on the event loop and must return at once."""

    def opened(self) -> None:
        """Sound and messages can flow: the media path is connected and the event channel is open. Once at most."""

    def message(self, text: str) -> None:
        """A message of the caller's on the event channel, in order."""

    def audio(self, sound: ReceivedSound) -> None:
        """20 ms of the caller's sound, usually; from the first packet on, for as long as the call lasts.

        Sound is handed on as soon as it arrives, so that after a stall much of it may come at once.
        """

    def played(self, total_samples: int) -> None:
        """How many samples of :meth:`PeerInterface.play` have been sent since the call began, at ``PLAY_RATE``.

        Told with the first frame of a stretch of sound, about every 100 ms of it, and when no more is queued.
        """

    def closed(self, reason: CloseReason) -> None:
        """The call is over; nothing follows. Once at most, and after :meth:`PeerInterface.close` too."""


class PeerInterface(Protocol):
    """One call, from the caller's offer to its end."""

    async def answer(self, offer_sdp: str) -> str:
        """Take an offer (SDP, RFC 8866) and return the answer, which holds all candidates. Once.

        Returns before the connection is made; :meth:`PeerListener.opened` or :meth:`PeerListener.closed` follows.
        When it raises, the call is closed and nothing of it is left.

        :raises OmniError: ``invalid_sdp``; ``no_audio``, the offer has no sound to send or to receive;
            ``unsupported_codec``, none of its codecs is allowed here; ``no_candidates``, no address or port is free.
        """

    def send_message(self, text: str) -> None:
        """Send a message on the event channel, in order; it waits until the channel is open. Nothing after the end,
        nor for a caller who offered no channel.

        :raises OmniError: ``message_too_large``, the caller takes none of this size; ``overloaded``, too much waits.
        """

    def play(self, samples: Samples) -> None:
        """Queue sound: float32 ``[n]`` mono at ``PLAY_RATE``. It goes out in frames of 20 ms, in real time.

        :raises OmniError: ``overloaded``, more than ``max_queued_s`` would wait.
        """

    @property
    def queued_samples(self) -> int:
        """Sound that waits to be sent, in samples at ``PLAY_RATE``."""

    def flush(self) -> int:
        """Drop the queued sound; what is being played ends within the next frame, faded out.

        :returns: the total of samples that have been sent once the fade is over: what :meth:`PeerListener.played`
            will say next, unless more is queued.
        """

    def stats(self) -> PeerStats: ...

    async def close(self) -> None:
        """Hang up, at any time. When it returns, the sockets are closed and nothing is called any more."""
