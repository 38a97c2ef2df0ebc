"""What a receiver tells a sender, and what the sender learns from it."""

from __future__ import annotations

import pytest

from voice_omni.transports.webrtc.reports import ReceptionStatistics, ntp_time, round_trip
from voice_omni.transports.webrtc.rtp import SenderInfo


def received(sequences: list[int], rate: int = 48_000, jitter: float = 0.0) -> ReceptionStatistics:
    statistics = ReceptionStatistics(7, rate)
    for count, sequence in enumerate(sequences):
        arrival = 0.02 * count + (jitter if count % 2 else 0.0)
        statistics.received(sequence % 2**16, 960 * count, arrival)
    return statistics


def test_before_the_first_packet_there_is_nothing_to_report() -> None:
    assert ReceptionStatistics(7, 48_000).report(0.0) is None


def test_losses_are_counted_across_the_wrap_of_sequence_numbers() -> None:
    sequences = [number for number in range(65_500, 65_600) if number % 10]
    report = received(sequences).report(2.0)
    assert report is not None
    assert report.highest_sequence == 65_599
    assert report.lost == 9
    assert report.fraction_lost == 9 * 256 // 99


def test_fractions_count_from_the_report_before() -> None:
    statistics = received([0, 1, 3])
    statistics.report(0.1)
    for sequence in (4, 5, 6):
        statistics.received(sequence, 960 * sequence, 0.02 * sequence)
    report = statistics.report(0.2)
    assert report is not None
    assert (report.lost, report.fraction_lost) == (1, 0)


def test_packets_out_of_order_are_not_lost() -> None:
    report = received([0, 2, 1, 4, 3, 5]).report(0.2)
    assert report is not None
    assert (report.lost, report.highest_sequence) == (0, 5)


def test_jitter_is_the_smoothed_difference_of_transit_times() -> None:
    report = received(list(range(300)), jitter=0.005).report(6.0)
    assert report is not None
    assert report.jitter == pytest.approx(0.005 * 48_000, abs=2)


def test_a_report_tells_how_long_ago_the_senders_was() -> None:
    statistics = received([0, 1, 2])
    statistics.sender_reported(SenderInfo(7, 0x0001_2345_6789_ABCD, 0, 0, 0), 1.0)
    report = statistics.report(1.5)
    assert report is not None
    assert report.last_sender_report == 0x2345_6789
    assert report.delay == 65_536 // 2


def test_the_round_trip_is_what_the_delay_leaves_over() -> None:
    statistics = received([0, 1, 2])
    sent_at = 1_800_000_000.0
    statistics.sender_reported(SenderInfo(7, ntp_time(sent_at), 0, 0, 0), 1.0)
    report = statistics.report(1.5)
    assert report is not None
    assert round_trip(report, ntp_time(sent_at + 0.58)) == pytest.approx(0.08, abs=0.001)


def test_there_is_no_round_trip_without_a_report_of_ours() -> None:
    report = received([0, 1, 2]).report(1.0)
    assert report is not None
    assert round_trip(report, ntp_time(1.0)) is None
