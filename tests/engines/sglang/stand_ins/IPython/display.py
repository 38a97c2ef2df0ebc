"""Stands in where the real package has no use on a CPU: whatever is called of it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn


def __getattr__(name: str) -> Callable[..., NoReturn]:
    if name.startswith("__"):
        raise AttributeError(name)

    def absent(*_args: object, **_named: object) -> NoReturn:
        raise NotImplementedError(f"{__name__}.{name} is not here")

    return absent
