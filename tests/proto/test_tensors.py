"""Torch tensors in a tree: on the wire, in host memory, and unknown to whoever has not loaded torch."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from voice_omni.proto import codec
from voice_omni.proto.errors import OmniError
from voice_omni.proto.messages import ArrayMeta, Body, Deliver, Open, RelayRef
from voice_omni.proto.payload import OmniRequest
from voice_omni.proto.tensors import is_tensor, to_host

DTYPES = [
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2),
]
SHAPES = [(), (0,), (5,), (3, 0, 2), (2, 3, 4)]


def some(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    values = torch.randint(0, 2, shape, generator=torch.Generator().manual_seed(1))
    return values.to(dtype)


def block_of(tensors: list[torch.Tensor]) -> torch.Tensor:
    """The tensors' bytes in one buffer, each aligned, as a relay writes them."""
    block = torch.full((codec.packed_size(tensors),), 255, dtype=torch.uint8)
    offset = 0
    for tensor in tensors:
        block[offset : offset + tensor.nbytes] = tensor.contiguous().reshape(-1).view(torch.uint8)
        offset += codec.aligned(tensor.nbytes)
    return block


# -- on the wire -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_tensor_comes_back_as_it_was(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = some(shape, dtype)
    body, arrays, tensors = codec.pack({"x": tensor})
    assert arrays == []
    received = codec.unpack(body, [], block_of(tensors))["x"]
    assert received.dtype == dtype
    assert received.shape == shape
    assert torch.equal(received.view(torch.uint8) if dtype.itemsize == 1 else received, _comparable(tensor))


def _comparable(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.uint8) if tensor.dtype.itemsize == 1 else tensor


def test_tensors_and_arrays_of_one_tree_are_told_apart() -> None:
    rows, codes = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3), np.arange(4, dtype=np.int32)
    tree = {"rows": rows, "list": [codes, {"deep": rows[0]}], "first": 3}
    body, arrays, tensors = codec.pack(tree)
    assert [meta.dtype for meta in body.arrays] == ["<i4"]
    assert [meta.dtype for meta in body.tensors] == ["bfloat16", "bfloat16"]
    received = codec.unpack(body, [arrays[0].view(np.uint8)], block_of(tensors))
    assert torch.equal(received["rows"], rows)
    assert torch.equal(received["list"][1]["deep"], rows[0])
    assert np.array_equal(received["list"][0], codes)
    assert received["first"] == 3


def test_tensors_are_not_copied_and_each_begins_aligned() -> None:
    first, second = torch.zeros(33, dtype=torch.int16), torch.zeros(3)
    body, _, tensors = codec.pack({"a": first, "b": second})
    assert tensors[0] is first
    assert tensors[1] is second
    assert [meta.offset for meta in body.tensors] == [0, 128]


def test_tensors_that_were_received_are_views_of_one_block() -> None:
    body, _, tensors = codec.pack({"x": torch.zeros(3)})
    block = block_of(tensors)
    received = codec.unpack(body, [], block)["x"]
    assert received.untyped_storage().data_ptr() == block.untyped_storage().data_ptr()


def test_a_body_with_tensors_survives_the_control_message() -> None:
    body, *_ = codec.pack({"x": torch.zeros(2, 3)})
    placed = msgspec.structs.replace(body, tensors_ref=RelayRef(640, 64))
    received = codec.decode(codec.encode("a", 0, "b", Deliver("r", "a", 0, "chunk", placed))).message
    assert isinstance(received, Deliver)
    assert codec.body_of(received.body) == placed


@pytest.mark.parametrize(
    "tensor",
    [torch.zeros(2, dtype=torch.complex64), torch.eye(2).to_sparse()],
    ids=["complex", "sparse"],
)
def test_what_no_device_buffer_can_hold_is_refused(tensor: torch.Tensor) -> None:
    with pytest.raises(OmniError) as raised:
        codec.pack({"x": [tensor]})
    assert raised.value.code == "unsupported_type"


def test_headers_hold_no_tensors() -> None:
    request = OmniRequest(request_id="r", route="x", inputs={"x": torch.zeros(1)})
    with pytest.raises(OmniError) as raised:
        codec.encode("a", 0, "b", Open(request, "a", {}))
    assert raised.value.code == "unsupported_type"


ONE = msgspec.msgpack.encode({"x": msgspec.msgpack.Ext(3, b"\0\0\0\1")})


@pytest.mark.parametrize(
    ("body", "block"),
    [
        (Body(ONE, tensors=(ArrayMeta("float32", (2,), 0),)), None),
        (Body(ONE), torch.zeros(64, dtype=torch.uint8)),
        (Body(ONE, tensors=(ArrayMeta("float32", (2,), 0),)), torch.zeros(4, dtype=torch.uint8)),
        (Body(ONE, tensors=(ArrayMeta("float32", (-1,), 0),)), torch.zeros(64, dtype=torch.uint8)),
        (Body(ONE, tensors=(ArrayMeta("float32", (2,), 63),)), torch.zeros(128, dtype=torch.uint8)),
        (Body(ONE, tensors=(ArrayMeta("os", (2,), 0),)), torch.zeros(64, dtype=torch.uint8)),
        (Body(ONE, tensors=(ArrayMeta("quint8", (2,), 0),)), torch.zeros(64, dtype=torch.uint8)),
    ],
    ids=["no block", "no tensor", "too short", "a negative shape", "not aligned", "no type", "a type of torch alone"],
)
def test_a_tensor_that_was_not_packed_here_is_refused(body: Body, block: torch.Tensor | None) -> None:
    with pytest.raises(OmniError) as raised:
        codec.unpack(body, [], block)
    assert raised.value.code == "protocol_error"


def test_a_tensor_never_rides_behind_a_message() -> None:
    assert codec.inline_size({"x": [np.zeros(65, np.uint8), np.zeros((), np.float32)], "text": "long" * 99}) == 192
    assert codec.inline_size({"x": [{"deep": torch.zeros(0)}]}) == math.inf


# -- in host memory ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_tensor_becomes_an_array_of_the_same_values(dtype: torch.dtype) -> None:
    tensor = some((3, 2), dtype).T
    array = to_host({"x": [tensor]})["x"][0]
    assert isinstance(array, np.ndarray)
    assert array.shape == (2, 3)
    assert array.tolist() == tensor.double().tolist()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_types_that_numpy_lacks_are_widened(dtype: torch.dtype) -> None:
    assert to_host(some((2,), dtype)).dtype == np.float32


def test_the_rest_of_the_tree_stays_as_it_is() -> None:
    array = np.arange(3)
    tree = {"a": array, "b": [None, "text", 1.5], "grad": torch.zeros(1, requires_grad=True)}
    moved = to_host(tree)
    assert moved["a"] is array
    assert moved["b"] == tree["b"]
    assert moved["grad"].tolist() == [0]


# -- without torch -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1, None, "text", np.zeros(2), object(), torch.Tensor])
def test_nothing_else_is_a_tensor(value: Any) -> None:
    assert not is_tensor(value)


def test_a_process_that_has_not_loaded_torch_packs_and_unpacks_without_it() -> None:
    code = (
        "import sys, numpy as np; from voice_omni.proto import codec\n"
        "body, arrays, _ = codec.pack({'x': np.arange(3), 'y': [1, 'z']})\n"
        "print(codec.unpack(body, [arrays[0].view(np.uint8)])['x'].tolist(), 'torch' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.split("]")[1].strip() == "False"
