"""The page that ships is what ``web/`` builds to, and its sources pass their checks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from voice_omni.server.page import STATIC, load

LIMIT = 60_000
"""Bytes of script and style, packed, that somebody loads before the first word."""


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_committed_bundle_is_what_the_sources_build_to(npx: Callable[..., None], tmp_path: Path) -> None:
    npx("vite", "build", "--outDir", str(tmp_path / "built"), "--logLevel=warn")
    built, committed = files(tmp_path / "built"), files(STATIC)
    assert sorted(built) == sorted(committed), "run 'npm run build' in web/ and commit what it makes"
    assert built == committed


def test_it_stays_small() -> None:
    packed = [file.packed for name, file in load().items() if name.endswith((".js", ".css"))]
    assert sum(len(content) for content in packed if content is not None) < LIMIT


@pytest.mark.parametrize("command", [("tsc", "--noEmit"), ("biome", "ci"), ("vitest", "run")], ids=lambda c: c[0])
def test_the_sources_pass(npx: Callable[..., None], command: tuple[str, ...]) -> None:
    npx(*command)
