"""One download: kept, resumed, checked."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from voice_omni.proto.errors import OmniError
from voice_omni.weights.download import Http, download, shown, with_login_of

if TYPE_CHECKING:
    from .conftest import Reply, Site

CONTENT = os.urandom(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Counter:
    """The bytes that a progress bar would show."""

    def __init__(self) -> None:
        self.count = 0

    def update(self, n: int, /) -> None:
        self.count += n

    def close(self) -> None:
        pass


class Sleeper:
    """A clock that only notes how long it was asked to sleep."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.fixture
def part(tmp_path: Path) -> Path:
    return tmp_path / "downloads" / "x.part"


@pytest.fixture
def reply(site: Site) -> Reply:
    site.publish("x", "file", CONTENT)
    return site.replies["/files/file"]


def get(site: Site, part: Path, path: str = "/files/file") -> tuple[Counter, Sleeper]:
    counter, sleeper = Counter(), Sleeper()
    download(Http(), site.url + path, part, SHA256, meter=counter, sleep=sleeper)
    return counter, sleeper


def test_a_file_is_downloaded_and_its_progress_shown(site: Site, reply: Reply, part: Path) -> None:
    counter, _ = get(site, part)
    assert part.read_bytes() == CONTENT
    assert counter.count == len(CONTENT)


def test_a_connection_that_breaks_is_taken_up_where_it_broke(site: Site, reply: Reply, part: Path) -> None:
    reply.cut = 100_000
    counter, sleeper = get(site, part)
    assert part.read_bytes() == CONTENT
    assert [each.headers.get("range") for each in site.asked] == [None, "bytes=100000-"]
    assert counter.count == len(CONTENT)
    assert sleeper.slept == [], "there was progress"


def test_what_an_earlier_attempt_left_is_not_asked_for_again(site: Site, reply: Reply, part: Path) -> None:
    part.parent.mkdir()
    part.write_bytes(CONTENT[:250_000])
    counter, _ = get(site, part)
    assert part.read_bytes() == CONTENT
    assert [each.headers.get("range") for each in site.asked] == ["bytes=250000-"]
    assert counter.count == len(CONTENT)


def test_a_finished_file_is_only_checked(site: Site, reply: Reply, part: Path) -> None:
    part.parent.mkdir()
    part.write_bytes(CONTENT)
    get(site, part)
    assert part.read_bytes() == CONTENT


def test_a_server_without_ranges_sends_it_all_again(site: Site, reply: Reply, part: Path) -> None:
    reply.ranges = False
    reply.cut = 100_000
    counter, _ = get(site, part)
    assert part.read_bytes() == CONTENT
    assert counter.count == len(CONTENT)


@pytest.mark.parametrize("left", [b"something else", os.urandom(400_000)], ids=["shorter", "longer"])
def test_a_damaged_beginning_is_thrown_away(site: Site, reply: Reply, part: Path, left: bytes) -> None:
    part.parent.mkdir()
    part.write_bytes(left)
    counter, _ = get(site, part)
    assert part.read_bytes() == CONTENT
    assert counter.count == len(CONTENT)


def test_another_content_is_refused_and_not_kept(site: Site, reply: Reply, part: Path) -> None:
    reply.body = CONTENT[:-1] + b"!"
    with pytest.raises(OmniError, match=f"{SHA256} is declared") as caught:
        get(site, part)
    assert caught.value.code == "weights_corrupt"
    assert not part.exists()


def test_a_server_that_stays_down_is_given_up_and_what_came_is_kept(site: Site, reply: Reply, part: Path) -> None:
    part.parent.mkdir()
    part.write_bytes(CONTENT[:1000])
    reply.status = 503
    sleeper = Sleeper()
    with pytest.raises(OSError, match="503"):
        download(Http(), f"{site.url}/files/file", part, SHA256, meter=Counter(), sleep=sleeper)
    assert len(site.asked) == 4
    assert sleeper.slept == sorted(sleeper.slept), "each pause is longer"
    assert part.read_bytes() == CONTENT[:1000]


def test_a_refusal_is_not_tried_again(site: Site, part: Path) -> None:
    with pytest.raises(OSError, match="404"):
        get(site, part, "/files/none")
    assert len(site.asked) == 1


def test_a_login_in_the_address_is_sent_to_its_host_only(site: Site, reply: Reply, part: Path) -> None:
    site.login = "me:se:cret@"
    site.replies["/moved"] = type(reply)(
        status=302, headers={"Location": f"http://localhost:{site.server.server_port}/files/file"}
    )
    with pytest.raises(OSError, match="401"):
        download(Http(), f"http://me:se%3Acret%40@{site.host}/moved", part, SHA256, meter=Counter(), sleep=Sleeper())
    first, second = site.asked
    assert "authorization" in first.headers
    assert "authorization" not in second.headers


def test_messages_do_not_show_a_login() -> None:
    assert shown("https://me:secret@host.example/simple?x=1") == "https://host.example/simple?x=1"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://host.example/files/x", "https://me:pw@host.example/files/x"),
        ("https://files.example/x", "https://files.example/x"),
        ("https://you:pw@host.example/x", "https://you:pw@host.example/x"),
    ],
)
def test_a_login_is_lent_to_addresses_on_the_same_host(url: str, expected: str) -> None:
    assert with_login_of("https://me:pw@host.example/simple/x/", url) == expected


def test_unreadable_certificates_are_reported(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        Http(certificates=str(tmp_path / "none.pem"))
