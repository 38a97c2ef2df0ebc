"""Every setting of a running server, with its default, its range and its meaning."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from voice_omni.pipeline.spec import PipelineSpec, SchedulerKind, StageSpec
from voice_omni.scheduling.options import Code2WavOptions, OmniOptions, SchedulerOptions, SimpleOptions
from voice_omni.session.options import SessionOptions
from voice_omni.transports.webrtc.options import WebRtcOptions

SECRET: Final = "secret"
"""Marks, in a setting's ``Meta.extra``, a value that is never shown."""

SCHEDULER_OPTIONS: Final[Mapping[SchedulerKind, type[SchedulerOptions]]] = {
    "simple": SimpleOptions,
    "omni": OmniOptions,
    "code2wav": Code2WavOptions,
}


class ProcessSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One stage process: which stages live in it, how often and on what."""

    stages: Annotated[tuple[str, ...], Meta(min_length=1, description="the stages that live in this process")]
    replicas: Annotated[
        int, Meta(ge=1, le=64, description="copies of the process; a request stays with one of them")
    ] = 1
    device: Annotated[
        str, Meta(pattern=r"^(cpu|cuda(:\d+)?)$", description="where its models run: cpu, cuda or cuda:N")
    ] = "cpu"
    threads: Annotated[
        int, Meta(ge=0, le=256, description="threads that a model may compute on; 0 decides from the cores")
    ] = 0
    environment: Annotated[
        dict[str, str],
        Meta(description="variables that its environment has besides the server's, such as CUDA_MPS_CLIENT_PRIORITY"),
    ] = {}
    inline: Annotated[bool, Meta(description="run inside the server's own process, for debugging")] = False


class StageSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One stage: its model's own options, its scheduler's and the bound of its stream edges.

    ``options`` is an instance of the stage's ``StageSpec.options``; ``scheduler`` one of the class that
    :data:`SCHEDULER_OPTIONS` gives for its scheduler kind.
    """

    options: Any
    scheduler: SchedulerOptions
    credits: Annotated[
        int, Meta(ge=1, le=4096, description="chunks that may be under way on each stream edge out of this stage")
    ] = 16


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds and deadlines of the pipeline."""

    max_requests: Annotated[
        int, Meta(ge=1, description="requests under way at the same time; one more is refused as overloaded")
    ] = 64
    request_deadline_s: Annotated[
        float, Meta(gt=0, description="a request that takes longer fails with deadline_exceeded, seconds")
    ] = 600.0
    abort_deadline_s: Annotated[
        float, Meta(gt=0, description="how long an abort waits for the stages to acknowledge, seconds")
    ] = 5.0
    start_deadline_s: Annotated[
        float, Meta(gt=0, description="how long a stage process may take to become ready, seconds")
    ] = 120.0
    heartbeat_ms: Annotated[
        float, Meta(ge=10, le=5000, description="how often a stage process reports that it lives, milliseconds")
    ] = 100.0
    hang_ms: Annotated[
        float,
        Meta(
            ge=50,
            le=60000,
            description="silence after which a stage process is taken for hung, milliseconds; "
            "on Linux, time in which it waits for a processor does not count",
        ),
    ] = 800.0
    batch_deadline_s: Annotated[
        float,
        Meta(
            gt=0,
            description="a stage whose one batch takes longer counts as hung, "
            "and so does a process that is silent for longer whatever the reason, seconds",
        ),
    ] = 30.0
    restart_wait_s: Annotated[
        float, Meta(ge=0, description="how long a new request waits for a stage that is being restarted, seconds")
    ] = 5.0
    restart_first_s: Annotated[
        float, Meta(ge=0, description="pause before a dead stage process is started again, seconds")
    ] = 0.1
    restart_max_s: Annotated[
        float, Meta(gt=0, description="the pause doubles with each death in a row up to this, seconds")
    ] = 30.0
    inline_bytes: Annotated[
        int, Meta(ge=0, le=1 << 20, description="tensors up to this size ride inside the control message, bytes")
    ] = 1 << 16
    relay_bytes: Annotated[
        int, Meta(ge=1 << 16, le=1 << 30, description="size of one registered receive buffer, bytes")
    ] = 1 << 24

    def __post_init__(self) -> None:
        if self.hang_ms < 3 * self.heartbeat_ms:
            raise ValueError(
                f"hang_ms is {self.hang_ms:g} and heartbeat_ms {self.heartbeat_ms:g}; "
                "hang_ms must be at least three times heartbeat_ms, or one late report counts as a death"
            )
        if self.restart_max_s < self.restart_first_s:
            raise ValueError(
                f"restart_max_s is {self.restart_max_s:g} and restart_first_s {self.restart_first_s:g}; "
                "restart_max_s must be at least restart_first_s"
            )


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The network side."""

    host: Annotated[str, Meta(min_length=1, description="address to listen on; 0.0.0.0 for every interface")] = (
        "127.0.0.1"
    )
    port: Annotated[int, Meta(ge=0, le=65535, description="TCP port; 0 lets the system choose one")] = 8000
    max_sessions: Annotated[
        int, Meta(ge=1, description="conversations at the same time; one more is told to come back later")
    ] = 32
    shutdown_s: Annotated[
        float, Meta(ge=0, le=600, description="how long connections may take to close at the end, seconds")
    ] = 5.0
    api_keys: Annotated[
        str,
        Meta(
            description="keys that clients must send: KEY or NAME=KEY, separated by commas; none: no key is asked for",
            extra={SECRET: True},
        ),
    ] = ""
    api_keys_file: Annotated[str, Meta(min_length=1, description="file with more keys, one a line")] | None = None
    open_to_network: Annotated[
        bool, Meta(description="let everybody in without a key even if other machines can reach the server")
    ] = False
    tls_certificate: (
        Annotated[
            str,
            Meta(min_length=1, description="PEM file with the certificate chain; then the server speaks https and wss"),
        ]
        | None
    ) = None
    tls_key: Annotated[str, Meta(min_length=1, description="PEM file with the certificate's private key")] | None = None
    allowed_origins: Annotated[
        tuple[str, ...],
        Meta(
            description="web pages besides those of this machine that may use the server from a browser, such as "
            "https://app.example.com; * for all"
        ),
    ] = ()

    def __post_init__(self) -> None:
        asks_for_keys = bool(self.api_keys.strip(" ,")) or self.api_keys_file is not None
        if not (asks_for_keys or self.open_to_network or is_loopback(self.host)):
            raise ValueError(
                f"host is '{self.host}', which other machines can reach, and no API key is set; set api_keys or "
                "api_keys_file, listen on 127.0.0.1, or set open_to_network if everybody may use this server"
            )
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key go together: one is set and the other is not")


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only. A name counts if it is ``localhost``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower().rstrip(".") == "localhost"


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be configured, resolved for one pipeline."""

    pipeline: Annotated[str, Meta(description="the pipeline to run: a package of voice_omni.models")]
    processes: dict[str, ProcessSettings]
    stages: dict[str, StageSettings]
    model: (
        Annotated[
            str,
            Meta(
                min_length=1,
                description="the checkpoint to load in place of the pipeline's own: hf:ORG/REPO or a folder",
            ),
        ]
        | None
    ) = None
    limits: LimitSettings = LimitSettings()
    server: ServerSettings = ServerSettings()
    session: SessionOptions = SessionOptions()
    webrtc: WebRtcOptions = WebRtcOptions()

    def process_of(self, stage: str) -> str:
        """The name of the process in which a stage lives."""
        return next(name for name, process in self.processes.items() if stage in process.stages)


def default_scheduler(stage: StageSpec) -> SchedulerOptions:
    return SCHEDULER_OPTIONS[stage.scheduler](**stage.scheduler_defaults)


def default_stage(stage: StageSpec) -> StageSettings:
    return StageSettings(options=stage.options(), scheduler=default_scheduler(stage), credits=stage.credits)


def default_settings(spec: PipelineSpec) -> Settings:
    """The settings that hold where nobody says otherwise: one process per stage, named like it."""
    return Settings(
        pipeline=spec.name,
        processes={stage.name: ProcessSettings(stages=(stage.name,)) for stage in spec.stages},
        stages={stage.name: default_stage(stage) for stage in spec.stages},
    )
