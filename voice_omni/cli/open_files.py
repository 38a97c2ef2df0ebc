"""How many connections there may be: each is an open file, of which the system gives a process only so many."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ENOUGH: Final = 65536
"""More open files are not asked for: some systems allow a thousand million, and libraries count through them."""
_MOST_AT_ONCE: Final = 128
_BURSTS: Final = 6
"""So many times that is accepted before the first of them has been counted and closed: each takes turns of the loop."""
_UNKNOWN: Final = 64
"""Files that are open already, where nobody can tell."""


@dataclass(frozen=True, slots=True)
class Connections:
    """``most``: that may be open. ``at_once``: that may be accepted in one go, before anybody can count them."""

    most: int
    at_once: int


def connections_for(free_files: int) -> Connections:
    """What fits into ``free_files`` and leaves some: for calls, for stages that start again, and for the last bursts.

    Without that, a client that opens connections and says nothing would take the files of everything else, and the
    event loop would do nothing but try to accept more.
    """
    at_once = max(1, min(_MOST_AT_ONCE, free_files // (2 * _BURSTS)))
    return Connections(max(2, free_files - _BURSTS * at_once), at_once)


def free_files() -> int:
    """How many more files this process may open, after asking the system for as many as it gives."""
    if sys.platform == "win32":
        return _ENOUGH
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(_ENOUGH, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (OSError, ValueError):  # macOS gives less than it says
            pass
    limit = _ENOUGH if soft == resource.RLIM_INFINITY else soft
    opened = Path("/proc/self/fd")
    return max(0, limit - (len(os.listdir(opened)) if opened.is_dir() else _UNKNOWN))
