"""The layers of ``docs/architecture.md`` are those of the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "voice_omni"
COMPOSES = {PACKAGE / "pipeline" / "launcher.py"}
"""Puts a pipeline and its client together, so it knows both."""
SEAMS = {"voice_omni.pipeline.spec"}
"""The form that a model fills in to declare itself: data, without any code of the layer."""


def layers() -> list[set[str]]:
    """The packages of each row of the table, from the network down to the models."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| \w+ \| (`[^|]+) \|", page, re.MULTILINE)
    return [set(re.findall(r"`(\w+)`", row)) for row in rows]


def imports(path: Path) -> Iterator[str]:
    """The project's modules that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("voice_omni."))
        elif isinstance(node, ast.ImportFrom) and node.module == "voice_omni":
            yield from (f"voice_omni.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("voice_omni."):
            yield node.module


def sources(package: str) -> list[Path]:
    return sorted((PACKAGE / package).rglob("*.py"))


def test_every_package_of_the_table_exists() -> None:
    assert len(layers()) >= 6
    for package in set().union(*layers()):
        assert (PACKAGE / package / "__init__.py").is_file(), package


@pytest.mark.parametrize("package", sorted(set().union(*layers())))
def test_imports_point_downward(package: str) -> None:
    order = layers()
    row = next(number for number, members in enumerate(order) if package in members)
    above = set().union(*order[:row])
    upward = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sources(package)
        if path not in COMPOSES
        for module in imports(path)
        if module.split(".")[1] in above and module not in SEAMS
    ]
    assert upward == []


def test_only_models_know_a_model() -> None:
    """The commands look pipelines up by name in the registry, which knows none of them either."""
    knowing = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if not path.is_relative_to(PACKAGE / "models")
        for module in imports(path)
        if module.startswith("voice_omni.models.") and module != "voice_omni.models.registry"
    ]
    assert knowing == []


def test_a_stage_does_not_know_its_schedulers_type() -> None:
    known = {module for module in imports(PACKAGE / "pipeline" / "stage.py") if "scheduling" in module}
    assert known == {"voice_omni.scheduling.interface"}
