"""RTP and RTCP as bytes, against another implementation of them."""

from __future__ import annotations

import aiortc.rtp
from hypothesis import given
from hypothesis import strategies as st

from voice_omni.transports.webrtc.rtp import (
    Bye,
    ReceptionReport,
    RtpPacket,
    SenderInfo,
    decode_rtcp,
    decode_rtp,
    encode_report,
    is_rtcp,
)

U16 = st.integers(0, 2**16 - 1)
U32 = st.integers(0, 2**32 - 1)
PACKETS = st.builds(RtpPacket, st.integers(0, 63), U16, U32, U32, st.binary(max_size=50), st.booleans())
REPORTS = st.builds(ReceptionReport, U32, st.integers(0, 255), st.integers(-(2**23), 2**23 - 1), U32, U32, U32, U32)


@given(packet=PACKETS)
def test_others_understand_our_packets(packet: RtpPacket) -> None:
    theirs = aiortc.rtp.RtpPacket.parse(packet.encode())
    assert theirs.payload == packet.payload
    assert (theirs.payload_type, theirs.marker) == (packet.payload_type, int(packet.marker))
    assert (theirs.sequence_number, theirs.timestamp, theirs.ssrc) == (packet.sequence, packet.timestamp, packet.ssrc)
    assert not is_rtcp(packet.encode())


@given(
    packet=PACKETS,
    contributing=st.lists(U32, max_size=15),
    padding=st.integers(0, 255),
    level=st.none() | st.integers(0, 127),
)
def test_we_understand_the_packets_of_others(
    packet: RtpPacket, contributing: list[int], padding: int, level: int | None
) -> None:
    theirs = aiortc.rtp.RtpPacket(
        packet.payload_type, int(packet.marker), packet.sequence, packet.timestamp, packet.ssrc, packet.payload
    )
    theirs.csrc = contributing
    theirs.padding_size = padding
    extensions = aiortc.rtp.HeaderExtensionsMap()
    if level is not None:
        theirs.extensions.audio_level = (False, level)
        theirs.extensions.mid = "0"
        extensions.configure(
            aiortc.RTCRtpParameters(
                headerExtensions=[
                    aiortc.RTCRtpHeaderExtensionParameters(id=1, uri="urn:ietf:params:rtp-hdrext:sdes:mid"),
                    aiortc.RTCRtpHeaderExtensionParameters(id=2, uri="urn:ietf:params:rtp-hdrext:ssrc-audio-level"),
                ]
            )
        )
    assert decode_rtp(theirs.serialize(extensions)) == packet


@given(data=st.binary(max_size=60))
def test_anything_else_is_passed_over(data: bytes) -> None:
    packet = decode_rtp(data)
    assert packet is None or len(packet.payload) <= len(data) - 12
    list(decode_rtcp(data))


@given(packet=PACKETS, first=st.integers(0, 255), cut=st.integers(0, 70))
def test_broken_headers_are_passed_over(packet: RtpPacket, first: int, cut: int) -> None:
    decode_rtp((bytes([first]) + packet.encode()[1:])[:cut])


@given(info=st.builds(SenderInfo, U32, st.integers(0, 2**64 - 1), U32, U32, U32), report=st.none() | REPORTS)
def test_a_senders_report_says_what_it_was_given(info: SenderInfo, report: ReceptionReport | None) -> None:
    data = encode_report(info.ssrc, "voice", info, report, bye=True)
    assert is_rtcp(data)
    assert list(decode_rtcp(data)) == [info, *([] if report is None else [report]), Bye((info.ssrc,))]
    sender, names, bye = aiortc.rtp.RtcpPacket.parse(data)
    assert isinstance(sender, aiortc.rtp.RtcpSrPacket)
    assert (sender.ssrc, sender.sender_info.ntp_timestamp, sender.sender_info.rtp_timestamp) == (
        info.ssrc,
        info.ntp,
        info.rtp_timestamp,
    )
    assert isinstance(names, aiortc.rtp.RtcpSdesPacket)
    assert names.chunks[0].items == [(1, b"voice")]
    assert isinstance(bye, aiortc.rtp.RtcpByePacket)
    if report is not None:
        theirs = sender.reports[0]
        assert (theirs.ssrc, theirs.fraction_lost, theirs.packets_lost, theirs.highest_sequence) == (
            report.ssrc,
            report.fraction_lost,
            report.lost,
            report.highest_sequence,
        )
        assert (theirs.jitter, theirs.lsr, theirs.dlsr) == (report.jitter, report.last_sender_report, report.delay)


@given(report=REPORTS, reporter=U32)
def test_who_sends_nothing_reports_what_it_receives(report: ReceptionReport, reporter: int) -> None:
    data = encode_report(reporter, "x", None, report)
    assert list(decode_rtcp(data)) == [report]
    assert isinstance(aiortc.rtp.RtcpPacket.parse(data)[0], aiortc.rtp.RtcpRrPacket)
