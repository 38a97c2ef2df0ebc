"""``python -m tests.conformance.server``: the real application as a process of its own, over a scripted pipeline or the
starter pipeline.

It answers on two ports: plain, and with TLS for the clients that insist on it. Once it listens it prints
``{"http": "host:port", "https": "host:port"}``; it ends when its standard input does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette

from tests.conformance.scenario import script
from tests.support.pipelines import patient
from tests.support.scripted import ScriptedClient
from tests.support.serving import serving
from voice_omni.client.interface import VoiceClient
from voice_omni.client.pipeline import PipelineClient
from voice_omni.config.settings import default_settings
from voice_omni.models.starter.pipeline import PIPELINE
from voice_omni.pipeline.launcher import Launcher
from voice_omni.server import ModelCard, Services, create_app
from voice_omni.session.judge import SmartTurnJudge
from voice_omni.session.silero import SileroModel
from voice_omni.session.smart_turn import SmartTurnModel
from voice_omni.session.weights import SILERO_VAD, SMART_TURN
from voice_omni.weights.store import fetch


@asynccontextmanager
async def running(pipeline: str) -> AsyncIterator[tuple[VoiceClient, ModelCard]]:
    if pipeline == "scripted":
        yield ScriptedClient(script), ModelCard("scripted", "answers from a script", ("default",))
        return
    async with Launcher(PIPELINE, patient(default_settings(PIPELINE))) as launched:
        yield PipelineClient.of(launched), ModelCard(PIPELINE.name, PIPELINE.description, PIPELINE.voices)


def application(client: VoiceClient, model: ModelCard) -> Starlette:
    return create_app(
        Services(
            client=client,
            health=lambda: {"ready": True},
            model=model,
            silero=SileroModel(fetch(SILERO_VAD) / SILERO_VAD.files[0]),
            judge=SmartTurnJudge(SmartTurnModel(fetch(SMART_TURN) / SMART_TURN.files[0])),
        )
    )


async def run(certificate: str, key: str, pipeline: str) -> None:
    async with running(pipeline) as (client, model):
        app = application(client, model)
        async with serving(app) as http, serving(app, ssl_certfile=certificate, ssl_keyfile=key) as https:
            sys.stdout.write(json.dumps({"http": http, "https": https}) + "\n")
            sys.stdout.flush()
            await asyncio.to_thread(sys.stdin.read)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("certificate")
    parser.add_argument("key")
    parser.add_argument("--pipeline", choices=("scripted", "starter"), default="scripted")
    args = parser.parse_args()
    asyncio.run(run(args.certificate, args.key, args.pipeline))


if __name__ == "__main__":
    main()
