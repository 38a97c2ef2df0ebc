"""The one module that touches private parts of aiortc and aioice, and what it gets from them.

aiortc does the handshakes: SDP, ICE, DTLS, SCTP. The media path is ours: encrypted packets are taken from the socket as
they come and put on it when they are due, without aiortc's queues, tasks and threads, its jitter buffer and its codecs.
What is relied on beyond the public interface, each with a test in ``test_aiortc_compat``:

- ``RTCDtlsTransport``: ``_rx_srtp`` and ``_tx_srtp``, the SRTP sessions, once it is connected;
- ``RTCIceTransport._connection``: the aioice connection;
- ``RTCRtpSender._ssrc``: the SSRC that the answer announces; ``RTCRtpTransceiver._codecs``: what was negotiated;
- ``RTCPeerConnection.__iceTransports``: all ICE transports;
- ``RTCPeerConnection`` starts media through ``sender.send`` and ``receiver.receive``, looked up on the objects;
- ``aioice.Connection`` calls ``data_received`` for what is not STUN, ``check_incoming`` for each authenticated check
  and ``get_component_candidates`` to gather, all looked up on the object; ``_protocols`` holds its sockets and
  ``_nominated`` the pair in use.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

import pylibsrtp
from aioice import Candidate
from aioice import ice as aioice
from aioice.candidate import candidate_foundation, candidate_priority
from aiortc import (
    RTCConfiguration,
    RTCDataChannel,
    RTCIceServer,
    RTCPeerConnection,
    RTCRtpSender,
    RTCRtpTransceiver,
    RTCSessionDescription,
)
from aiortc.rtcconfiguration import RTCIceTransportPolicy
from aiortc.sdp import MediaDescription, SessionDescription

from voice_omni.proto.errors import OmniError
from voice_omni.transports.webrtc.ice import local_addresses, ports_to_try, without_hopeless_candidates
from voice_omni.transports.webrtc.peer_interface import Codec, PeerSettings
from voice_omni.transports.webrtc.rtp import is_rtcp

_RECEIVE_BUFFER_BYTES: Final = 256 * 1024
"""Of each socket: some seconds of sound, for the time that the process is held up."""
_COMPONENT: Final = 1
_DEFAULT_MAX_MESSAGE: Final = 65536
"""Bytes, for a caller who does not say (RFC 8841, section 6)."""


@dataclass(frozen=True, slots=True)
class Negotiated:
    """What offer and answer have agreed upon."""

    codec: Codec
    payload_type: int
    ssrc: int
    """Of what is sent."""
    cname: str
    """The canonical name that the answer gives to it."""
    sends: bool
    """Whether the caller wants to hear something."""
    redundancy: bool
    """Whether the caller makes use of in-band FEC (Opus)."""
    events: bool
    """Whether the caller offers data channels."""
    max_message_bytes: int
    """Of one data channel message to the caller; 0: no bound."""


class ConnectionListener(Protocol):
    """Told what happens on a connection; called on the event loop."""

    def connected(self) -> None:
        """Media can be sent and is received from now on."""

    def packet(self, data: bytes) -> None:
        """An RTP or RTCP packet, authenticated and decrypted."""

    def alive(self) -> None:
        """Something authentic came from the caller: media, or a check of the connection."""

    def channel(self, channel: RTCDataChannel) -> None:
        """The caller has opened a data channel."""

    def lost(self, remote: bool) -> None:
        """The connection is over or did not come about. ``remote``: because the caller took its leave."""


class MediaConnection:
    """One peer connection whose media is carried by the caller of this class."""

    def __init__(self, settings: PeerSettings, listener: ConnectionListener) -> None:
        self._settings = settings
        self._listener = listener
        servers = [
            RTCIceServer(urls=list(server.urls), username=server.username, credential=server.credential)
            for server in settings.ice_servers
        ]
        policy = RTCIceTransportPolicy.RELAY if settings.relay_only else RTCIceTransportPolicy.ALL
        self._connection = RTCPeerConnection(RTCConfiguration(iceServers=servers, iceTransportPolicy=policy))
        self._connection.on("connectionstatechange", self._state_changed)
        self._connection.on("datachannel", listener.channel)
        self._dtls: Any = None
        self._ice: aioice.Connection | None = None
        self._was_connected = False

    async def answer(self, offer_sdp: str) -> tuple[str, Negotiated]:
        """The answer, with all candidates. Raises what :meth:`PeerInterface.answer` does."""
        offer = _parsed(offer_sdp)
        audio = _audio_of(offer)
        codec = _chosen_codec(audio, self._settings)
        transceiver = self._connection.addTransceiver("audio", direction="sendrecv")
        transceiver.setCodecPreferences(
            [each for each in RTCRtpSender.getCapabilities("audio").codecs if each.mimeType == f"audio/{codec}"]
        )
        try:
            await self._connection.setRemoteDescription(
                RTCSessionDescription(without_hopeless_candidates(offer_sdp), "offer")
            )
            self._take_over(transceiver)
            await self._connection.setLocalDescription(await self._connection.createAnswer())
        except OmniError:
            raise
        except Exception as error:
            # The offer was parsed, but it is for aiortc to say which combinations it can answer, in many ways.
            raise OmniError("invalid_sdp", f"the offer cannot be answered: {error}", param="sdp") from error
        if not self._ice_connection().local_candidates:
            raise OmniError("no_candidates", "no address and UDP port for the call is free here", retryable=True)
        application = next((media for media in offer.media if media.kind == "application"), None)
        answer = self._connection.localDescription.sdp
        ssrc = transceiver.sender._ssrc
        negotiated = Negotiated(
            codec=codec,
            payload_type=_payload_type(transceiver),
            ssrc=ssrc,
            cname=answer.partition(f"a=ssrc:{ssrc} cname:")[2].partition("\r\n")[0],
            sends=audio.direction in ("sendrecv", "recvonly"),
            redundancy=str(_opus_parameters(audio).get("useinbandfec")) == "1",
            events=application is not None,
            max_message_bytes=_max_message_bytes(application),
        )
        return answer, negotiated

    def send(self, packet: bytes) -> None:
        """Encrypt and send an RTP or RTCP packet now. Without a connection, nothing happens."""
        pair = None if self._ice is None else self._ice._nominated.get(_COMPONENT)
        if pair is None or self._dtls.state != "connected":
            return
        session = self._dtls._tx_srtp
        data = session.protect_rtcp(packet) if is_rtcp(packet) else session.protect(packet)
        pair.protocol.transport.sendto(data, pair.remote_addr)

    async def close(self) -> None:
        self._connection.remove_all_listeners()
        await self._connection.close()

    # Taking over

    def _take_over(self, chosen: RTCRtpTransceiver) -> None:
        for transceiver in self._connection.getTransceivers():
            transceiver.sender.send = _start_nothing  # type: ignore[method-assign]
            transceiver.receiver.receive = _start_nothing  # type: ignore[method-assign]
            if transceiver is not chosen:
                transceiver.direction = "inactive"
        self._dtls = chosen.receiver.transport
        self._ice = self._dtls.transport._connection
        for transport in cast(Any, self._connection)._RTCPeerConnection__iceTransports:
            connection: Any = transport._connection
            gather = connection.get_component_candidates
            connection.get_component_candidates = _Gathering(connection, self._settings, gather)
            connection.check_incoming = self._noticing(connection.check_incoming)
            connection.data_received = self._sorting(connection.data_received)

    def _noticing(self, check_incoming: Callable[..., None]) -> Callable[..., None]:
        def noticed(*args: Any) -> None:
            self._listener.alive()
            check_incoming(*args)

        return noticed

    def _sorting(self, data_received: Callable[[bytes, int], None]) -> Callable[[bytes, int], None]:
        """Media comes to us, all else goes on to aiortc (RFC 7983)."""

        def sorted_out(data: bytes, component: int) -> None:
            if data and 128 <= data[0] <= 191:
                self._received(data)
            else:
                data_received(data, component)

        return sorted_out

    def _received(self, data: bytes) -> None:
        session = self._dtls._rx_srtp
        if session is None or self._dtls.state != "connected":
            return
        try:
            packet = session.unprotect_rtcp(data) if is_rtcp(data) else session.unprotect(data)
        except pylibsrtp.Error:
            return  # not from the caller, or a copy of what was there already
        self._listener.alive()
        self._listener.packet(packet)

    def _ice_connection(self) -> aioice.Connection:
        assert self._ice is not None
        return self._ice

    # States

    def _state_changed(self) -> None:
        state = self._connection.connectionState
        if state == "connected" and not self._was_connected:
            if self._dtls.state == "connected":
                self._was_connected = True
                self._listener.connected()
            else:
                self._listener.lost(remote=True)
        elif state in ("failed", "closed") or (state == "connected" and self._dtls.state == "closed"):
            self._listener.lost(remote=self._dtls.state == "closed")


class _Gathering:
    """Gathers the candidates of one connection: own addresses with ports that are allowed, then what servers say."""

    def __init__(
        self, connection: aioice.Connection, settings: PeerSettings, gather: Callable[..., Awaitable[list[Candidate]]]
    ) -> None:
        """``gather``: aioice's own, which is still used for TURN."""
        self._connection = connection
        self._settings = settings
        self._gather = gather

    async def __call__(self, component: int, addresses: list[str], timeout: float = 0.0) -> list[Candidate]:
        own = [] if self._settings.relay_only else local_addresses(addresses, self._settings)
        bound = [await self._bind(component, address) for address in own]
        protocols = [protocol for protocol in bound if protocol is not None]
        self._connection._protocols += protocols
        hosts = [protocol.local_candidate for protocol in protocols]
        reflexive, relayed = await asyncio.gather(
            self._reflexive(protocols), self._gather(component, [], timeout=self._settings.gather_timeout_s)
        )
        return [*hosts, *self._public(hosts), *reflexive, *relayed]

    async def _bind(self, component: int, address: str) -> aioice.StunProtocol | None:
        loop = asyncio.get_running_loop()
        for port in ports_to_try(self._settings.udp_ports, random.Random()):
            try:
                transport, protocol = await loop.create_datagram_endpoint(
                    lambda: aioice.StunProtocol(self._connection), local_addr=(address, port)
                )
            except OSError:
                continue  # taken, or an address that cannot be bound to
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
            host, port = transport.get_extra_info("sockname")[:2]
            protocol.local_candidate = Candidate(
                foundation=candidate_foundation("host", "udp", host),
                component=component,
                transport="udp",
                priority=candidate_priority(component, "host"),
                host=host,
                port=port,
                type="host",
            )
            return protocol
        return None

    def _public(self, candidates: list[Candidate]) -> Iterator[Candidate]:
        """The same ports at the address under which the outside sees this host."""
        public = self._settings.public_address
        for candidate in candidates:
            if public is not None and (":" in public) == (":" in candidate.host):
                yield Candidate(
                    foundation=candidate_foundation("srflx", "udp", public),
                    component=candidate.component,
                    transport="udp",
                    priority=candidate_priority(candidate.component, "srflx"),
                    host=public,
                    port=candidate.port,
                    type="srflx",
                    related_address=candidate.host,
                    related_port=candidate.port,
                )

    async def _reflexive(self, protocols: list[aioice.StunProtocol]) -> list[Candidate]:
        server = self._connection.stun_server
        if server is None:
            return []
        asking = [
            asyncio.ensure_future(aioice.server_reflexive_candidate(protocol, server))
            for protocol in protocols
            if ":" not in protocol.local_candidate.host
        ]
        if not asking:
            return []
        done, late = await asyncio.wait(asking, timeout=self._settings.gather_timeout_s)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        return [task.result()[0] for task in asking if task in done and task.exception() is None]


