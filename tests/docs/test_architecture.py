"""The layers of ``docs/architecture.md`` are those that ``tests/test_layers.py`` holds the code to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_layers import BELOW

PAGE = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()
ROWS = [set(re.findall(r"`(\w+)`", packages)) for packages in re.findall(r"^\| \w+ \| (`[^|]+) \|", PAGE, re.MULTILINE)]
"""The packages of each row of the table, from the network down to the models."""

SEAMS = {("models", "pipeline")}
"""A model declares its pipeline in a form that the pipeline gives it: data, and nothing else of that layer."""


def test_every_package_is_on_the_page_once() -> None:
    [beside] = re.findall(r"^Beside them: (.*?)\.$", PAGE, re.MULTILINE | re.DOTALL)
    named = [*(package for row in ROWS for package in row), *re.findall(r"`(\w+)`", beside)]
    assert sorted(named) == sorted(BELOW)


@pytest.mark.parametrize("package", sorted(set().union(*ROWS)))
def test_what_a_package_may_import_lies_below_it_in_the_table(package: str) -> None:
    row = next(number for number, packages in enumerate(ROWS) if package in packages)
    above = set().union(*ROWS[:row])
    assert {(package, other) for other in BELOW[package] & above} <= SEAMS
