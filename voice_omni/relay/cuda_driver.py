"""The functions of the CUDA driver that the relay needs, called through ctypes.

The driver's own library rather than the CUDA runtime: every machine with a GPU has it, in one version, whichever
runtime a process has loaded, and its interface is stable
(https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEM.html).
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from typing import Any, Final

from voice_omni.proto.errors import OmniError

HANDLE_BYTES: Final = 64
UUID_BYTES: Final = 16
_LAZY_ENABLE_PEER_ACCESS: Final = 1


class _IpcMemHandle(ctypes.Structure):
    _fields_ = (("reserved", c_ubyte * HANDLE_BYTES),)


class _Uuid(ctypes.Structure):
    _fields_ = (("bytes", c_ubyte * UUID_BYTES),)


_PROTOTYPES: Final[dict[str, tuple[Any, ...]]] = {
    "cuInit": (c_uint,),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGetUuid_v2": (POINTER(_Uuid), c_int),
    "cuDeviceCanAccessPeer": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuDevicePrimaryCtxRelease_v2": (c_int,),
    "cuCtxSetCurrent": (c_void_p,),
    "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuIpcGetMemHandle": (POINTER(_IpcMemHandle), c_uint64),
    "cuIpcOpenMemHandle_v2": (POINTER(c_uint64), _IpcMemHandle, c_uint),
    "cuIpcCloseMemHandle": (c_uint64,),
    "cuMemcpyAsync": (c_uint64, c_uint64, c_size_t, c_void_p),
    "cuStreamSynchronize": (c_void_p,),
}
"""Each returns a CUresult. The names with a version are those that cuda.h gives to the plain names since CUDA 11."""


class CudaDriver:
    """Raises :class:`OmniError`: ``missing_device`` where the driver is not installed or finds no device, and
    ``device_failed`` with the driver's own words for every call that fails.

    Calls act on the context that :meth:`enter` has made current on the calling thread.
    """

    def __init__(self) -> None:
        try:
            library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise OmniError("missing_device", f"the CUDA driver is not installed: {error}") from error
        self._functions = {name: getattr(library, name) for name in _PROTOTYPES}
        for name, arguments in _PROTOTYPES.items():
            self._functions[name].argtypes = arguments
            self._functions[name].restype = c_int
        result = self._functions["cuInit"](0)
        if result:
            raise OmniError("missing_device", f"the CUDA driver finds no device: {self._words(result)}")

    def enter(self, device: int) -> None:
        """Make the primary context of a device, the one that torch uses, current on this thread."""
        context = c_void_p()
        self._call("cuDevicePrimaryCtxRetain", byref(context), self._device(device))
        self._call("cuCtxSetCurrent", context)

    def leave(self, device: int) -> None:
        self._call("cuCtxSetCurrent", None)
        self._call("cuDevicePrimaryCtxRelease_v2", self._device(device))

    def uuid(self, device: int) -> bytes:
        """What identifies a device in every process: 16 bytes."""
        uuid = _Uuid()
        self._call("cuDeviceGetUuid_v2", byref(uuid), self._device(device))
        return bytes(uuid.bytes)

    def count(self) -> int:
        """The devices that this process may see."""
        count = c_int()
        self._call("cuDeviceGetCount", byref(count))
        return count.value

    def can_access(self, device: int, peer: int) -> bool:
        able = c_int()
        self._call("cuDeviceCanAccessPeer", byref(able), self._device(device), self._device(peer))
        return bool(able.value)

    def allocate(self, nbytes: int) -> int:
        address = c_uint64()
        self._call("cuMemAlloc_v2", byref(address), nbytes)
        return address.value

    def free(self, address: int) -> None:
        self._call("cuMemFree_v2", address)

    def export(self, address: int) -> bytes:
        """An IPC handle, 64 bytes, of memory that :meth:`allocate` gave."""
        handle = _IpcMemHandle()
        self._call("cuIpcGetMemHandle", byref(handle), address)
        return bytes(handle.reserved)

    def open(self, handle: bytes) -> int:
        """Map another process's memory; enables peer access where it is another device's."""
        address = c_uint64()
        mapped = _IpcMemHandle.from_buffer_copy(handle)
        self._call("cuIpcOpenMemHandle_v2", byref(address), mapped, _LAZY_ENABLE_PEER_ACCESS)
        return address.value

    def close(self, address: int) -> None:
        self._call("cuIpcCloseMemHandle", address)

    def copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        self._call("cuMemcpyAsync", target, source, nbytes, stream)

    def synchronize(self, stream: int) -> None:
        self._call("cuStreamSynchronize", stream)

    def _device(self, ordinal: int) -> int:
        device = c_int()
        self._call("cuDeviceGet", byref(device), ordinal)
        return device.value

    def _call(self, name: str, *arguments: Any) -> None:
        result = self._functions[name](*arguments)
        if result:
            raise OmniError("device_failed", f"{name}: {self._words(result)}")

    def _words(self, result: int) -> str:
        name, text = c_char_p(), c_char_p()
        self._functions["cuGetErrorName"](result, byref(name))
        self._functions["cuGetErrorString"](result, byref(text))
        return f"{(name.value or b'?').decode()} ({result}), {(text.value or b'?').decode()}"


def require(device: str) -> None:
    """Raises :class:`OmniError` ``missing_device`` for a GPU, such as ``cuda:1``, that the driver does not show this
    process. Anything else is there."""
    if not device.startswith("cuda"):
        return
    try:
        count = CudaDriver().count()
    except OmniError as error:
        raise OmniError("missing_device", f"there is no device {device} here: {error}") from error
    if int(device.partition(":")[2] or 0) >= count:
        raise OmniError(
            "missing_device", f"there is no device {device} here: the CUDA driver shows {count}, counted from 0"
        )
