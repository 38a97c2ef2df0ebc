"""Finds the model packages: each package below ``voice_omni.models`` with a ``pipeline`` module is one.

``pipeline.py`` holds ``PIPELINE``, a :class:`~voice_omni.pipeline.spec.PipelineSpec`, and ``weights.py``, if it is
there, ``WEIGHTS``, a tuple of :class:`~voice_omni.weights.declaration.Weights`. Both are data: to import them loads no
model.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from typing import Any

from voice_omni import models
from voice_omni.pipeline.spec import PipelineSpec
from voice_omni.proto.errors import OmniError
from voice_omni.weights.declaration import Weights


def pipelines() -> dict[str, PipelineSpec]:
    """Every model's pipeline by its name."""
    specs: list[PipelineSpec] = _declared("pipeline", "PIPELINE")
    return {spec.name: spec for spec in specs}


def get(name: str) -> PipelineSpec:
    """One pipeline. Raises ``unknown_pipeline``, which names those that exist."""
    known = pipelines()
    if name not in known:
        raise OmniError(
            "unknown_pipeline", f"there is no pipeline {name!r}; there are: {', '.join(known)}", param="pipeline"
        )
    return known[name]


def weights() -> dict[str, Weights]:
    """All weights that model packages declare, by their names."""
    groups: list[tuple[Weights, ...]] = _declared("weights", "WEIGHTS")
    return {each.name: each for group in groups for each in group}


def weights_of(spec: PipelineSpec) -> tuple[Weights, ...]:
    """The weights that a pipeline names. Raises KeyError if no model package declares one of them."""
    declared = weights()
    return tuple(declared[name] for name in spec.weights)


def _declared(module: str, attribute: str) -> list[Any]:
    """The attribute of this module in each package that has the module, in the order of the packages' names."""
    packages = sorted(f"{models.__name__}.{info.name}" for info in pkgutil.iter_modules(models.__path__) if info.ispkg)
    names = (f"{package}.{module}" for package in packages)
    return [getattr(importlib.import_module(name), attribute) for name in names if importlib.util.find_spec(name)]
