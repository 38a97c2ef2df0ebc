"""``voice-omni talk``: speak to a server, from a recording or a microphone, and hear it answer."""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from voice_omni.cli.options import Subparsers, add_settings_arguments, resolve

if TYPE_CHECKING:
    from voice_omni.cli.turns import Conversation

_URL: Final = "ws://127.0.0.1:8000"


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "talk",
        help="speak to a server and hear it answer",
        description="Plays a recording to a server in real time (or passes the microphone on), prints what both sides "
        "say as it comes, and then a table of latencies. The exit code is 0 if an answer was heard.",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "source", nargs="?", metavar="SOURCE", help="a sound file, '-' for WAV or raw 24 kHz PCM on stdin, or 'mic'"
    )
    source.add_argument("--demo", action="store_true", help='a bundled recording: "What is the capital of France?"')
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--url", default=_URL, help="the server's address (default: %(default)s)")
    place.add_argument("--serve", action="store_true", help="start a server for this one call")
    parser.add_argument("--save", metavar="FILE", help="write the answers that were heard to a sound file")
    parser.add_argument(
        "--play", action="store_true", help="play the answers aloud, as 'mic' does; needs the extra 'mic'"
    )
    parser.add_argument(
        "--timeout", type=float, default=30.0, metavar="S", help="give up so long after the end of a recording"
    )
    add_settings_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from voice_omni.cli.realtime_client import RATE
    from voice_omni.cli.sound_output import SoundOutput
    from voice_omni.cli.turns import Conversation

    saved = None if args.save is None else SoundOutput.named(args.save, "--save")
    conversation = Conversation()
    asyncio.run(_talk(args, conversation))
    if saved is not None:
        heard = conversation.playback.heard()
        saved.write(heard, RATE)
        print(f"\n{len(heard) / RATE:.1f} s of answers saved to {args.save}")
    _print_tables(conversation)
    if not conversation.answered:
        print("voice-omni: error: no answer came", file=sys.stderr)
    return 0 if conversation.answered else 1


async def _talk(args: argparse.Namespace, conversation: Conversation) -> None:
    from voice_omni.cli.call import call_live, call_with_recording
    from voice_omni.cli.loudspeaker import Loudspeaker
    from voice_omni.cli.realtime_client import open_session
    from voice_omni.cli.serving import serving
    from voice_omni.cli.sound_input import demo_recording, read_recording

    microphone = args.source == "mic"
    recording = None if microphone else read_recording(str(demo_recording()) if args.demo else args.source)
    async with AsyncExitStack() as stack:
        speaker = stack.enter_context(Loudspeaker()) if microphone or args.play else None
        url = args.url
        if args.serve:
            spec, resolved = resolve(args, ["server.port=0"])
            server = await stack.enter_async_context(serving(spec, resolved.settings))
            url = server.url
        client = await stack.enter_async_context(open_session(url))
        if recording is None:
            await call_live(client, conversation, speaker)
        else:
            await call_with_recording(client, conversation, speaker, recording, args.timeout)


def _print_tables(conversation: Conversation) -> None:
    from voice_omni.cli.latency import latency_table, stage_table

    if conversation.turns:
        print(f"\n{latency_table(conversation.turns)}")
    for turn in conversation.turns:
        if turn.timings:
            print(f"\n{stage_table(turn.timings)}")
