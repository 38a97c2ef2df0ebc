"""Where this user's pip would look for packages: its configuration files and environment, read without pip.

Only what a plain download needs is read; pip itself is asked for the rest (see :mod:`voice_omni.weights.pypi`).
The files and their order are those of https://pip.pypa.io/en/stable/topics/configuration/.
"""

from __future__ import annotations

import configparser
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_DEFAULT_INDEX = "https://pypi.org/simple"
_UV_INDEX_NAME = re.compile(r"^[\w.-]+=(?=\w+:)")  # uv allows NAME=URL


@dataclass(frozen=True, slots=True)
class PipSettings:
    """``find_links`` and ``indexes`` are addresses or folders in the order in which they are asked."""

    find_links: tuple[str, ...]
    indexes: tuple[str, ...]
    proxy: str | None
    certificates: str | None


def pip_settings(environment: Mapping[str, str] = os.environ) -> PipSettings:
    """The settings that hold in this environment; those of uv stand in where pip has none."""
    values = _from_files(environment)
    for key, names in {
        "index-url": ("UV_INDEX_URL", "UV_DEFAULT_INDEX", "PIP_INDEX_URL"),
        "extra-index-url": ("UV_EXTRA_INDEX_URL", "UV_INDEX", "PIP_EXTRA_INDEX_URL"),
        "find-links": ("UV_FIND_LINKS", "PIP_FIND_LINKS"),
        "no-index": ("UV_NO_INDEX", "PIP_NO_INDEX"),
        "proxy": ("PIP_PROXY",),
        "cert": ("REQUESTS_CA_BUNDLE", "PIP_CERT"),
    }.items():
        for name in names:  # the later one wins
            if value := environment.get(name):
                values[key] = value
    indexes = [values.get("index-url", _DEFAULT_INDEX), *values.get("extra-index-url", "").split()]
    if values.get("no-index", "").lower() in {"1", "true", "yes", "on"}:
        indexes = []
    return PipSettings(
        find_links=tuple(values.get("find-links", "").replace(",", " ").split()),
        indexes=tuple(_UV_INDEX_NAME.sub("", index) for index in indexes),
        proxy=values.get("proxy"),
        certificates=values.get("cert"),
    )


def _from_files(environment: Mapping[str, str]) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    override = environment.get("PIP_CONFIG_FILE")
    if override == os.devnull:
        return {}
    parser.read([*_config_files(environment), *([override] if override else [])], encoding="utf-8")
    values: dict[str, str] = {}
    for section in ("global", "download"):
        if parser.has_section(section):
            values.update(parser.items(section))
    return values


def _config_files(environment: Mapping[str, str]) -> list[Path]:
    """Every place of a pip configuration, the weakest first."""
    home = Path.home()
    if sys.platform == "win32":
        machine = [Path(environment.get("PROGRAMDATA", r"C:\ProgramData")) / "pip" / "pip.ini"]
        user = [home / "pip" / "pip.ini", Path(environment.get("APPDATA", home)) / "pip" / "pip.ini"]
        return [*machine, *user, Path(sys.prefix) / "pip.ini"]
    system = [Path(folder) / "pip" / "pip.conf" for folder in environment.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":")]
    if sys.platform == "darwin":
        system = [Path("/Library/Application Support/pip/pip.conf")]
    config_home = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    user = [home / ".pip" / "pip.conf", config_home / "pip" / "pip.conf"]
    return [*system, Path("/etc/pip.conf"), *user, Path(sys.prefix) / "pip.conf"]
