"""The arguments that several commands share, and what they resolve to."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from voice_omni.config import Resolved
    from voice_omni.pipeline.spec import PipelineSpec

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_settings_arguments(parser: argparse.ArgumentParser) -> None:
    """``--config FILE`` and ``--set KEY=VALUE``."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="a YAML file of settings; see 'voice-omni config'")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="overrides",
        metavar="KEY=VALUE",
        help="override one setting, such as stages.thinker.options.temperature=0.2; may be repeated",
    )


def resolve(args: argparse.Namespace, more: Sequence[str] = ()) -> tuple[PipelineSpec, Resolved]:
    """The pipeline that the arguments ask for and its settings; ``more`` overrides come after those of the user.

    Raises :class:`~voice_omni.proto.errors.OmniError` ``invalid_config`` or ``unknown_pipeline``.
    """
    from voice_omni.config import load, pipeline_name
    from voice_omni.models import registry

    overrides = [*args.overrides, *more]
    spec = registry.get(pipeline_name(args.config, overrides, os.environ))
    return spec, load(spec, args.config, overrides, os.environ)