async def _start_nothing(parameters: object) -> None:
    """In place of aiortc's own media path."""


def _parsed(offer_sdp: str) -> SessionDescription:
    if not offer_sdp.startswith("v="):
        raise OmniError("invalid_sdp", "this is not a session description: it does not begin with v=", param="sdp")
    try:
        return SessionDescription.parse(offer_sdp)
    except Exception as error:
        # aiortc's parser takes what is there for granted, and raises whatever that leads to.
        raise OmniError("invalid_sdp", f"this is not a session description: {error!r}", param="sdp") from error


def _audio_of(offer: SessionDescription) -> MediaDescription:
    audio = next((media for media in offer.media if media.kind == "audio"), None)
    if audio is None or audio.port == 0 or audio.direction == "inactive":
        raise OmniError("no_audio", "the offer has no audio that is sent or received", param="sdp")
    if audio.dtls is None or not audio.dtls.fingerprints:
        raise OmniError("invalid_sdp", "the offer has no DTLS fingerprint for its audio", param="sdp")
    return audio


def _chosen_codec(audio: MediaDescription, settings: PeerSettings) -> Codec:
    """The first that the caller names and that is allowed."""
    for offered in audio.rtp.codecs:
        for codec in settings.codecs:
            if offered.mimeType.lower() == f"audio/{codec}".lower():
                return codec
    named = ", ".join(codec.name for codec in audio.rtp.codecs)
    wanted = ", ".join(settings.codecs)
    raise OmniError(
        "unsupported_codec", f"the offer's audio codecs are {named}; one of {wanted} is needed", param="sdp"
    )


def _payload_type(transceiver: RTCRtpTransceiver) -> int:
    (codec,) = transceiver._codecs
    assert codec.payloadType is not None
    return codec.payloadType


def _opus_parameters(audio: MediaDescription) -> dict[str, Any]:
    return next((codec.parameters for codec in audio.rtp.codecs if codec.mimeType.lower() == "audio/opus"), {})


def _max_message_bytes(application: MediaDescription | None) -> int:
    if application is None or application.sctpCapabilities is None:
        return _DEFAULT_MAX_MESSAGE
    return int(application.sctpCapabilities.maxMessageSize)
