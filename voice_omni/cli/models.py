"""``voice-omni models``: which weights there are, and getting and checking them."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from voice_omni.cli.options import Subparsers
from voice_omni.cli.table import table

if TYPE_CHECKING:
    from voice_omni.weights import Weights

_SESSION = "session"
"""The name for what every pipeline needs, beside the names of the pipelines."""


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("models", help="list, fetch or verify model weights")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    listing = actions.add_parser("list", help="list the pipelines and their weights")
    listing.set_defaults(run=run_list)

    fetching = actions.add_parser("fetch", help="fetch weights into the cache")
    fetching.add_argument(
        "names", nargs="*", metavar="NAME", help="weights or a pipeline; by default what 'serve' needs"
    )
    fetching.add_argument("--force", action="store_true", help="fetch again what is in the cache already")
    fetching.set_defaults(run=run_fetch)

    verifying = actions.add_parser("verify", help="read cached weights again and compare them with their SHA-256")
    verifying.add_argument("names", nargs="*", metavar="NAME", help="weights or a pipeline; by default all cached ones")
    verifying.set_defaults(run=run_verify)


def run_list(args: argparse.Namespace) -> int:
    from voice_omni.models import registry
    from voice_omni.weights.cache import cache_root
    from voice_omni.weights.store import cached

    descriptions = {name: spec.description for name, spec in registry.pipelines().items()}
    descriptions[_SESSION] = "used by every pipeline: voice activity and end of turn"
    for group, members in _groups().items():
        rows = [("WEIGHTS", "SIZE", "CACHED", "LICENCE", "SOURCE", "CONTENT")]
        rows += [
            (
                each.name,
                f"{each.size / 1e6:.1f} MB",
                "yes" if cached(each) else "no",
                each.licence,
                each.source,
                each.description,
            )
            for each in members
        ]
        print(f"{group}: {descriptions[group]}\n{table(rows, right=frozenset({1}))}\n")
    print(f"cache: {cache_root()}")
    return 0


def run_fetch(args: argparse.Namespace) -> int:
    from voice_omni.config import pipeline_name
    from voice_omni.weights.store import fetch, refetch

    for each in _chosen(args.names or [pipeline_name(None, (), os.environ), _SESSION]):
        folder = refetch(each) if args.force else fetch(each)
        print(f"{each.name}: {folder}")
    return 0


def run_verify(args: argparse.Namespace) -> int:
    from voice_omni.weights.store import cached, damage

    damaged = 0
    for each in _chosen(args.names or list(_groups())):
        if not cached(each):
            print(f"{each.name}: not cached")
        elif lines := damage(each):
            damaged += 1
            print(f"{each.name}: DAMAGED", *lines, sep="\n  ")
        else:
            print(f"{each.name}: good")
    if damaged:
        print("Run 'voice-omni models fetch --force NAME' to replace what is damaged.")
    return 1 if damaged else 0


def _groups() -> dict[str, tuple[Weights, ...]]:
    """The weights of each pipeline, and those of the session layer."""
    from voice_omni.models import registry
    from voice_omni.session.weights import WEIGHTS

    pipelines = registry.pipelines()
    return {**{name: registry.weights_of(spec) for name, spec in pipelines.items()}, _SESSION: WEIGHTS}


def _chosen(names: list[str]) -> list[Weights]:
    """What the names on the command line mean, each once. Raises ``invalid_value`` for an unknown name."""
    from voice_omni.proto.errors import OmniError

    groups = _groups()
    by_name = {each.name: each for members in groups.values() for each in members}
    chosen: dict[str, Weights] = {}
    for name in names:
        if name not in groups and name not in by_name:
            known = ", ".join([*groups, *by_name])
            raise OmniError("invalid_value", f"there are no weights {name!r}; there are: {known}", param="NAME")
        for each in groups.get(name) or (by_name[name],):
            chosen[each.name] = each
    return list(chosen.values())
