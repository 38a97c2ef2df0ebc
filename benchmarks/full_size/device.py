"""A GPU as its driver's tools show it: memory in use, and several processes computing at the same time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

_MIB = 2**20
_IDLE = 2_000_000_000
"""A GPU with less in use takes no part."""
_WORKS = "import torch; torch.zeros(1, device='cuda')"


@dataclass(slots=True)
class Memory:
    """Bytes in use on each GPU, by all processes: ``now``, and the most since the last :meth:`peak`."""

    now: dict[int, int] = field(default_factory=dict)
    _most: dict[int, int] = field(default_factory=dict)

    def saw(self, gpu: int, used: int) -> None:
        self.now[gpu] = used
        self._most[gpu] = max(used, self._most.get(gpu, 0))

    def peak(self) -> str:
        """Gigabytes of each GPU that is in use, and begin anew; ``-`` without a GPU."""
        shown = " + ".join(f"{used / 1e9:.1f}" for used in self._most.values() if used > _IDLE)
        self._most = dict(self.now)
        return shown or "-"

    @property
    def total(self) -> int:
        return sum(self.now.values())


@contextlib.asynccontextmanager
async def watched_memory(interval_ms: int = 500) -> AsyncIterator[Memory]:
    """What ``nvidia-smi`` reports so often of the GPUs whose numbers are in ``CUDA_VISIBLE_DEVICES``, or of all;
    nothing where there is none."""
    memory = Memory()
    if shutil.which("nvidia-smi") is None:
        yield memory
        return
    query = ["--query-gpu=index,memory.used", "--format=csv,noheader,nounits", f"--loop-ms={interval_ms}"]
    if re.fullmatch(r"\d+(,\d+)*", chosen := os.environ.get("CUDA_VISIBLE_DEVICES", "")):
        query.append(f"--id={chosen}")
    process = await asyncio.create_subprocess_exec("nvidia-smi", *query, stdout=asyncio.subprocess.PIPE)

    async def read() -> None:
        while process.stdout is not None and (line := await process.stdout.readline()):
            gpu, _, used = line.decode().partition(",")
            if used.strip().isdigit():
                memory.saw(int(gpu), int(used) * _MIB)

    reading = asyncio.create_task(read())
    try:
        yield memory
    finally:
        process.terminate()
        await process.wait()
        await reading


@contextlib.contextmanager
def multi_process_service(wanted: bool) -> Iterator[str]:
    """NVIDIA's MPS for the processes that are started meanwhile, in folders of its own; yields a line about it.

    Without it, processes have the GPU in turn; with it their kernels run side by side
    (https://docs.nvidia.com/deploy/mps).
    """
    control = shutil.which("nvidia-cuda-mps-control")
    if not wanted:
        yield "MPS: off"
        return
    if control is None:
        yield "MPS: nvidia-cuda-mps-control is not on the PATH; processes have the GPU in turn"
        return
    with tempfile.TemporaryDirectory(prefix="mps-") as folder:
        named = {f"CUDA_MPS_{kind}_DIRECTORY": os.path.join(folder, kind.lower()) for kind in ("PIPE", "LOG")}
        for path in named.values():
            os.mkdir(path)
        before = {name: os.environ.get(name) for name in named}
        os.environ.update(named)
        try:
            yield _start(control, named)
        finally:
            environment = {**os.environ, **named}
            subprocess.run([control], input="quit\n", text=True, capture_output=True, check=False, env=environment)
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value


def _start(control: str, variables: dict[str, str]) -> str:
    started = subprocess.run([control, "-d"], capture_output=True, text=True, check=False)
    fault = started.stderr.strip() or started.stdout.strip()
    if started.returncode == 0:
        tried = subprocess.run([sys.executable, "-c", _WORKS], capture_output=True, text=True, check=False)
        if tried.returncode == 0:
            return "MPS: on"
        fault = (tried.stderr.strip().splitlines() or ["no CUDA under it"])[-1]
    # A process that cannot reach the service would find no GPU at all.
    for name in variables:
        os.environ.pop(name)
    return f"MPS: could not be started ({fault}); processes have the GPU in turn"
