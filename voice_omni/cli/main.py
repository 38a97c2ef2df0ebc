"""The command ``voice-omni``: finds the subcommand, and turns its failure into one line and an exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final

from voice_omni import __version__
from voice_omni.cli import check, config, models, say, serve, talk
from voice_omni.proto.errors import OmniError

_COMMANDS: Final = (serve, talk, say, models, config, check)

FAILED: Final = 1
INTERRUPTED: Final = 130
"""128 + SIGINT, as shells have it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns its exit code: 0 for success, 1 for a failure, 2 for wrong usage."""
    args = parser().parse_args(arguments)
    try:
        return int(args.run(args))
    except OmniError as error:
        print(f"voice-omni: error: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe (`| head`) has gone. The interpreter would complain once more when it flushes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(prog="voice-omni", description="A real-time voice agent server.")
    root.add_argument("--version", action="version", version=f"voice-omni {__version__}")
    subparsers = root.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_parser(subparsers)
    return root


if __name__ == "__main__":
    sys.exit(main())
