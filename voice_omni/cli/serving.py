"""A running server: the pipeline, the application over it, and the socket in front."""

from __future__ import annotations

import asyncio
import logging
import math
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn

from voice_omni.cli.listener import bind, url_of
from voice_omni.cli.open_files import connections_for, free_files
from voice_omni.cli.report import show_progress
from voice_omni.client.pipeline import PipelineClient
from voice_omni.config import Settings
from voice_omni.config.settings import ServerSettings
from voice_omni.pipeline.launcher import Launcher
from voice_omni.pipeline.spec import PipelineSpec
from voice_omni.proto.errors import OmniError
from voice_omni.server import Access, ModelCard, Services, create_app
from voice_omni.server.auth_keys import load_keys
from voice_omni.session.judge import SmartTurnJudge, TurnJudge
from voice_omni.session.silero import SileroModel
from voice_omni.session.smart_turn import SmartTurnModel
from voice_omni.session.weights import SILERO_VAD, SMART_TURN
from voice_omni.transports.websocket import UVICORN_OPTIONS
from voice_omni.weights.store import fetch

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that accepts sessions. ``url``: ``http://host:port``, or https."""

    url: str
    pipeline: Launcher
    task: asyncio.Task[None]

    async def wait(self) -> None:
        """Returns when the server ends by itself, which it does only when it fails."""
        await asyncio.shield(self.task)


@asynccontextmanager
async def serving(spec: PipelineSpec, settings: Settings) -> AsyncIterator[Serving]:
    """Take the port, start the pipeline and serve until the context is left.

    Open sessions are then told to leave, and their connections have ``server.shutdown_s`` to close. Raises
    :class:`OmniError`: ``port_in_use``, ``invalid_config``, and what keeps a stage from starting.
    """
    access = Access(load_keys(settings.server.api_keys, settings.server.api_keys_file), settings.server.allowed_origins)
    tls = _tls(settings.server)
    with bind(settings.server.host, settings.server.port) as listener:
        silero = await asyncio.to_thread(_load_voice_activity)
        judge = await asyncio.to_thread(_load_judge, settings.session.turn_detection == "semantic_vad")
        async with Launcher(spec, settings, on_progress=show_progress) as pipeline:
            app = create_app(_services(spec, settings, pipeline, silero, judge, access))
            connections = connections_for(free_files())
            server = _Server(
                uvicorn.Config(
                    app,
                    **UVICORN_OPTIONS,
                    **tls,
                    log_config=None,
                    access_log=False,
                    limit_concurrency=connections.most,
                    backlog=connections.at_once,
                    timeout_graceful_shutdown=math.ceil(settings.server.shutdown_s),
                )
            )
            task = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                yield Serving(url_of(listener, "https" if tls else "http"), pipeline, task)
            finally:
                app.state.sessions.drain()
                server.should_exit = True
                await task
                if judge is not None:
                    judge.close()


def _tls(server: ServerSettings) -> dict[str, Any]:
    """uvicorn's options for TLS; none without a certificate. Raises :class:`OmniError` ``invalid_config``."""
    if server.tls_certificate is None or server.tls_key is None:
        return {}
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(server.tls_certificate, server.tls_key)
    except OSError as error:  # ssl.SSLError is one
        reason = f"server.tls_certificate and server.tls_key are no usable pair: {error}"
        raise OmniError("invalid_config", reason, param="server.tls_certificate") from error
    return {"ssl_certfile": server.tls_certificate, "ssl_keyfile": server.tls_key}


def _load_voice_activity() -> SileroModel:
    return SileroModel(fetch(SILERO_VAD) / SILERO_VAD.files[0])


def _load_judge(required: bool) -> SmartTurnJudge | None:
    """Without it the server can do everything but ``semantic_vad``, so its absence only matters where that is set."""
    try:
        return SmartTurnJudge(SmartTurnModel(fetch(SMART_TURN) / SMART_TURN.files[0]))
    except OmniError as error:
        if required:
            raise
        _log.warning("semantic_vad is not available: %s", error)
        return None


def _services(
    spec: PipelineSpec,
    settings: Settings,
    pipeline: Launcher,
    silero: SileroModel,
    judge: TurnJudge | None,
    access: Access,
) -> Services:
    return Services(
        client=PipelineClient.of(pipeline),
        health=pipeline.health,
        model=ModelCard(
            spec.name,
            spec.description,
            spec.voices,
            created=int(time.time()),
            images=spec.images,
            transcribes=spec.transcribes,
        ),
        silero=silero,
        judge=judge,
        options=settings.session,
        max_sessions=settings.server.max_sessions,
        access=access,
        webrtc=settings.webrtc,
    )


class _Server(uvicorn.Server):
    """Leaves the signals to the command, which may have more to stop than a server."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
