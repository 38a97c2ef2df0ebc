"""The CUDA driver where there is none. With a GPU, :mod:`tests.pipeline.test_device_processes` drives it."""

from __future__ import annotations

import pytest
import torch

from voice_omni.proto.errors import OmniError
from voice_omni.relay.cuda_driver import CudaDriver, require
from voice_omni.relay.cuda_memory import CudaMemory

without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")


@without_gpu
def test_a_missing_driver_is_said() -> None:
    with pytest.raises(OmniError, match="CUDA driver") as raised:
        CudaDriver()
    assert raised.value.code == "missing_device"


@without_gpu
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_device_that_is_not_there_is_named(device: str) -> None:
    with pytest.raises(OmniError, match=f"there is no device {device} here: the CUDA driver") as raised:
        require(device)
    assert raised.value.code == "missing_device"


@without_gpu
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_torch_without_devices_is_said(device: str) -> None:
    with pytest.raises(OmniError, match="finds no CUDA device") as raised:
        CudaMemory(device).start()
    assert raised.value.code == "missing_device"
