"""Tensors of torch in a ``Data`` tree, handled without importing torch: where it is not loaded, there are none.

A tensor goes to another process's device as it is. To a process without a device it goes as an array in host memory.
"""

from __future__ import annotations

import math
import sys
from typing import Any, Final

from voice_omni.proto.errors import OmniError
from voice_omni.proto.messages import ArrayMeta

Tensor = Any
"""A ``torch.Tensor``; its type is not known to a process that has not loaded torch."""

_NUMERIC: Final = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
_WIDENED: Final = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
"""NumPy has no such types: in host memory they are float32, which holds each of their values exactly."""


def is_tensor(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def dtype_name(tensor: Tensor) -> str:
    """``bfloat16`` for ``torch.bfloat16``. Raises :class:`OmniError` ``unsupported_type`` for what cannot travel."""
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in _NUMERIC + _WIDENED or str(tensor.layout) != "torch.strided":
        raise OmniError("unsupported_type", f"a {tensor.layout} tensor of {tensor.dtype} cannot travel between stages")
    return name


def restore(meta: ArrayMeta, block: Tensor) -> Tensor:
    """The tensor inside a uint8 tensor ``[nbytes]``, a view of it.

    Raises ValueError or RuntimeError for a description that :func:`dtype_name` and a tensor's shape did not give.
    """
    if meta.dtype not in _NUMERIC + _WIDENED or min((meta.offset, *meta.shape)) < 0:
        raise ValueError(f"{meta} describes no tensor")
    dtype = getattr(sys.modules["torch"], meta.dtype)
    nbytes = math.prod(meta.shape) * dtype.itemsize
    return block[meta.offset : meta.offset + nbytes].view(dtype).reshape(meta.shape)


def to_host(tree: Any) -> Any:
    """The tree with NumPy arrays where it had tensors. Blocks until a device has copied them.

    Types that NumPy lacks (``bfloat16``, ``float8``) become float32. Raises as :func:`dtype_name`.
    """
    if isinstance(tree, dict):
        return {key: to_host(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [to_host(value) for value in tree]
    if not is_tensor(tree):
        return tree
    widened = dtype_name(tree) in _WIDENED
    return (tree.detach().float() if widened else tree.detach()).cpu().numpy()
