"""Encoding of control messages and of ``Data`` trees whose tensors travel beside them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from voice_omni.proto.errors import OmniError
from voice_omni.proto.messages import PROTOCOL_VERSION, ArrayMeta, Body, Envelope, Message
from voice_omni.proto.payload import Data

ALIGNMENT: Final = 64
"""Tensors begin at multiples of this many bytes: a cache line, and enough for any SIMD load."""

_EXT_REFERENCE: Final = 1
_EXT_INLINE: Final = 2

_UNWRITABLE: Final = (OverflowError, UnicodeEncodeError, RecursionError)
_UNREADABLE: Final = (msgspec.MsgspecError, ValueError, TypeError, IndexError, OverflowError, RecursionError)

AnyArray = NDArray[Any]


def aligned(nbytes: int) -> int:
    """``nbytes`` rounded up to the alignment of tensors."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def pack(data: Data) -> tuple[Body, list[AnyArray]]:
    """Split a tree into its wire form and its tensors, C-contiguous, in the order of ``Body.arrays``.

    Raises :class:`OmniError` ``unsupported_type`` for a leaf that no border may carry.
    """
    arrays: list[AnyArray] = []
    metas: list[ArrayMeta] = []
    end = 0

    def take_out(value: Any) -> Any:
        nonlocal end
        if not isinstance(value, np.ndarray):
            return _scalar(value)
        array = np.asarray(value, order="C")
        metas.append(ArrayMeta(_dtype_name(array), tuple(array.shape), end))
        arrays.append(array)
        end += aligned(array.nbytes)
        return msgspec.msgpack.Ext(_EXT_REFERENCE, len(arrays).to_bytes(4, "big"))

    with _writing():
        tree = msgspec.msgpack.Encoder(enc_hook=take_out).encode(data)
    return Body(tree, tuple(metas)), arrays


def packed_size(arrays: Sequence[AnyArray]) -> int:
    """Bytes that the tensors of one body take when laid out one after another, each aligned."""
    return sum(aligned(array.nbytes) for array in arrays)


def unpack(body: Body, buffers: Sequence[AnyArray]) -> Data:
    """Rebuild the tree. ``buffers``: uint8 ``[nbytes]`` per tensor; the tensors are views of them.

    Raises :class:`OmniError` ``protocol_error`` for a body that :func:`pack` did not write.
    """
    arrays: list[AnyArray] = []

    def put_back(code: int, data: memoryview) -> Any:
        if code != _EXT_REFERENCE:
            raise OmniError("protocol_error", f"unknown extension type {code} in a body")
        number = int.from_bytes(data, "big")
        if not 1 <= number <= len(arrays):
            raise OmniError("protocol_error", f"a body of {len(arrays)} tensors names number {number}")
        return arrays[number - 1]

    with _reading("body"):
        arrays += [_restore(meta, buffer) for meta, buffer in zip(body.arrays, buffers, strict=True)]
        decoded: Data = msgspec.msgpack.Decoder(ext_hook=put_back).decode(body.tree)
    return decoded


def split(body: Body, flat: AnyArray) -> list[AnyArray]:
    """The tensors' bytes inside one block, uint8 ``[nbytes]``, in which they lie at ``ArrayMeta.offset``."""
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
