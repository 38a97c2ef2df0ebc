"""``voice-omni say``: speak a text into a sound file."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from voice_omni.cli.options import Subparsers, add_settings_arguments, resolve

if TYPE_CHECKING:
    from voice_omni.audio.pcm import Samples
    from voice_omni.client.interface import Reply


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "say",
        help="speak a text into a sound file",
        description="Starts only the stages that speaking needs, and no server.",
    )
    parser.add_argument("text", help="what to say; '-' reads standard input")
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help="a sound file, in the format that its name ends with; '-' for WAV on standard output",
    )
    parser.add_argument("--voice", help="one of the pipeline's voices")
    parser.add_argument("--speed", type=float, metavar="FACTOR", help="0.25 to 4.0; 1.0 is the voice's own")
    add_settings_arguments(parser)
    parser.set_defaults(run=run)


@dataclass(slots=True)
class _Spoken:
    """The sound of one text and how long it took; seconds."""

    pieces: list[Samples] = field(default_factory=list)
    first: float = 0.0
    whole: float = 0.0


def run(args: argparse.Namespace) -> int:
    import numpy as np

    from voice_omni.cli.sound_output import SoundOutput

    output = SoundOutput.named(args.output, "--output")
    rate, spoken = asyncio.run(_say(args))
    samples = np.concatenate(spoken.pieces) if spoken.pieces else np.zeros(0, np.float32)
    output.write(samples, rate)
    seconds = len(samples) / rate
    factor = f"{spoken.whole / seconds:.3f}" if seconds else "-"
    print(
        f"{seconds:.2f} s of speech in {spoken.whole:.2f} s: real-time factor {factor}, "
        f"first sound after {spoken.first * 1000:.0f} ms",
        file=sys.stderr,
    )
    return 0


async def _say(args: argparse.Namespace) -> tuple[int, _Spoken]:
    from voice_omni.cli.report import show_progress
    from voice_omni.client.interface import GenerateRequest
    from voice_omni.client.pipeline import PipelineClient
    from voice_omni.pipeline.launcher import Launcher
    from voice_omni.pipeline.topology import Topology

    text = sys.stdin.read() if args.text == "-" else args.text
    spec, resolved = resolve(args)
    needed = Topology(spec).stages_of("speak")
    async with Launcher(spec, resolved.settings, stages=needed, on_progress=show_progress) as pipeline:
        request = GenerateRequest(input="speak", text=text, voice=args.voice, speed=args.speed)
        return spec.output_sample_rate, await _collect(await PipelineClient.of(pipeline).open(request))


async def _collect(reply: Reply) -> _Spoken:
    from voice_omni.client.interface import AudioDelta, Failed
    from voice_omni.proto.errors import OmniError

    began = time.monotonic()
    spoken = _Spoken()
    async for event in reply:
        match event:
            case AudioDelta(samples=samples):
                if not spoken.pieces:
                    spoken.first = time.monotonic() - began
                spoken.pieces.append(samples)
            case Failed(error):
                raise OmniError.of(error)
    spoken.whole = time.monotonic() - began
    return spoken
