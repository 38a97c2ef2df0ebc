"""The wire: any tree of data and any control message comes out as it went in, and nothing else is accepted."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import voice_omni
from voice_omni.proto import codec, messages
from voice_omni.proto.errors import ErrorInfo, OmniError
from voice_omni.proto.messages import ArrayMeta, Body, Deliver, Open, RelayRef, Shutdown
from voice_omni.proto.payload import OmniRequest

DTYPES = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="="),
    hnp.unsigned_integer_dtypes(endianness="="),
    hnp.floating_dtypes(endianness="=", sizes=(16, 32, 64)),
    hnp.complex_number_dtypes(endianness="=", sizes=(64, 128)),
    hnp.floating_dtypes(endianness=">", sizes=(32,)),
    hnp.datetime64_dtypes(endianness="="),
    hnp.unicode_string_dtypes(endianness="=", min_len=1, max_len=4),
)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


@st.composite
def laid_out(draw: st.DrawFn) -> np.ndarray:
    """An array in any memory layout: C or Fortran order, transposed, strided, reversed, read-only."""
    array = draw(hnp.arrays(DTYPES, SHAPES))
    match draw(st.sampled_from(("C", "F", "transposed", "strided", "reversed", "read-only"))):
        case "F":
            return np.asfortranarray(array)
        case "transposed":
            return array.T
        case "strided" if array.ndim:
            return np.repeat(array, 2, axis=0)[::2]
        case "reversed" if array.ndim:
            return array[::-1]
        case "read-only":
            array.flags.writeable = False
    return array


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.text(st.characters(exclude_categories=("Cs",))),
    st.binary(),
)
NUMPY_SCALARS = st.one_of(
    st.floats(width=32).map(np.float32),
    st.floats().map(np.float64),
    st.floats(width=16).map(np.float16),
    st.integers(-(2**31), 2**31 - 1).map(np.int32),
    st.integers(0, 255).map(np.uint8),
    st.booleans().map(np.bool_),
    st.text("ab").map(np.str_),
    st.binary(max_size=3).filter(lambda value: not value.endswith(b"\0")).map(np.bytes_),
)
KEYS = st.text(st.characters(exclude_categories=("Cs",)), max_size=5)
TREES = st.dictionaries(
    KEYS,
    st.recursive(
        st.one_of(SCALARS, NUMPY_SCALARS, laid_out()),
        lambda child: st.lists(child, max_size=4) | st.dictionaries(KEYS, child, max_size=4),
        max_leaves=12,
    ),
    max_size=4,
)


def same(left: Any, right: Any) -> bool:
    """Equal in value and type, a NumPy scalar standing for its plain form; not-a-number equals itself."""
    if isinstance(right, np.generic):
        right = right.item()
    if isinstance(left, np.ndarray):
        return (
            isinstance(right, np.ndarray)
            and left.dtype == right.dtype
            and left.shape == right.shape
            and np.array_equal(left, right, equal_nan=left.dtype.kind in "fcmM")
        )
    if isinstance(left, dict):
        return isinstance(right, dict) and left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and (left == right or (left != left and right != right))


def as_frames(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The tensors' bytes, each in a buffer of its own, as they ride behind a control message."""
    return [array.reshape(-1).view(np.uint8) for array in arrays]


def as_block(arrays: list[np.ndarray]) -> np.ndarray:
    """The tensors' bytes in one buffer, each aligned, as a relay writes them."""
    flat = np.zeros(codec.packed_size(arrays), dtype=np.uint8)
    offset = 0
    for array in arrays:
        flat[offset : offset + array.nbytes] = array.reshape(-1).view(np.uint8)
        offset += codec.aligned(array.nbytes)
    return flat


# -- trees -------------------------------------------------------------------------------------------------------------


@given(TREES)
def test_a_tree_comes_back_from_separate_frames(tree: dict[str, Any]) -> None:
    body, arrays, _ = codec.pack(tree)
    assert same(codec.unpack(body, as_frames(arrays)), tree)


@given(TREES)
def test_a_tree_comes_back_from_one_block(tree: dict[str, Any]) -> None:
    body, arrays, _ = codec.pack(tree)
    assert same(codec.unpack(body, codec.split(body, as_block(arrays))), tree)


