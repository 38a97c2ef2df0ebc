"""What ``voice-omni check`` looks at."""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from voice_omni.cli.listener import bind
from voice_omni.cli.sound_input import sound_library
from voice_omni.config import Settings
from voice_omni.models import registry
from voice_omni.pipeline.spec import PipelineSpec
from voice_omni.proto.errors import OmniError
from voice_omni.relay.cuda_driver import CudaDriver
from voice_omni.session.weights import WEIGHTS as SESSION_WEIGHTS
from voice_omni.weights.store import cached

_CORES: Final = 2
_MEMORY_GB: Final = 2.5
"""What the starter pipeline needs with all its processes."""


@dataclass(frozen=True, slots=True)
class Finding:
    """``missing`` keeps the server from running, ``note`` does not."""

    state: Literal["ok", "note", "missing"]
    subject: str
    text: str

    def __str__(self) -> str:
        return f"{self.state:<8}{self.subject:<19} {self.text}"


def inspect(spec: PipelineSpec, settings: Settings) -> Iterator[Finding]:
    """Everything in turn; importing the models' libraries takes a few seconds."""
    yield Finding("ok", "configuration", f"pipeline {spec.name}, processes {', '.join(settings.processes)}")
    yield Finding("ok", "python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield _cores()
    yield from _memory()
    yield from _shared_memory(settings)
    yield from _devices(settings)
    yield from _runners(spec)
    yield from _engines(settings)
    yield from _weights(spec)
    yield _port(settings)
    yield _sound()


def _cores() -> Finding:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if count < _CORES:
        return Finding("note", "processor", f"{count} core; answers come late with fewer than {_CORES}")
    return Finding("ok", "processor", f"{count} cores")


def _memory() -> Iterator[Finding]:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return  # not on Linux: nothing that the standard library could tell
    available = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) * 1024 / 1e9
    if available < _MEMORY_GB:
        yield Finding("note", "memory", f"{available:.1f} GB free; the starter pipeline needs up to {_MEMORY_GB} GB")
    else:
        yield Finding("ok", "memory", f"{available:.1f} GB free")


def _shared_memory(settings: Settings) -> Iterator[Finding]:
    folder = Path("/dev/shm")
    if not folder.is_dir():
        return
    free = shutil.disk_usage(folder).free
    nodes = 1 + sum(process.replicas for process in settings.processes.values() if not process.inline)
    needed = settings.limits.relay_bytes * nodes * (nodes - 1)
    if free < needed:
        advice = "free some, give the container a larger --shm-size, or lower limits.relay_bytes"
        yield Finding("note", "shared memory", f"{free / 1e6:.0f} MB free, up to {needed / 1e6:.0f} MB used; {advice}")
    else:
        yield Finding("ok", "shared memory", f"{free / 1e6:.0f} MB free, up to {needed / 1e6:.0f} MB used")


def _devices(settings: Settings) -> Iterator[Finding]:
    """The GPUs that processes are put on."""
    wanted = {process.device for process in settings.processes.values() if process.device.startswith("cuda")}
    if not wanted:
        return
    advice = "install NVIDIA's driver, or take a layout whose processes have no 'device: cuda'"
    try:
        count = CudaDriver().count()
    except OmniError as error:
        yield Finding("missing", "device cuda", f"{error}; {advice}")
        return
    for device in sorted(wanted):
        if int(device.partition(":")[2] or 0) < count:
            yield Finding("ok", f"device {device}", f"one of {count}")
        else:
            yield Finding("missing", f"device {device}", f"there are {count}, counted from 0; {advice}")


def _engines(settings: Settings) -> Iterator[Finding]:
    """Libraries that a stage needs for the engine that its options name."""
    for name, stage in settings.stages.items():
        if getattr(stage.options, "engine", None) == "sglang" and importlib.util.find_spec("sglang") is None:
            advice = "SGLang is not installed: pip install 'voice-omni[sglang]', or set the option 'engine' to 'torch'"
            yield Finding("missing", f"engine of {name}", advice)


def _runners(spec: PipelineSpec) -> Iterator[Finding]:
    """A library of a model that is absent, or that misses a library of the system, shows when it is imported."""
    for stage in spec.stages:
        try:
            importlib.import_module(stage.runner.partition(":")[0])
        except ImportError as error:
            advice = f"{error}; install voice-omni again: {sys.executable} -m pip install --force-reinstall voice-omni"
            yield Finding("missing", f"stage {stage.name}", advice)
        else:
            yield Finding("ok", f"stage {stage.name}", f"{stage.scheduler} scheduler, libraries load")


def _weights(spec: PipelineSpec) -> Iterator[Finding]:
    declared = registry.weights()
    for weights in (*(declared[name] for name in spec.weights), *SESSION_WEIGHTS):
        folder = cached(weights)
        if folder is None:
            advice = f"the first start fetches {weights.size / 1e6:.0f} MB, or 'voice-omni models fetch {weights.name}'"
            yield Finding("note", "weights", f"{weights.name}: {advice}")
        else:
            yield Finding("ok", "weights", f"{weights.name}: {folder}")


def _port(settings: Settings) -> Finding:
    server = settings.server
    try:
        bind(server.host, server.port).close()
    except OmniError as error:
        return Finding("missing", "port", str(error))
    return Finding("ok", "port", f"{server.port} of {server.host} is free")


def _sound() -> Finding:
    optional = "(only 'talk mic' and 'talk --play' need one)"
    try:
        library = sound_library()
    except OmniError as error:
        return Finding("note", "sound devices", f"{error} {optional}")
    try:
        names = [library.query_devices(kind=kind)["name"] for kind in ("input", "output")]
    except library.PortAudioError as error:
        return Finding("note", "sound devices", f"{error}; connect one {optional}")
    return Finding("ok", "sound devices", f"microphone {names[0]}, loudspeaker {names[1]}")
