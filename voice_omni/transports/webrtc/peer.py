"""One WebRTC call: what :mod:`peer_interface` describes, put together from its parts."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, Final, ParamSpec

from aiortc import RTCDataChannel

from voice_omni.audio.pcm import Samples
from voice_omni.proto.errors import OmniError
from voice_omni.transports.webrtc.aiortc_compat import MediaConnection, Negotiated
from voice_omni.transports.webrtc.codecs import FRAME_S, make_decoder, make_encoder
from voice_omni.transports.webrtc.data_channel import EventChannel
from voice_omni.transports.webrtc.peer_interface import PLAY_RATE, CloseReason, PeerListener, PeerSettings, PeerStats
from voice_omni.transports.webrtc.receiver import AudioReceiver
from voice_omni.transports.webrtc.reports import ntp_time, round_trip
from voice_omni.transports.webrtc.rtp import (
    ReceptionReport,
    SenderInfo,
    decode_rtcp,
    decode_rtp,
    encode_report,
    is_rtcp,
)
from voice_omni.transports.webrtc.sender import AudioSender, RtpStart

_REPORT_S: Final = 2.5
"""Between reports, on average: WebRTC endpoints send theirs every one to five seconds."""
_FIRST_REPORT_S: Final = 0.5
_P = ParamSpec("_P")
_log = logging.getLogger(__name__)
_closing: Final[set[asyncio.Task[None]]] = set()
"""Connections that are being closed: the event loop itself holds its tasks by weak references only."""


def _guarded(method: Callable[Concatenate[Peer, _P], None]) -> Callable[Concatenate[Peer, _P], None]:
    """For what the event loop calls: an exception that nobody expected ends this call, and no other."""

    @wraps(method)
    def guarded(self: Peer, /, *args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception:  # noqa: BLE001 - whatever it is, it must not reach the other calls of the process
            _log.exception("a call failed")
            self._end("failed")

    return guarded


class Peer:
    """See :class:`~voice_omni.transports.webrtc.peer_interface.PeerInterface`. Made inside the event loop."""

    def __init__(self, settings: PeerSettings, listener: PeerListener) -> None:
        self._settings = settings
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._random = random.Random()
        self._connection = MediaConnection(settings, self)
        self._channel = EventChannel(settings.max_queued_bytes, listener.message, self._maybe_open)
        self._sender = AudioSender(settings.max_queued_s, listener.played)
        self._receiver: AudioReceiver | None = None
        self._negotiated: Negotiated | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._connected = False
        self._opened = False
        self._answered = False
        self._ended = False
        self._closed: asyncio.Task[None] | None = None
        self._open_by = 0.0
        self._heard_at = 0.0
        self._report_at = 0.0
        self._round_trip: float | None = None
        self._lost_fraction: float | None = None

    # What the caller of this class does

    async def answer(self, offer_sdp: str) -> str:
        try:
            answer, negotiated = await self._connection.answer(offer_sdp)
            if self._ended:
                raise OmniError("aborted", "the call was ended before it was answered")
        except BaseException:
            self._ended = True
            await self._release()
            raise
        self._negotiated = negotiated
        if not negotiated.events:
            self._channel.close()  # what nobody will ever read must not wait
        self._channel.max_message_bytes = negotiated.max_message_bytes
        decoder = make_decoder(negotiated.codec)
        self._receiver = AudioReceiver(decoder, negotiated.payload_type, self._settings, self._listener.audio)
        self._answered = True
        self._open_by = self._loop.time() + self._settings.connect_timeout_s
        if self._connected:
            self._start()
        else:
            self._timer = self._loop.call_at(self._open_by, self._end, "connect_timeout")
        return answer

    def send_message(self, text: str) -> None:
        self._channel.send(text)

    def play(self, samples: Samples) -> None:
        if not self._ended:
            self._sender.play(samples)

    @property
    def queued_samples(self) -> int:
        return self._sender.queued

    def flush(self) -> int:
        return self._sender.flush()

    def stats(self) -> PeerStats:
        receiver = self._receiver
        rate = 1 if receiver is None else receiver.clock_rate
        counts = receiver and receiver.counts
        return PeerStats(
            codec=self._negotiated.codec if self._negotiated is not None else None,
            packets_received=counts.packets if counts else 0,
            packets_late=counts.late if counts else 0,
            received_s=counts.length / rate if counts else 0.0,
            lost_s=(counts.lost + receiver.broken) / rate if counts and receiver else 0.0,
            paused_s=counts.paused / rate if counts else 0.0,
            wait_ms=receiver.wait * 1000 if receiver else float(self._settings.min_wait_ms),
            mean_buffering_ms=1000 * counts.buffered_s / max(1, counts.delivered) if counts else 0.0,
            packets_sent=self._sender.packets,
            slots_skipped=self._sender.slots_skipped,
            played_s=self._sender.taken / PLAY_RATE,
            round_trip_ms=None if self._round_trip is None else self._round_trip * 1000,
            sent_lost_fraction=self._lost_fraction,
        )

    async def close(self) -> None:
        self._end("local")
        await self._release()

    # What the connection tells

    @_guarded
    def connected(self) -> None:
        self._connected = True
        if self._answered:
            self._start()

    @_guarded
    def channel(self, channel: RTCDataChannel) -> None:
        self._channel.attach(channel)

    @_guarded
    def packet(self, data: bytes) -> None:
        if self._ended or self._receiver is None:
            return
        if is_rtcp(data):
            self._reported(data)
        elif (rtp := decode_rtp(data)) is not None:
            self._receiver.packet(rtp, self._loop.time())

    def alive(self) -> None:
        self._heard_at = self._loop.time()

    def lost(self, remote: bool) -> None:
        self._end("remote" if remote else "failed")

    # The life of a call

    def _start(self) -> None:
        """The connection is there, and answered: media flows from now on."""
        negotiated = self._negotiated
        if negotiated is None or self._ended:
            return
        if self._timer is not None:
            self._timer.cancel()
        settings = self._settings
        loss = settings.expected_loss_percent if negotiated.redundancy else 0
        encoder = make_encoder(negotiated.codec, settings.bitrate, settings.complexity, loss)
        # Sequence numbers begin in the lower half: a receiver that missed the first packets must not guess a wrap.
        start = RtpStart(negotiated.ssrc, self._random.getrandbits(15), self._random.getrandbits(32))
        now = self._loop.time()
        send = self._connection.send if negotiated.sends else _send_nothing
        self._sender.start(encoder, negotiated.payload_type, start, send, now)
        self._heard_at = now
        self._report_at = now + _FIRST_REPORT_S
        self._timer = self._loop.call_at(now, self._tick)
        self._maybe_open()

    def _maybe_open(self) -> None:
        if self._opened or self._ended or not self._connected or self._negotiated is None:
            return
        if self._channel.is_open or not self._negotiated.events:
            self._opened = True
            self._listener.opened()

    @_guarded
    def _tick(self) -> None:
        """One slot of 20 ms."""
        assert self._receiver is not None
        now = self._loop.time()
        skipped = self._sender.serve(now)
        self._receiver.tick(now, held_up=skipped > 0)
        self._heard_at += skipped * FRAME_S  # what came while nobody listened is still to be read
        if now >= self._report_at:
            self._report(now)
        if now > self._heard_at + self._settings.disconnect_timeout_s:
            self._end("disconnected")
        elif not self._opened and now > self._open_by:
            self._end("connect_timeout")
        if not self._ended:
            self._timer = self._loop.call_at(self._sender.due, self._tick)

    def _report(self, now: float, *, bye: bool = False) -> None:
        assert self._negotiated is not None
        assert self._receiver is not None
        self._report_at = now + _REPORT_S * self._random.uniform(0.5, 1.5)
        sent = self._sender.report(now, time.time()) if self._negotiated.sends else None
        report = encode_report(self._negotiated.ssrc, self._negotiated.cname, sent, self._receiver.report(now), bye=bye)
        self._connection.send(report)

    def _reported(self, data: bytes) -> None:
        assert self._negotiated is not None
        assert self._receiver is not None
        for said in decode_rtcp(data):
            if isinstance(said, SenderInfo):
                self._receiver.sender_reported(said, self._loop.time())
            elif isinstance(said, ReceptionReport) and said.ssrc == self._negotiated.ssrc:
                self._lost_fraction = said.fraction_lost / 256
                self._round_trip = round_trip(said, ntp_time(time.time())) or self._round_trip

    def _end(self, reason: CloseReason) -> None:
        if self._ended:
            return
        if self._connected and self._answered and reason != "remote":
            self._report(self._loop.time(), bye=True)
        self._ended = True
        self._listener.closed(reason)
        task = asyncio.ensure_future(self._release())
        _closing.add(task)
        task.add_done_callback(_closing.discard)

    async def _release(self) -> None:
        """Let go of everything; whoever comes second waits for the first."""
        if self._timer is not None:
            self._timer.cancel()
        self._channel.close()
        if self._closed is None:
            self._closed = asyncio.ensure_future(self._connection.close())
        await asyncio.shield(self._closed)


def _send_nothing(packet: bytes) -> None:
    """To a caller who only speaks."""
