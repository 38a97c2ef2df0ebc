"""What the kernel tells of threads that wait for a processor. On Linux, by ``/proc``; elsewhere nothing is known.

Fields: ``sched-stats`` in the kernel's documentation for ``schedstat``, proc_pid_stat(5) for the state.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_CARRIER: Final = "ZMQbg/IO"
"""How libzmq names the threads that move messages between a process and its sockets."""


@dataclass(frozen=True, slots=True)
class ThreadTimes:
    """Of one thread since it began: seconds on a processor, and seconds in which it was ready and had none.

    The kernel counts a wait when it ends. One that still lasts shows in ``runnable``: running, or ready to.
    """

    ran_s: float
    waited_s: float
    runnable: bool


def carriers() -> tuple[int, ...]:
    """The threads of this process that carry its messages, by their ids. Looks at every thread; one that has only just
    been started has no name yet, and is not found."""
    return tuple(
        int(task.name)
        for task in _folders(Path("/proc/self/task"))
        if (name := _read(task / "comm")) is not None and name.startswith(_CARRIER)
    )


def interpreted() -> tuple[int, ...]:
    """The threads of this process that may hold the interpreter's lock, by their ids."""
    return tuple(thread.native_id for thread in threading.enumerate() if thread.native_id is not None)


def times(pid: int, threads: Iterable[int]) -> dict[int, ThreadTimes]:
    """Those of the threads of a process that live, and of which the system tells."""
    found = {}
    for thread in threads:
        task = Path(f"/proc/{pid}/task/{thread}")
        schedstat, stat = _read(task / "schedstat"), _read(task / "stat")
        if schedstat is not None and stat is not None:
            ran, waited, _ = schedstat.split()
            state = stat.rpartition(")")[2].split()[0]  # the name before it may hold anything
            found[thread] = ThreadTimes(int(ran) / 1e9, int(waited) / 1e9, state == "R")
    return found


def _folders(parent: Path) -> list[Path]:
    try:
        return [parent / name for name in os.listdir(parent)]
    except OSError:
        return []


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None  # the thread has ended, or the system has no such file
