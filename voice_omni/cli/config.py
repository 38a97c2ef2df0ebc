"""``voice-omni config``: what is configured, what it means and who said so."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from voice_omni.cli.options import Subparsers, add_settings_arguments, resolve
from voice_omni.cli.table import short, table

if TYPE_CHECKING:
    from voice_omni.config import Value


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("config", help="explain or check the configuration")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    explain = actions.add_parser("explain", help="list every value, its meaning and where it came from")
    explain.add_argument("prefix", nargs="?", default="", metavar="KEY", help="only values below this key")
    add_settings_arguments(explain)
    explain.set_defaults(run=run_explain)

    check = actions.add_parser("check", help="say whether the configuration is right, and if not, what is wrong")
    add_settings_arguments(check)
    check.set_defaults(run=run_check)

    reference = actions.add_parser("reference", help="print the reference of all settings as Markdown")
    reference.add_argument("pipeline", nargs="?", default="starter", help="default: %(default)s")
    reference.set_defaults(run=run_reference)


def run_explain(args: argparse.Namespace) -> int:
    from voice_omni.proto.errors import OmniError

    _, resolved = resolve(args)
    chosen = [value for value in resolved.values if _below(value.key, args.prefix)]
    if not chosen:
        raise OmniError("invalid_value", f"there is no value below '{args.prefix}'", param="KEY")
    print(explained(chosen))
    return 0


def run_check(args: argparse.Namespace) -> int:
    spec, resolved = resolve(args)
    said = sum(value.origin.kind != "default" for value in resolved.values)
    processes = ", ".join(
        f"{name}{f' x{process.replicas}' if process.replicas > 1 else ''} ({' '.join(process.stages)})"
        for name, process in resolved.settings.processes.items()
    )
    print(f"valid: pipeline {spec.name}; {said} of {len(resolved.values)} values set; processes {processes}")
    return 0


def run_reference(args: argparse.Namespace) -> int:
    from voice_omni.config.reference import reference
    from voice_omni.models import registry

    print(reference(registry.get(args.pipeline)), end="")
    return 0


def explained(values: Iterable[Value]) -> str:
    """The table of ``config explain``."""
    from voice_omni.config.yaml_text import written

    rows = [("KEY", "VALUE", "FROM", "MEANING")]
    rows += [(value.key, short(written(value.value), 40), str(value.origin), value.meaning) for value in values]
    return table(rows)


def _below(key: str, prefix: str) -> bool:
    return not prefix or key == prefix or key.startswith(f"{prefix}.")
