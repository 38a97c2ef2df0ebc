"""How values are written down."""

from __future__ import annotations

from typing import Any

import pytest

from voice_omni.config.yaml_text import written


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (5.0, "5.0"),
        (16777216, "16777216"),
        ("", "''"),
        ("Be brief.", "Be brief."),
        (("a", "b"), "[a, b]"),
        ({"a": 1}, "{a: 1}"),
    ],
)
def test_a_value_is_written_as_in_yaml(value: Any, text: str) -> None:
    assert written(value) == text
