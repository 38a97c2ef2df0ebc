"""SGLang's real scheduler does what this project relies on. The tests are in ``contract``; their report is shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.engines.sglang.environment import NEWEST, PINNED, UnreachableError, prepare, variables
from tests.engines.sglang.references import write_references
from tests.support.reported import passes

CONTRACT = Path("tests/engines/sglang/contract")


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """So small matrices are slower on two."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return write_references(tmp_path_factory.mktemp("references"))


@pytest.mark.parametrize("release", [PINNED, NEWEST], ids=lambda pins: pins.stem)
def test_sglang_keeps_its_side(release: Path, references: dict[str, str]) -> None:
    try:
        python = prepare(release)
    except UnreachableError as error:
        pytest.skip(f"the package index, which has SGLang, cannot be reached: {error}")
    command = [
        python,
        "-m",
        "pytest",
        "-c",
        CONTRACT / "pytest.ini",
        "--rootdir",
        ".",
        "--confcutdir",
        CONTRACT,
        CONTRACT,
    ]
    passes(command, {**variables(), **references}, "the report above says what SGLang does differently")
