"""The page in every one of its states, built for a browser: no server of ours, no sound."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlencode

from tests.web.bench import WEB, served


def scene_names() -> list[str]:
    """In the order of ``web/tests/ui/scenes.ts``."""
    source = (WEB / "tests" / "ui" / "scenes.ts").read_text()
    table = source[source.index("function scenes(") : source.index("satisfies Record<string, Scene>")]
    return re.findall(r"^    '?([a-z-]+)'?: ", table, re.MULTILINE)


@contextmanager
def scenes() -> Iterator[str]:
    """Builds and serves them; yields the address of the page that :func:`scene_url` asks for one of them.

    The packages of ``web/`` must be installed.
    """
    with TemporaryDirectory() as folder:
        command = ("vite", "build", "--config", "tests/ui/vite.config.ts", "--outDir", folder, "--logLevel=warn")
        subprocess.run(["npx", "--no-install", *command], cwd=WEB, check=True)
        with served(Path(folder)) as address:
            yield f"{address}/scenes.html"


def scene_url(address: str, scene: str, **query: str) -> str:
    """``query``: ``theme``, ``captions`` and ``key``."""
    return f"{address}?{urlencode({'scene': scene, **query})}"
