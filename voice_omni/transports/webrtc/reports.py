"""The figures behind RTCP reports (RFC 3550, section 6.4 and appendix A): what was received, and how far away it is."""

from __future__ import annotations

from voice_omni.transports.webrtc.rtp import ReceptionReport, SenderInfo

_NTP_EPOCH = 2_208_988_800
"""Seconds from 1900 to 1970."""


def ntp_time(unix_time: float) -> int:
    """64-bit NTP timestamp: seconds since 1900 in 1/2**32 s."""
    return int((unix_time + _NTP_EPOCH) * (1 << 32)) & 0xFFFFFFFFFFFFFFFF


class ReceptionStatistics:
    """What has been received of one stream. ``now``: monotonic seconds."""

    def __init__(self, ssrc: int, clock_rate: int) -> None:
        self.ssrc = ssrc
        self._clock_rate = clock_rate
        self._base = -1
        self._highest = -1
        self._received = 0
        self._jitter = 0.0
        self._transit: float | None = None
        self._expected_before = 0
        self._received_before = 0
        self._sender_report: tuple[int, float] | None = None

    def received(self, sequence: int, timestamp: int, now: float) -> None:
        if self._base < 0:
            self._base = self._highest = sequence
        else:
            self._highest = max(self._highest, self._highest + (sequence - self._highest + 0x8000) % 0x10000 - 0x8000)
        self._received += 1
        transit = now * self._clock_rate - timestamp
        if self._transit is not None:
            difference = abs(transit - self._transit)
            if difference < self._clock_rate:  # more is a timestamp that wrapped around or was set anew
                self._jitter += (difference - self._jitter) / 16
        self._transit = transit

    def sender_reported(self, info: SenderInfo, now: float) -> None:
        self._sender_report = (info.ntp >> 16 & 0xFFFFFFFF, now)

    def report(self, now: float) -> ReceptionReport | None:
        """What to tell the sender; None before anything was received. Fractions count from the last call."""
        if self._base < 0:
            return None
        expected = self._highest - self._base + 1
        expected_since, received_since = expected - self._expected_before, self._received - self._received_before
        self._expected_before, self._received_before = expected, self._received
        lost_since = max(0, expected_since - received_since)
        fraction = min(255, lost_since * 256 // expected_since) if expected_since else 0
        last, delay = 0, 0
        if self._sender_report is not None:
            last, delay = self._sender_report[0], int((now - self._sender_report[1]) * 65536)
        lost = expected - self._received
        return ReceptionReport(self.ssrc, fraction, lost, self._highest, int(self._jitter), last, delay)


def round_trip(report: ReceptionReport, ntp_now: int) -> float | None:
    """Seconds to the reporter and back, from a report about what was sent; None if it knows no report of ours."""
    if not report.last_sender_report:
        return None
    units = (ntp_now >> 16) - report.last_sender_report - report.delay & 0xFFFFFFFF
    return units / 65536 if units < 1 << 31 else None
