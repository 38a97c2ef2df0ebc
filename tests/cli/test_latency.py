"""The tables after a call."""

from __future__ import annotations

from voice_omni.cli.latency import latency_table, stage_table
from voice_omni.cli.turns import Turn


def test_every_moment_counts_from_the_end_of_speech() -> None:
    turn = Turn(speech_end=1.0, decided=1.4, created=1.41, first_audio=1.6, first_audible=1.65, status="completed")
    assert latency_table([turn]).splitlines() == [
        "milliseconds after the end of speech",
        "turn  decided  answer begins  first audio  first audible sample  status",
        "   1      400            410          600                   650  completed",
    ]


def test_what_did_not_happen_is_a_dash() -> None:
    last = latency_table([Turn(speech_end=1.0, decided=1.4)]).splitlines()[-1]
    assert last.split() == ["1", "400", "-", "-", "-", "no", "answer"]


def test_a_failure_shows_its_reason() -> None:
    assert latency_table([Turn(status="failed", reason="it died")]).endswith("failed (it died)")


def test_the_servers_own_account_follows_its_stages() -> None:
    timings = {
        "turn": {"paused": 205.4, "stopped": 500.0, "committed": 512.0, "first_audio": None},
        "stages": {
            "encoder": {"opened": -1000.0, "input_ended": 500.0, "first_output": 50.0, "finished": 510.0},
            "thinker": {"opened": 210.0, "input_ended": None, "first_output": 300.0, "finished": 900.0},
        },
    }
    first, *rows = stage_table(timings).splitlines()
    assert first == "in the server: pause noticed 205, turn over 500, words known 512, first sound sent -"
    assert [row.split() for row in rows[1:]] == [
        ["encoder", "-1000", "500", "50", "510"],
        ["thinker", "210", "-", "300", "900"],
    ]
