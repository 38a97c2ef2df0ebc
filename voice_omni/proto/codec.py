"""Encoding of control messages and of ``Data`` trees whose tensors travel beside them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from voice_omni.proto.errors import OmniError
from voice_omni.proto.messages import PROTOCOL_VERSION, ArrayMeta, Body, Envelope, Message
from voice_omni.proto.payload import Data
from voice_omni.proto.tensors import Tensor, dtype_name, is_tensor, restore

ALIGNMENT: Final = 64
"""Tensors begin at multiples of this many bytes: a cache line, and enough for any SIMD load."""

_EXT_REFERENCE: Final = 1
_EXT_INLINE: Final = 2
_EXT_TENSOR: Final = 3

_PLAIN: Final = frozenset((int, float, str))
"""What a list may hold thousands of, and none of it is an array."""

_UNWRITABLE: Final = (OverflowError, UnicodeEncodeError, RecursionError)
_UNREADABLE: Final = (msgspec.MsgspecError, ValueError, TypeError, IndexError, OverflowError, RuntimeError)

AnyArray = NDArray[Any]


def aligned(nbytes: int) -> int:
    """``nbytes`` rounded up to the alignment of tensors."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


class Packed(NamedTuple):
    """A tree taken apart: its wire form, its arrays (C-contiguous) and its device tensors, in the body's order."""

    body: Body
    arrays: list[AnyArray]
    tensors: list[Tensor]


class _TakenOut:
    """The arrays or the tensors of one tree, laid out one after another."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.metas: list[ArrayMeta] = []
        self._end = 0

    def add(self, item: Any, dtype: str) -> bytes:
        """What stands in the tree instead of ``item``."""
        self.items.append(item)
        self.metas.append(ArrayMeta(dtype, tuple(item.shape), self._end))
        self._end += aligned(item.nbytes)
        return len(self.items).to_bytes(4, "big")


def pack(data: Data) -> Packed:
    """Split a tree into its wire form and its tensors.

    Raises :class:`OmniError` ``unsupported_type`` for a leaf that no border may carry.
    """
    arrays, tensors = _TakenOut(), _TakenOut()

    def take_out(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            array = np.asarray(value, order="C")
            return msgspec.msgpack.Ext(_EXT_REFERENCE, arrays.add(array, _dtype_name(array)))
        if is_tensor(value):
            return msgspec.msgpack.Ext(_EXT_TENSOR, tensors.add(value, dtype_name(value)))
        return _scalar(value)

    with _writing():
        tree = msgspec.msgpack.Encoder(enc_hook=take_out).encode(data)
    body = Body(tree, tuple(arrays.metas), tensors=tuple(tensors.metas))
    return Packed(body, arrays.items, tensors.items)


def inline_size(tree: Any) -> float:
    """Bytes of the arrays of a tree as they ride behind a message; infinite with a device tensor, which never does."""
    if isinstance(tree, np.ndarray):
        return aligned(tree.nbytes)
    if isinstance(tree, dict):
        return sum(map(inline_size, tree.values()))
    if isinstance(tree, list | tuple):
        return sum(inline_size(value) for value in tree if type(value) not in _PLAIN)
    return math.inf if is_tensor(tree) else 0


def packed_size(arrays: Sequence[AnyArray | Tensor]) -> int:
    """Bytes that the arrays or tensors of one body take when laid out one after another, each aligned."""
    return sum(aligned(array.nbytes) for array in arrays)


def unpack(body: Body, buffers: Sequence[AnyArray], block: Tensor | None = None) -> Data:
    """Rebuild the tree. ``buffers``: uint8 ``[nbytes]`` per array; ``block``: a uint8 tensor with all device tensors,
    which lie at ``ArrayMeta.offset``. Arrays and tensors are views of them.

    Raises :class:`OmniError` ``protocol_error`` for a body that :func:`pack` did not write.
    """
    taken_out: dict[int, list[Any]] = {}

    def put_back(code: int, data: memoryview) -> Any:
        items = taken_out.get(code)
        if items is None:
            raise OmniError("protocol_error", f"unknown extension type {code} in a body")
        number = int.from_bytes(data, "big")
        if not 1 <= number <= len(items):
            raise OmniError("protocol_error", f"a body of {len(items)} tensors names number {number}")
        return items[number - 1]

    with _reading("body"):
        taken_out[_EXT_REFERENCE] = [_restore(meta, buffer) for meta, buffer in zip(body.arrays, buffers, strict=True)]
        taken_out[_EXT_TENSOR] = [] if block is None else [restore(meta, block) for meta in body.tensors]
        decoded: Data = msgspec.msgpack.Decoder(ext_hook=put_back).decode(body.tree)
    return decoded


def split(body: Body, flat: AnyArray) -> list[AnyArray]:
    """The arrays' bytes inside one block, uint8 ``[nbytes]``, in which they lie at ``ArrayMeta.offset``."""
    return [flat[meta.offset : meta.offset + _nbytes(meta)] for meta in body.arrays]


