"""The main function of a stage process: ``python -m voice_omni.pipeline.worker``, its job on standard input.

Standard input stays open as long as the server lives: its end is how an orphan notices that it is one.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec

from voice_omni.config.settings import Settings
from voice_omni.config.wire import from_wire
from voice_omni.pipeline import runqueue
from voice_omni.pipeline.host import StageHost, load_pipeline
from voice_omni.pipeline.node import MAIN, Node
from voice_omni.pipeline.placement import device_links
from voice_omni.pipeline.topology import Topology
from voice_omni.proto.errors import ErrorInfo, OmniError, described
from voice_omni.proto.messages import Heartbeat, Loading, Message, Ready, Shutdown, StartFailed
from voice_omni.relay import cuda_driver
from voice_omni.relay.cuda_ipc import CudaIpc
from voice_omni.relay.device_memory import DeviceMemory

logger = logging.getLogger(__name__)


class WorkerJob(msgspec.Struct, frozen=True, kw_only=True):
    """What a stage process is told, as one line of JSON."""

    node: str
    incarnation: int
    process: str
    stages: tuple[str, ...]
    run_dir: str
    main_endpoint: str
    pipeline: str
    settings: Any
    log_level: int
    environment: dict[str, str] = {}
    """What the process finds in its environment besides what the server has."""


def resident_bytes() -> int:
    """Resident memory of this process; 0 where the system does not tell it through /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


async def serve(job: WorkerJob) -> int:
    """Run the job's stages until the server says stop, or is gone. Returns the exit code."""
    spec = load_pipeline(job.pipeline)
    settings = from_wire(spec, job.settings)
    limits = settings.limits
    node = Node(
        job.node,
        job.incarnation,
        Path(job.run_dir),
        inline_bytes=limits.inline_bytes,
        relay_bytes=limits.relay_bytes,
    )
    loop = asyncio.get_running_loop()
    finished: asyncio.Future[int] = loop.create_future()

    def finish(code: int) -> None:
        if not finished.done():
            finished.set_result(code)

    def on_fatal(stage: str, error: BaseException) -> None:
        logger.critical("the scheduler of stage %s died", stage, exc_info=error)
        finish(1)

    def on_control(message: Message) -> None:
        if isinstance(message, Shutdown):
            finish(0)

    def on_orphaned() -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            finish(0)

    await node.start()
    node.on_control(on_control)
    loop.add_reader(sys.stdin.fileno(), on_orphaned)
    node.peer_up(MAIN, 0, job.main_endpoint)
    host = StageHost(Topology(spec), settings, job.process, node, on_fatal)
    beating = loop.create_task(_beat(node, host, limits.heartbeat_ms / 1000))
    starting = loop.create_task(_start(node, host, job, settings))
    try:
        await asyncio.wait((starting, finished), return_when=asyncio.FIRST_COMPLETED)
        if not finished.done() and not starting.result():
            finish(1)
        code = await finished
    finally:
        beating.cancel()
        loop.remove_reader(sys.stdin.fileno())
    if not starting.done():
        # A model is still loading on its thread, which cannot be stopped: leave without it.
        os._exit(code)
    await host.stop()
    await node.close()
    return code


async def _start(node: Node, host: StageHost, job: WorkerJob, settings: Settings) -> bool:
    """Load everything and report how it went. Any failure ends this process, after the server knows why."""
    try:
        await _use_device(node, job, settings)
        await host.start(job.stages, lambda stage, text: node.send(MAIN, "", Loading(node.name, stage, text)))
    except Exception as error:
        if isinstance(error, OmniError):
            logger.error("the process %s cannot start: %s", node.name, error)
            info = error.info
        else:
            logger.exception("the process %s cannot start", node.name)
            info = ErrorInfo("start_failed", described(error))
        node.send(MAIN, "", StartFailed(node.name, node.incarnation, info))
        return False
    # What has been loaded stays: a full collection would look at all of it again, a hundred milliseconds in which no
    # stage of the process computes.
    gc.collect()
    gc.freeze()
    node.send(MAIN, "", Ready(node.name, node.incarnation))
    return True


async def _use_device(node: Node, job: WorkerJob, settings: Settings) -> None:
    """Before the models are loaded: an engine takes what is left of the device's memory, and nobody wants to fetch
    tens of gigabytes for a device that is not there."""
    device_name = settings.processes[job.process].device
    await asyncio.to_thread(cuda_driver.require, device_name)
    links = device_links(load_pipeline(job.pipeline), settings.processes, job.process)
    if links:
        memory = await asyncio.to_thread(_device_memory, device_name)
        device = CudaIpc(memory, links.feeders, settings.limits.relay_bytes)
        await device.start()
        node.use_device(device)


def _device_memory(device: str) -> DeviceMemory:
    """Only a process that exchanges device tensors loads torch for it."""
    from voice_omni.relay.cuda_memory import CudaMemory

    return CudaMemory(device)


async def _beat(node: Node, host: StageHost, interval: float) -> None:
    carriers: tuple[int, ...] = ()
    while True:
        carriers = carriers or runqueue.carriers()
        threads = (*carriers, *runqueue.interpreted())
        node.send(MAIN, "", Heartbeat(node.name, node.incarnation, resident_bytes(), host.stats(), threads))
        await asyncio.sleep(interval)


def main() -> None:
    # The server decides when its stages end: a signal from a terminal or a service manager reaches the whole group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    job = msgspec.json.decode(_first_line(), type=WorkerJob)
    logging.basicConfig(level=job.log_level, format=f"%(asctime)s %(levelname)s {job.node}: %(message)s")
    sys.exit(asyncio.run(serve(job)))


def _first_line() -> bytes:
    """Read without buffering ahead: the descriptor is watched for its end later."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(sys.stdin.fileno(), 1)
        if not byte:
            sys.exit("a stage process is started by the server, which tells it its job on standard input")
        line += byte
    return bytes(line)


if __name__ == "__main__":
    main()
