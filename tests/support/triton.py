"""Triton's kernels in tests: computed by its interpreter on a processor, or compiled for a GPU.

Tests of kernels stand in files ``kernels_*.py``, beside the test that runs them all in a process of its own: Triton
chooses when it is imported, and this project's environment does not have it. The interpreter runs a kernel in numpy,
one program after the other: loops, masks, places, sorts, scans and integers are those of a GPU. What it cannot show:

- Bfloat16: it cuts off where a GPU rounds, and multiplies matrices of it as if their bits were whole numbers. Products
  are therefore tested in float32, which a GPU multiplies in TF32, and in float16.
- Programs beside each other, and threads of one: a barrier does nothing, and no race is seen.
- What the compiler makes of a kernel, and CUDA graphs. On a GPU the same files are compiled.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest
import torch

from tests.engines.sglang.environment import ROOT, UnreachableError, prepare_common, variables
from tests.support.reported import passes

INTERPRETED: Final = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE: Final = "cpu" if INTERPRETED else "cuda"
"""Where the tests in ``kernels_*.py`` compute."""

_COMPILED: Final = torch.cuda.is_available() and find_spec("triton") is not None

needs_gpu = pytest.mark.skipif(
    not _COMPILED, reason="CUDA graphs, and what Triton's compiler makes of a kernel, need a GPU and Triton"
)


def interpret(files: Sequence[Path]) -> None:
    """Pass the tests of ``files`` in Triton's interpreter. Skips without the package index, if it is needed."""
    try:
        python = prepare_common()
    except UnreachableError as error:
        pytest.skip(f"the package index, which has Triton, cannot be reached: {error}")
    # One instance of a kernel is too small for more threads.
    _pass(python, files, {**variables(), "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"})


def compile_for_gpu(files: Sequence[Path]) -> None:
    """Pass the tests of ``files`` on this machine's GPU."""
    _pass(Path(sys.executable), files, {**os.environ, "PYTHONPATH": str(ROOT), "TRITON_INTERPRET": "0"})


def _pass(python: Path, files: Sequence[Path], environment: dict[str, str]) -> None:
    assert files
    options = ["-c", os.devnull, "--rootdir", ".", "--noconftest", "-p", "no:cacheprovider", "-q", "--durations=5"]
    command = [python, "-m", "pytest", *options, *files]
    passes(command, environment, "the report above says which kernel computes something else")