@given(TREES)
def test_the_body_itself_survives_the_control_message(tree: dict[str, Any]) -> None:
    body, arrays, _ = codec.pack(tree)
    frame = codec.encode("a", 0, "b", Deliver("r", "a", 0, "chunk", body))
    received = codec.decode(frame).message
    assert isinstance(received, Deliver)
    assert same(codec.unpack(codec.body_of(received.body), as_frames(arrays)), tree)


@given(st.lists(laid_out(), max_size=5))
def test_tensors_are_contiguous_and_each_begins_aligned(given_arrays: list[np.ndarray]) -> None:
    body, arrays, _ = codec.pack({"arrays": given_arrays})
    assert all(array.flags.c_contiguous for array in arrays)
    assert all(meta.offset % codec.ALIGNMENT == 0 for meta in body.arrays)
    ends = [meta.offset + array.nbytes for meta, array in zip(body.arrays, arrays, strict=True)]
    assert all(end <= meta.offset for end, meta in zip(ends, body.arrays[1:], strict=False))
    assert codec.packed_size(arrays) >= max(ends, default=0)


@pytest.mark.parametrize(("nbytes", "rounded"), [(0, 0), (1, 64), (64, 64), (65, 128)])
def test_sizes_are_rounded_up_to_a_cache_line(nbytes: int, rounded: int) -> None:
    assert codec.aligned(nbytes) == rounded


@pytest.mark.parametrize("shift", range(1, 8))
def test_a_tensor_at_an_odd_address_is_moved_to_a_good_one(shift: int) -> None:
    body, arrays, _ = codec.pack({"x": np.arange(5, dtype=np.float64)})
    odd = np.zeros(64, np.uint8)[shift : shift + 40]
    odd[:] = as_frames(arrays)[0]
    restored = codec.unpack(body, [odd])["x"]
    assert restored.flags.aligned
    assert np.array_equal(restored, np.arange(5.0))


def test_an_aligned_tensor_is_not_copied() -> None:
    body, arrays, _ = codec.pack({"x": np.arange(5)})
    assert np.shares_memory(codec.unpack(body, as_frames(arrays))["x"], arrays[0])


def test_a_contiguous_tensor_is_not_copied_on_its_way_out() -> None:
    array = np.arange(12.0).reshape(3, 4)
    assert np.shares_memory(codec.pack({"x": array})[1][0], array)


ENDLESS: dict[str, Any] = {}
ENDLESS["again"] = ENDLESS


@pytest.mark.parametrize(
    "leaf",
    [
        object(),
        1j,
        np.complex64(1j),
        np.longdouble(1),
        np.datetime64("2020-01-01"),
        np.array([None]),
        np.zeros(2, dtype=[("left", "f4"), ("right", "f4")]),
        np.array(["text"], dtype=np.dtypes.StringDType()),
        2**64,
        -(2**63) - 1,
        "\ud800",
        ENDLESS,
    ],
    ids=lambda leaf: type(leaf).__name__,
)
def test_what_has_no_wire_form_is_refused(leaf: Any) -> None:
    with pytest.raises(OmniError) as raised:
        codec.pack({"deep": [{"leaf": leaf}]})
    assert raised.value.code == "unsupported_type"
    with pytest.raises(OmniError) as raised:
        codec.encode("a", 0, "b", Open(OmniRequest(request_id="r", route="x", params={"leaf": leaf}), "a", {}))
    assert raised.value.code == "unsupported_type"


@pytest.mark.parametrize(
    ("body", "buffers"),
    [
        (Body(b"\xc1"), []),
        (Body(b""), []),
        (Body(b"\x80"), [np.zeros(4, np.uint8)]),
        (Body(b"\x80", (ArrayMeta("<f4", (1,), 0),)), []),
        (Body(b"\x80", (ArrayMeta("nonsense", (1,), 0),)), [np.zeros(4, np.uint8)]),
        (Body(b"\x80", (ArrayMeta("O", (1,), 0),)), [np.zeros(8, np.uint8)]),
        (Body(b"\x80", (ArrayMeta("<f4", (2,), 0),)), [np.zeros(4, np.uint8)]),
        (Body(msgspec.msgpack.encode({"x": msgspec.msgpack.Ext(9, b"")})), []),
        (Body(msgspec.msgpack.encode({"x": msgspec.msgpack.Ext(1, b"\0\0\0\1")})), []),
        (
            Body(msgspec.msgpack.encode({"x": msgspec.msgpack.Ext(1, b"\0\0\0\0")}), (ArrayMeta("|u1", (1,), 0),)),
            [np.zeros(1, np.uint8)],
        ),
    ],
    ids=[
        "no msgpack",
        "empty",
        "a frame too many",
        "a frame too few",
        "unknown dtype",
        "an object dtype",
        "a frame too short",
        "unknown extension",
        "a tensor that is not there",
        "a tensor before the first",
    ],
)
def test_a_body_that_was_not_packed_here_is_refused(body: Body, buffers: list[np.ndarray]) -> None:
    with pytest.raises(OmniError) as raised:
        codec.unpack(body, buffers)
    assert raised.value.code == "protocol_error"


