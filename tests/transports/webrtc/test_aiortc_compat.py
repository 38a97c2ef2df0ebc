"""What is relied on beyond the public interface of aiortc and aioice: if a new version breaks it, this says what."""

from __future__ import annotations

import ast
import inspect
from importlib.metadata import version
from pathlib import Path
from typing import Any

import aioice.ice
import pylibsrtp
import pytest
from aiortc import RTCConfiguration, RTCPeerConnection, RTCRtpReceiver, RTCRtpSender, RTCSessionDescription

import voice_omni
from tests.support.webrtc_peer import Caller
from tests.transports.webrtc.listening import Listening
from voice_omni.transports.webrtc.peer import Peer
from voice_omni.transports.webrtc.peer_interface import PeerSettings

TESTED = ("1.16",)


def test_this_version_of_aiortc_has_been_tested() -> None:
    assert version("aiortc").rpartition(".")[0] in TESTED


def test_only_one_module_touches_private_parts() -> None:
    """No attribute of another object that begins with an underscore, anywhere else in the package."""
    folder = Path(voice_omni.__file__).parent / "transports" / "webrtc"
    touched = {
        f"{source.name}:{node.lineno} {ast.unparse(node)}"
        for source in folder.glob("*.py")
        if source.name != "aiortc_compat.py" and "aiortc" in source.read_text()
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    }
    assert not touched


async def test_what_is_gathered_is_asked_of_a_method_that_can_be_replaced() -> None:
    connection: Any = aioice.Connection(ice_controlling=False)
    asked = []

    async def gather(component: int, addresses: list[str]) -> list[aioice.Candidate]:
        asked.append((component, addresses))
        return []

    connection.get_component_candidates = gather
    await connection.gather_candidates()
    assert [component for component, _ in asked] == [1]
    assert connection._protocols == []
    await connection.close()


async def test_the_parameters_of_what_is_replaced_are_those_that_we_take() -> None:
    parameters = {
        name: list(inspect.signature(getattr(aioice.ice.Connection, name)).parameters)[1:]
        for name in ("get_component_candidates", "check_incoming", "data_received")
    }
    assert parameters == {
        "get_component_candidates": ["component", "addresses", "timeout"],
        "check_incoming": ["message", "addr", "protocol"],
        "data_received": ["data", "component"],
    }
    assert list(inspect.signature(aioice.ice.server_reflexive_candidate).parameters) == ["protocol", "stun_server"]
    for method in (RTCRtpSender.send, RTCRtpReceiver.receive):
        assert list(inspect.signature(method).parameters) == ["self", "parameters"]


async def test_a_connected_call_has_the_parts_that_are_used() -> None:
    caller, listening = Caller(), Listening()
    peer: Any = Peer(PeerSettings(), listening)
    try:
        await caller.call(peer.answer)
        await listening.until(lambda: listening.openings)
        media = peer._connection
        assert isinstance(media._dtls._rx_srtp, pylibsrtp.Session)
        assert isinstance(media._dtls._tx_srtp, pylibsrtp.Session)
        assert media._dtls.transport._connection is media._ice
        pair = media._ice._nominated[1]
        assert pair.remote_addr[1] > 0
        assert callable(pair.protocol.transport.sendto)
        (transceiver,) = media._connection.getTransceivers()
        named = f"a=ssrc:{transceiver.sender._ssrc} cname:{peer._negotiated.cname}\r\n"
        assert named in media._connection.localDescription.sdp
        assert transceiver._codecs[0].payloadType == peer._negotiated.payload_type
        assert len(media._connection._RTCPeerConnection__iceTransports) == 1
    finally:
        await peer.close()
        await caller.close()


async def test_aiortc_starts_no_media_of_its_own() -> None:
    """Neither its jitter buffer's thread nor its tasks for RTP and RTCP."""
    caller, listening = Caller(), Listening()
    peer: Any = Peer(PeerSettings(), listening)
    try:
        await caller.call(peer.answer)
        await listening.until(lambda: listening.sounds)
        (transceiver,) = peer._connection._connection.getTransceivers()
        assert transceiver.sender._RTCRtpSender__rtp_task is None
        assert transceiver.receiver._RTCRtpReceiver__decoder_thread is None
        assert peer._connection._ice._queue.qsize() == 0
    finally:
        await peer.close()
        await caller.close()


@pytest.mark.parametrize("bundled", [True, False])
async def test_an_answer_is_made_with_and_without_bundling(bundled: bool) -> None:
    client = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    client.addTransceiver("audio")
    client.createDataChannel("oai-events")
    await client.setLocalDescription(await client.createOffer())
    offer = client.localDescription.sdp
    if not bundled:
        offer = "".join(line for line in offer.splitlines(keepends=True) if not line.startswith("a=group:BUNDLE"))
    peer = Peer(PeerSettings(), Listening())
    answer = await peer.answer(offer)
    await client.setRemoteDescription(RTCSessionDescription(answer, "answer"))
    await peer.close()
    await client.close()
