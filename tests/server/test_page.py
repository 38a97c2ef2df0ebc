"""The voice chat page over HTTP: what is sent, to whom, and how it may be kept."""

from __future__ import annotations

import asyncio
import gzip
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urljoin

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.support.caller import services
from tests.support.patience import PATIENCE_S
from tests.support.scripted import ScriptedClient
from tests.support.serving import serving
from voice_omni.server import Access, create_app, page
from voice_omni.server.auth_keys import load_keys
from voice_omni.session.silero import SileroModel


class Answer:
    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = {name.lower(): value for name, value in headers.items()}
        self.body = body


async def fetch(address: str, path: str, method: str = "GET", **headers: str) -> Answer:
    """``headers``: underscores stand for hyphens."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"http://{address}{path}", headers=sent, method=method)

    def run() -> Answer:
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return Answer(answer.status, dict(answer.headers), answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, dict(error.headers), error.read())

    return await asyncio.to_thread(run)


@pytest.fixture
def app(silero: SileroModel) -> Starlette:
    return create_app(services(ScriptedClient(), silero))


@pytest.fixture
def closed(silero: SileroModel) -> Starlette:
    """A server that asks for keys."""
    return create_app(services(ScriptedClient(), silero, access=Access(load_keys("phone=sk-right-0123456789", None))))


def addresses(html: str) -> list[str]:
    """What the page loads."""
    return re.findall(r'(?:src|href)="([^"]+)"', html)


async def test_the_page_and_all_that_it_loads_are_there(app: Starlette) -> None:
    async with serving(app) as address:
        index = await fetch(address, "/")
        assert index.status == 200
        assert index.headers["content-type"] == "text/html; charset=utf-8"
        loaded = addresses(index.body.decode())
        assert {Path(name).suffix for name in loaded} == {".js", ".css", ".svg"}
        for name in loaded:
            assert (await fetch(address, urljoin("/", name))).status == 200


def test_it_loads_by_relative_addresses_so_that_it_works_below_any_prefix() -> None:
    index = page.load()["/"].content.decode()
    assert all(name.startswith("./assets/") for name in addresses(index))


async def test_it_works_below_a_prefix(app: Starlette) -> None:
    async with serving(Starlette(routes=[Mount("/voice", app)])) as address:
        index = await fetch(address, "/voice/")
        assert index.status == 200
        for name in addresses(index.body.decode()):
            assert (await fetch(address, urljoin("/voice/", name))).status == 200


@pytest.mark.parametrize(
    ("suffix", "media_type"),
    [
        (".js", "text/javascript; charset=utf-8"),
        (".css", "text/css; charset=utf-8"),
        (".svg", "image/svg+xml"),
        (".woff2", "font/woff2"),
    ],
)
async def test_assets_have_their_types_and_are_kept_for_good(app: Starlette, suffix: str, media_type: str) -> None:
    names = [name for name in page.load() if name.endswith(suffix)]
    assert names
    async with serving(app) as address:
        for name in names:
            asset = await fetch(address, name)
            assert asset.headers["content-type"] == media_type
            assert asset.headers["cache-control"] == "public, max-age=31536000, immutable"
            assert asset.headers["x-content-type-options"] == "nosniff"


def test_names_of_assets_change_with_their_content() -> None:
    for name in page.load():
        assert name == "/" or re.fullmatch(r"/assets/[\w.-]+-[\w-]{8}\.\w+", name)


async def test_the_page_itself_is_asked_for_every_time_and_sent_once(app: Starlette) -> None:
    async with serving(app) as address:
        first = await fetch(address, "/")
        assert first.headers["cache-control"] == "no-cache"
        again = await fetch(address, "/", If_None_Match=f'"other", {first.headers["etag"]}')
        assert (again.status, again.body) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]
        assert (await fetch(address, "/", If_None_Match='"other"')).status == 200


@pytest.mark.parametrize("accepted", ["gzip", "br, GZIP;q=0.5"])
async def test_text_is_packed_for_who_takes_that(app: Starlette, accepted: str) -> None:
    async with serving(app) as address:
        plain = await fetch(address, "/")
        packed = await fetch(address, "/", Accept_Encoding=accepted)
        assert packed.headers["content-encoding"] == "gzip"
        assert "accept-encoding" in packed.headers["vary"].lower()
        assert gzip.decompress(packed.body) == plain.body


@pytest.mark.parametrize("accepted", ["identity", "br", "gzip;q=0"])
async def test_and_for_nobody_else(app: Starlette, accepted: str) -> None:
    async with serving(app) as address:
        assert "content-encoding" not in (await fetch(address, "/", Accept_Encoding=accepted)).headers


async def test_nothing_foreign_runs_in_it_and_nobody_frames_it(app: Starlette) -> None:
    async with serving(app) as address:
        policy = (await fetch(address, "/")).headers["content-security-policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == "'self'"
    assert rules["connect-src"] == "'self'"
    assert rules["frame-ancestors"] == "'none'"
    assert "unsafe" not in policy


async def test_it_loads_without_a_key_and_nothing_else_does(closed: Starlette) -> None:
    async with serving(closed) as address:
        assert (await fetch(address, "/")).status == 200
        for name in page.load():
            assert (await fetch(address, name)).status == 200
        assert (await fetch(address, "/assets/nothing.js")).status == 404
        assert (await fetch(address, "/v1/models")).status == 401
        assert (await fetch(address, "/assets")).status == 401


async def test_other_methods_are_refused(app: Starlette) -> None:
    async with serving(app) as address:
        head = await fetch(address, "/", method="HEAD")
        assert (head.status, head.body) == (200, b"")
        assert (await fetch(address, "/", method="DELETE")).status == 405


@pytest.mark.parametrize("name", ["../page.py", "..%2fpage.py", "%2e%2e/index.html", "index.html", ""])
async def test_nothing_but_the_assets_is_served(app: Starlette, name: str) -> None:
    async with serving(app) as address:
        assert (await fetch(address, f"/assets/{name}")).status == 404


def test_a_package_without_the_page_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="npm ci"):
        page.load(tmp_path)


def test_a_file_of_an_unknown_type_is_not_passed_off_as_another(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<!doctype html>")
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "film-12345678.mkv").write_bytes(b"")
    with pytest.raises(ValueError, match=r"film-12345678\.mkv"):
        page.load(tmp_path)
