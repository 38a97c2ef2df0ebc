from __future__ import annotations

import tomllib

from tests.engines.sglang.environment import PINNED, ROOT


def test_the_pinned_release_is_the_one_that_the_extra_installs() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras["sglang"]) <= set(PINNED.read_text().split())
