"""Whatever Triton compiles for a GPU is tested without one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.test_layers import IMPORTS, MODULES

TESTS = sorted(Path(__file__).parent.rglob("kernels_*.py"))


def imported_by(source: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                yield inside if inside in MODULES else str(node.module)


def test_every_module_with_kernels_has_tests_of_them() -> None:
    written = {found.module for found in IMPORTS if found.imported.split(".")[0] == "triton"}
    assert written
    assert written <= {name for source in TESTS for name in imported_by(source)}


def test_every_file_of_such_tests_has_one_beside_it_that_runs_it() -> None:
    for folder in {source.parent for source in TESTS}:
        runners = [source for source in folder.glob("test_*kernels.py") if "interpret(FILES)" in source.read_text()]
        assert len(runners) == 1, folder