@pytest.mark.parametrize("wire", [None, [1], ["tree"], [b"", [["<f4", "shape", 0]]]])
def test_a_deliver_without_a_body_is_refused(wire: Any) -> None:
    with pytest.raises(OmniError) as raised:
        codec.body_of(wire)
    assert raised.value.code == "protocol_error"


# -- control messages --------------------------------------------------------------------------------------------------

NAMES = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
EQUAL_TO_ITSELF = SCALARS.filter(lambda value: value == value)
REQUESTS = st.builds(
    OmniRequest,
    request_id=NAMES,
    route=NAMES,
    inputs=st.dictionaries(NAMES, EQUAL_TO_ITSELF, max_size=3),
    params=st.dictionaries(NAMES, EQUAL_TO_ITSELF, max_size=3),
    session_id=st.none() | NAMES,
    utterance_id=st.none() | NAMES,
)
KINDS = msgspec.inspect.type_info(messages.Message)
assert isinstance(KINDS, msgspec.inspect.UnionType)
TYPES = [kind.cls for kind in KINDS.types if isinstance(kind, msgspec.inspect.StructType)]
COUNTS = st.integers(0, 2**40)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "request": REQUESTS,
    "bindings": st.dictionaries(NAMES, NAMES, max_size=3),
    "body": st.none(),
    "kind": st.sampled_from(("chunk", "result")),
    "error": st.builds(ErrorInfo, NAMES, NAMES, st.none() | NAMES, st.none() | NAMES, st.booleans(), st.none() | NAMES),
    "descriptor": st.binary(),
    "handed_to": st.dictionaries(NAMES, COUNTS, max_size=2),
    "device": st.binary(),
    "offsets": st.lists(COUNTS).map(tuple),
    "device_offsets": st.lists(COUNTS).map(tuple),
    "threads": st.lists(COUNTS).map(tuple),
    "stages": st.dictionaries(NAMES, st.dictionaries(NAMES, COUNTS, max_size=2), max_size=2),
}
BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {"str": NAMES, "int": COUNTS, "float": st.floats(allow_nan=False)}


def fields_of(kind: type[msgspec.Struct]) -> dict[str, st.SearchStrategy[Any]]:
    return {
        field.name: FIELDS[field.name] if field.name in FIELDS else BY_TYPE[kind.__annotations__[field.name]]
        for field in msgspec.structs.fields(kind)
    }


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
@settings(max_examples=25)
@given(data=st.data())
def test_every_control_message_comes_back(kind: type[msgspec.Struct], data: st.DataObject) -> None:
    message = data.draw(st.builds(kind, **fields_of(kind)))
    sender, incarnation, target = data.draw(st.tuples(NAMES, COUNTS, NAMES))
    envelope = codec.decode(codec.encode(sender, incarnation, target, message))
    assert envelope == messages.Envelope(messages.PROTOCOL_VERSION, sender, incarnation, target, message)


def test_references_into_the_relays_come_back() -> None:
    tensors = (ArrayMeta("bfloat16", (7,), 0),)
    body = Body(b"\x80", (ArrayMeta("<f4", (2, 3), 64),), RelayRef(4096, 128), tensors, RelayRef(0, 64))
    received = codec.decode(codec.encode("a", 3, "b", Deliver("r", "a", 0, "result", body))).message
    assert isinstance(received, Deliver)
    assert codec.body_of(received.body) == body


