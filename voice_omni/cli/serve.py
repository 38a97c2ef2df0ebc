"""``voice-omni serve``: run the server."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from typing import TYPE_CHECKING

from voice_omni.cli.options import Subparsers, add_settings_arguments, resolve

if TYPE_CHECKING:
    from voice_omni.config import Settings
    from voice_omni.pipeline.spec import PipelineSpec


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("serve", help="run the server")
    parser.add_argument("--host", help="address to listen on (short for --set server.host=...)")
    parser.add_argument("--port", help="TCP port; 0 lets the system choose (short for --set server.port=...)")
    parser.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), default="warning", help="default: %(default)s"
    )
    add_settings_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    logging.basicConfig(level=args.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    short = {"server.host": args.host, "server.port": args.port}
    spec, resolved = resolve(args, [f"{key}={value}" for key, value in short.items() if value is not None])
    asyncio.run(serve_until_signal(spec, resolved.settings))
    return 0


async def serve_until_signal(spec: PipelineSpec, settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM, which are a normal end."""
    from voice_omni.cli.report import summary
    from voice_omni.cli.serving import serving

    # A signal may come while models load: cancelling unwinds whatever has been started so far. A second one cuts the
    # unwinding short; the stage processes end by themselves when this one is gone.
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel if task is not None else loop.stop)
    try:
        async with serving(spec, settings) as server:
            # The memory of a stage process comes with its heartbeat; the last one was sent while it still loaded.
            await asyncio.sleep(2 * settings.limits.heartbeat_ms / 1000)
            print(summary(spec, settings, server.pipeline.health(), server.url), flush=True)
            await server.wait()
    except asyncio.CancelledError:
        print("stopped", file=sys.stderr)
