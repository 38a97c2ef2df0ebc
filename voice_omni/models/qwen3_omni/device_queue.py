"""Where a network computes: on a GPU's stream, which nobody waits for before there is a reason to, or at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from threading import Lock
from typing import Any, Final, Protocol

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

_WARM_UP_RUNS: Final = 2
"""Before a capture: libraries choose their kernels and take their memory then."""

_ATTENTION: Final = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""Takes a mask, and compiles nothing for each new size."""

_PRODUCTS_LOCK: Final = Lock()
"""How products are computed is a setting of the process: two queues must not put back what the other has chosen."""

Compute = Callable[[], None]


class Mark(Protocol):
    """A moment in a queue; may be set again and again."""

    def set(self) -> None:
        """After all that has been put into the queue so far; inside of :meth:`Queue.entered`."""
        ...

    def reached(self) -> bool: ...

    def wait(self) -> None: ...


class Queue(Protocol):
    """Computes what it is given in order. ``pinned``: host memory that is copied to or from must be."""

    pinned: bool

    def entered(self) -> AbstractContextManager[object]:
        """What is computed inside goes into this queue."""
        ...

    def kernels(self) -> AbstractContextManager[object]:
        """Which kernels may be chosen inside."""
        ...

    def captured(self, compute: Compute) -> Compute:
        """What does the same as ``compute``, always on the same memory, as cheaply as the device can. Computes it."""
        ...

    def settle(self) -> None:
        """Wait for all of the device, and give back the memory that nobody uses."""
        ...

    def mark(self) -> Mark: ...


def queue_on(device: torch.device, dtype: torch.dtype) -> Queue:
    """For weights of this type on this device."""
    return GpuQueue(device, dtype) if device.type == "cuda" else HostQueue()


class Reached:
    """The mark of a queue in which everything has been computed when the call returns."""

    def set(self) -> None:
        """Nothing is left to wait for."""

    def reached(self) -> bool:
        return True

    def wait(self) -> None:
        """Nothing to wait for."""


class HostQueue:
    """Computes while it is called."""

    pinned = False

    def entered(self) -> AbstractContextManager[object]:
        return nullcontext()

    def kernels(self) -> AbstractContextManager[object]:
        return nullcontext()

    def captured(self, compute: Compute) -> Compute:
        return compute

    def settle(self) -> None:
        """Nothing runs."""

    def mark(self) -> Mark:
        return Reached()


class GpuQueue:
    """A CUDA stream of the highest priority: what else the process computes on the device, such as a long prefill,
    gives way to it between two blocks of threads."""

    pinned = True

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        cuda: Any = torch.cuda
        highest = cuda.Stream.priority_range()[1]
        self._stream = cuda.Stream(device, priority=highest)
        self._pool = cuda.graph_pool_handle()
        self._device = device
        self._dtype = dtype

    def entered(self) -> AbstractContextManager[object]:
        context: AbstractContextManager[object] = torch.cuda.stream(self._stream)
        return context

    @contextmanager
    def kernels(self) -> Iterator[None]:
        """For float32 weights nothing in TF32, whose numbers have 10 bits; beside others it is what float32 is
        multiplied in. Sums are not rounded to the weights' type before they are complete."""
        exact = self._dtype == torch.float32
        products: Any = torch.backends.cuda.matmul
        chosen = {
            "allow_tf32": not exact,
            "allow_bf16_reduced_precision_reduction": False,
            "allow_fp16_reduced_precision_reduction": False,
        }
        with ExitStack() as stack:
            stack.enter_context(_PRODUCTS_LOCK)
            before = {name: getattr(products, name) for name in chosen}
            stack.enter_context(sdpa_kernel(_ATTENTION))
            if exact:
                stack.enter_context(torch.backends.cudnn.flags(enabled=True, allow_tf32=False))
            for name, value in before.items():
                stack.callback(setattr, products, name, value)
            for name, value in chosen.items():
                setattr(products, name, value)
            yield

    def captured(self, compute: Compute) -> Compute:
        """A CUDA graph. All graphs of a queue share their memory, since none runs beside another."""
        graph = torch.cuda.CUDAGraph()
        with self.entered():
            for _ in range(_WARM_UP_RUNS):
                compute()
            self._stream.synchronize()
            # Other threads of this process may use the device meanwhile.
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                compute()
            finally:
                graph.capture_end()
        return graph.replay

    def settle(self) -> None:
        torch.cuda.synchronize(self._device)
        torch.cuda.empty_cache()

    def mark(self) -> Mark:
        return Event()


class Event:
    """A CUDA event, on the stream that has been entered when it is set."""

    def __init__(self) -> None:
        event: Any = torch.cuda.Event
        self._event = event()

    def set(self) -> None:
        self._event.record()

    def reached(self) -> bool:
        return bool(self._event.query())

    def wait(self) -> None:
        self._event.synchronize()