@given(st.dictionaries(KEYS, laid_out(), max_size=3))
def test_tensors_of_a_header_travel_inside_the_message(inputs: dict[str, np.ndarray]) -> None:
    request = OmniRequest(request_id="r", route="x", inputs=inputs)
    received = codec.decode(codec.encode("a", 0, "b", Open(request, "a", {}))).message
    assert isinstance(received, Open)
    assert same(received.request.inputs, inputs)


# -- what is not ours --------------------------------------------------------------------------------------------------


def refused(frame: bytes) -> OmniError:
    with pytest.raises(OmniError) as raised:
        codec.decode(frame)
    assert raised.value.code == "protocol_error"
    return raised.value


def test_another_version_is_refused_by_its_number() -> None:
    ours = msgspec.msgpack.decode(codec.encode("a", 0, "b", Shutdown()))
    theirs = msgspec.msgpack.encode([messages.PROTOCOL_VERSION + 1, *ours[1:]])
    assert f"version {messages.PROTOCOL_VERSION + 1}" in str(refused(theirs))


WHOLE = codec.encode(
    "a",
    1,
    "b",
    Open(OmniRequest(request_id="r", route="x", inputs={"x": np.arange(3), "text": "höre"}), "a", {"b": "c"}),
)


def test_a_truncated_message_is_refused_wherever_it_ends() -> None:
    for length in range(len(WHOLE)):
        refused(WHOLE[:length])


def test_a_message_with_something_behind_it_is_refused() -> None:
    refused(WHOLE + b"\0")


@given(st.binary(max_size=64))
def test_noise_is_refused(noise: bytes) -> None:
    refused(noise)


@given(position=st.integers(0, len(WHOLE) - 1), value=st.integers(0, 255))
def test_a_damaged_message_is_refused_or_another_message(position: int, value: int) -> None:
    damaged = bytearray(WHOLE)
    damaged[position] = value
    try:
        envelope = codec.decode(bytes(damaged))
    except OmniError as error:
        assert error.code == "protocol_error"  # noqa: PT017 - whether it raises depends on the damage
    else:
        assert isinstance(envelope, messages.Envelope)


def wrapped(value: Any) -> bytes:
    """A well-formed control message around a value that this version would not write."""
    return msgspec.msgpack.encode([messages.PROTOCOL_VERSION, "a", 0, "b", ["Deliver", "r", "s", 0, "chunk", value]])


@pytest.mark.parametrize(
    "extension",
    [
        msgspec.msgpack.Ext(7, b""),
        msgspec.msgpack.Ext(2, b""),
        msgspec.msgpack.Ext(2, b"\0\5abcde"),
        msgspec.msgpack.Ext(2, b"\0\7" + msgspec.msgpack.encode(("<q", (3,))) + b"short"),
        msgspec.msgpack.Ext(2, b"\0\6" + msgspec.msgpack.encode(("<q", "x"))),
        msgspec.msgpack.Ext(2, b"\0\4" + msgspec.msgpack.encode(("O", ())) + b"12345678"),
    ],
)
def test_a_tensor_that_was_not_written_here_is_refused(extension: msgspec.msgpack.Ext) -> None:
    refused(wrapped(extension))


def test_a_tree_nested_without_end_is_refused() -> None:
    head = wrapped(None)[:-1]
    refused(head + b"\x91" * 100_000)


# -- no pickle ---------------------------------------------------------------------------------------------------------

CARRIES_CODE = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}
PICKLING_CALLS = {"send_pyobj", "recv_pyobj", "send_serialized", "recv_serialized"}


def pickles(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return bool({name.name.split(".")[0] for name in names} & CARRIES_CODE)
        case ast.ImportFrom(module=str(module)):
            return module.split(".")[0] in CARRIES_CODE
        case ast.Attribute(attr=attribute):
            return attribute in PICKLING_CALLS
        case ast.keyword(arg="allow_pickle", value=value):
            return not (isinstance(value, ast.Constant) and value.value is False)
    return False


def test_nothing_is_pickled_anywhere() -> None:
    """Bytes from another process never become code."""
    root = Path(voice_omni.__file__).parent
    sources = sorted(root.rglob("*.py"))
    assert sources
    found = [
        f"{source.relative_to(root)}:{getattr(node, 'lineno', '?')}"
        for source in sources
        for node in ast.walk(ast.parse(source.read_text()))
        if pickles(node)
    ]
    assert found == []
