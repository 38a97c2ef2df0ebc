"""Shared memory: what is particular to a mapped file. :mod:`tests.relay.test_contract` has what all relays promise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from voice_omni.proto import codec
from voice_omni.relay.shm import ShmInbound, ShmOutbound

SIZE = 1024


class Link:
    """Both halves over one file."""

    def __init__(self, path: Path, size: int = SIZE) -> None:
        self.path = path
        self.inbound = ShmInbound(path, size)
        self.outbound = ShmOutbound(self.inbound.descriptor)

    def close(self) -> None:
        self.outbound.close()
        self.inbound.close()


@pytest.fixture
def link(tmp_path: Path) -> Iterator[Link]:
    made = Link(tmp_path / "buffer")
    yield made
    made.close()


async def test_arrays_are_read_as_they_were_written(link: Link) -> None:
    tree = {
        "hidden": np.arange(20, dtype=np.float32).reshape(4, 5),
        "codes": np.arange(6, dtype=np.int16).reshape(2, 3).T,
        "empty": np.zeros((0, 3), np.float64),
        "one": np.array(7, np.int64),
    }
    body, arrays, _ = codec.pack(tree)
    ref = await link.outbound.write(arrays)
    assert ref.nbytes == codec.packed_size(arrays) == link.outbound.in_use
    received = codec.unpack(body, codec.split(body, await link.inbound.read(ref)))
    assert received.keys() == tree.keys()
    for name, array in tree.items():
        assert received[name].dtype == array.dtype
        assert np.array_equal(received[name], array)


def test_closing_removes_the_file(link: Link) -> None:
    link.close()
    assert not link.path.exists()


def test_a_buffer_takes_no_memory_before_it_is_written(tmp_path: Path) -> None:
    large = Link(tmp_path / "large", 1 << 30)
    assert (tmp_path / "large").stat().st_blocks == 0
    large.close()


def test_two_receivers_never_share_a_file(link: Link) -> None:
    with pytest.raises(FileExistsError):
        ShmInbound(link.path, SIZE)
