"""What pip and uv are configured with decides where wheels come from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from voice_omni.weights.pip_settings import PipSettings, pip_settings


def test_without_any_configuration_it_is_pypi() -> None:
    settings = pip_settings({"PIP_CONFIG_FILE": os.devnull})
    assert settings == PipSettings((), ("https://pypi.org/simple",), None, None)


def test_the_environment_of_pip() -> None:
    settings = pip_settings(
        {
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": "https://mirror.example/simple",
            "PIP_EXTRA_INDEX_URL": "https://a.example/simple https://b.example/simple",
            "PIP_FIND_LINKS": "/wheels https://c.example/wheels/",
            "PIP_PROXY": "proxy.example:3128",
            "PIP_CERT": "/etc/ca.pem",
        }
    )
    assert settings == PipSettings(
        ("/wheels", "https://c.example/wheels/"),
        ("https://mirror.example/simple", "https://a.example/simple", "https://b.example/simple"),
        "proxy.example:3128",
        "/etc/ca.pem",
    )


def test_uv_stands_in_where_pip_has_nothing() -> None:
    environment = {
        "PIP_CONFIG_FILE": os.devnull,
        "UV_DEFAULT_INDEX": "https://uv.example/simple",
        "UV_INDEX": "named=https://other.example/simple?a=b",
    }
    expected = ("https://uv.example/simple", "https://other.example/simple?a=b")
    assert pip_settings(environment).indexes == expected
    environment["PIP_INDEX_URL"] = "https://pip.example/simple"
    assert pip_settings(environment).indexes[0] == "https://pip.example/simple"


def test_no_index_leaves_only_find_links() -> None:
    settings = pip_settings({"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels"})
    assert (settings.find_links, settings.indexes) == (("/wheels",), ())


@pytest.mark.skipif(os.name != "posix" or os.uname().sysname == "Darwin", reason="the places on Linux")
def test_the_users_file_yields_to_the_named_one_and_that_to_the_environment(machine: Path, tmp_path: Path) -> None:
    users = machine / ".config" / "pip" / "pip.conf"
    users.parent.mkdir(parents=True)
    users.write_text(
        "[global]\nindex-url = https://user.example/simple\ncert = /user.pem\n"
        "extra-index-url =\n    https://one.example/simple\n    https://two.example/simple\n"
        "[download]\nproxy = http://download.example:1\n[install]\ncert = /install.pem\n"
    )
    named = tmp_path / "named.conf"
    named.write_text("[global]\ncert = /named.pem\n")
    environment = {"XDG_CONFIG_DIRS": str(tmp_path / "none")}
    settings = pip_settings(environment)
    assert settings.indexes == (
        "https://user.example/simple",
        "https://one.example/simple",
        "https://two.example/simple",
    )
    assert (settings.proxy, settings.certificates) == ("http://download.example:1", "/user.pem")
    environment["PIP_CONFIG_FILE"] = str(named)
    assert pip_settings(environment).certificates == "/named.pem"
    environment["PIP_CERT"] = "/environment.pem"
    assert pip_settings(environment).certificates == "/environment.pem"
