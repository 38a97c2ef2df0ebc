"""Identifiers of the protocol's objects, as OpenAI writes them: a prefix that names the kind, then noise."""

from __future__ import annotations

import secrets
from collections.abc import Callable

IdFactory = Callable[[str], str]
"""From a prefix (``item``, ``resp``, ``event``, ``sess``, ``conv``, ``utt``) to an id never given before."""


def random_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(11)}"
