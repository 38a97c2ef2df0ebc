"""The table of ``config explain``."""

from __future__ import annotations

from voice_omni.cli.config import explained
from voice_omni.cli.table import short, table
from voice_omni.config import Origin, Value


def test_each_value_has_its_origin_and_meaning() -> None:
    values = [
        Value(("server", "port"), 8000, "TCP port", Origin("default")),
        Value(("server", "host"), "::1", "address", Origin("file", "a.yaml", 3)),
    ]
    assert explained(values).splitlines() == [
        "KEY          VALUE  FROM      MEANING",
        "server.port  8000   default   TCP port",
        "server.host  ::1    a.yaml:3  address",
    ]


def test_columns_can_be_aligned_to_the_right() -> None:
    assert table([("a", "1"), ("b", "10")], right=frozenset({1})) == "a   1\nb  10"


def test_a_long_text_is_cut_to_one_line() -> None:
    assert short("one\n two  three", 100) == "one two three"
    assert short("abcdef", 4) == "abc…"