def _restore(meta: ArrayMeta, buffer: AnyArray) -> AnyArray:
    array = buffer[: _nbytes(meta)].view(np.dtype(meta.dtype)).reshape(meta.shape)
    # A small control frame may lie at any address, and compute libraries expect aligned tensors.
    return array if array.flags.aligned else array.copy()


def _nbytes(meta: ArrayMeta) -> int:
    return math.prod(meta.shape) * np.dtype(meta.dtype).itemsize


def _dtype_name(array: AnyArray) -> str:
    if array.dtype.hasobject or array.dtype.names is not None:
        raise OmniError("unsupported_type", f"an array of {array.dtype} cannot travel between stages")
    return array.dtype.str


def _scalar(value: Any) -> Any:
    if isinstance(value, np.generic):
        plain = value.item()
        # Not every kind has a plain form: a long double gives itself, a date a type that would arrive as a string.
        if isinstance(plain, bool | int | float | str | bytes):
            return plain
    raise OmniError("unsupported_type", f"a value of type {type(value).__name__} cannot travel between stages")


def _inline(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return _scalar(value)
    head = msgspec.msgpack.encode((_dtype_name(value), value.shape))
    return msgspec.msgpack.Ext(_EXT_INLINE, len(head).to_bytes(2, "big") + head + value.tobytes())


def _from_inline(code: int, data: memoryview) -> Any:
    if code != _EXT_INLINE:
        raise OmniError("protocol_error", f"unknown extension type {code} in a message")
    head_end = 2 + int.from_bytes(data[:2], "big")
    dtype, shape = msgspec.msgpack.decode(data[2:head_end])
    return np.frombuffer(bytes(data[head_end:]), dtype=np.dtype(dtype)).reshape(shape)


_encoder = msgspec.msgpack.Encoder(enc_hook=_inline)
_decoder = msgspec.msgpack.Decoder(Envelope, ext_hook=_from_inline)


def encode(sender: str, incarnation: int, target: str, message: Message) -> bytes:
    """One control frame. Tensors in a request's header travel inside it: headers hold small ones only.

    Raises :class:`OmniError` ``unsupported_type`` as :func:`pack`.
    """
    with _writing():
        return _encoder.encode(Envelope(PROTOCOL_VERSION, sender, incarnation, target, message))


def decode(frame: bytes | memoryview) -> Envelope:
    """Raises :class:`OmniError` ``protocol_error`` for anything that this version did not write."""
    with _reading("control message"):
        envelope = _decoder.decode(frame)
    if envelope.version != PROTOCOL_VERSION:
        raise OmniError(
            "protocol_error", f"control message of version {envelope.version}, this process speaks {PROTOCOL_VERSION}"
        )
    return envelope


def body_of(wire: Any) -> Body:
    """The body of a received ``Deliver``, whose type the message leaves open. Raises as :func:`decode`."""
    with _reading("body"):
        return msgspec.convert(wire, Body, builtin_types=(bytes,))


@contextmanager
def _writing() -> Iterator[None]:
    """Integers beyond 64 bits, lone surrogates and trees without end have no wire form."""
    try:
        yield
    except _UNWRITABLE as error:
        raise OmniError("unsupported_type", f"a value cannot travel between stages: {error}") from error


@contextmanager
def _reading(what: str) -> Iterator[None]:
    """Whatever bytes of unknown origin provoke in the decoders becomes one error."""
    try:
        yield
    except _UNREADABLE as error:
        raise OmniError("protocol_error", f"unreadable {what}: {error}") from error
