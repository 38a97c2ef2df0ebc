"""A browser, the engine built for it, and a server that it can talk to."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from filelock import FileLock
from playwright.sync_api import Browser, Playwright, expect, sync_playwright

from tests.support.patience import PATIENCE_S
from tests.web.bench import QUIET, SOUND, WEB, served, voice_server

expect.set_options(timeout=PATIENCE_S * 1000)

LOCKS = Path(tempfile.gettempdir())
"""Where test processes that run at the same time agree who installs what is missing."""


@pytest.fixture(scope="session")
def npx() -> Callable[..., None]:
    """Runs a command of the packages in ``web/``, which are installed if they are not."""
    with FileLock(LOCKS / "voice-omni-npm.lock"):
        if not (WEB / "node_modules" / ".package-lock.json").exists():
            subprocess.run(["npm", "ci", "--loglevel=error"], cwd=WEB, check=True)

    def run(*command: str) -> None:
        subprocess.run(["npx", "--no-install", *command], cwd=WEB, check=True)

    return run


@pytest.fixture(scope="session")
def chromium() -> str:
    """Debian's, which is installed if it is not and we may."""
    found = shutil.which("chromium")
    if found is None:
        with FileLock(LOCKS / "voice-omni-apt.lock"):
            quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            subprocess.run(["apt-get", "update", "-qq"], check=True, env=quiet)
            command = ["apt-get", "install", "-qq", "--no-install-recommends", "chromium"]
            subprocess.run(command, check=True, env=quiet, stdout=subprocess.DEVNULL)
        found = shutil.which("chromium")
    assert found is not None
    return found


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    """No longer than a module: while it lives, its event loop runs in this thread and leaves no room for another."""
    with sync_playwright() as driver:
        yield driver


@pytest.fixture(scope="session")
def bench_address(npx: Callable[..., None], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A page that holds the engine and nothing else: see ``web/tests/engine/harness``. It is built once for a run."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "bench"
    with FileLock(f"{folder}.lock"):
        if not (folder / "index.html").exists():
            config = ("--config", "tests/engine/harness/vite.config.ts")
            npx("vite", "build", *config, "--outDir", str(folder), "--logLevel=warn")
    with served(folder) as address:
        yield address


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The starter pipeline's address."""
    with voice_server() as address:
        yield address


@pytest.fixture(scope="module")
def browser(playwright: Playwright, chromium: str) -> Iterator[Browser]:
    """Its microphone says nothing but what a page's script makes it say."""
    browser = playwright.chromium.launch(executable_path=chromium, args=[*QUIET, *SOUND])
    yield browser
    browser.close()
