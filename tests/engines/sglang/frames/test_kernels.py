"""The frames that a GPU's kernels write are those of plain torch. The tests are in ``kernels_*.py``."""

from __future__ import annotations

from pathlib import Path

from tests.support.triton import compile_for_gpu, interpret, needs_gpu

FILES = sorted(Path(__file__).parent.glob("kernels_*.py"))


def test_in_tritons_interpreter() -> None:
    interpret(FILES)


@needs_gpu
def test_on_a_gpu() -> None:
    compile_for_gpu(FILES)
