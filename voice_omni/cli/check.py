"""``voice-omni check``: is everything here that a server needs? One line each, with what to do."""

from __future__ import annotations

import argparse

from voice_omni.cli.options import Subparsers, add_settings_arguments, resolve


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("check", help="look for what would keep a server from running here")
    add_settings_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from voice_omni.cli.inspection import inspect

    spec, resolved = resolve(args)
    failed = False
    for finding in inspect(spec, resolved.settings):
        print(finding, flush=True)
        failed = failed or finding.state == "missing"
    return 1 if failed else 0
