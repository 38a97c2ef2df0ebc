"""Server events against the types of the stock client, for both dialects."""

from __future__ import annotations

import importlib
import json
import pkgutil
from types import ModuleType
from typing import Any, get_args

import openai.types.beta.realtime
import openai.types.realtime
from pydantic import BaseModel


def _event_types(package: ModuleType) -> dict[str, type[BaseModel]]:
    """Event classes by the one value of their ``type`` field."""
    found: dict[str, type[BaseModel]] = {}
    for module in pkgutil.iter_modules(package.__path__):
        if module.name.endswith("_param") or module.name.endswith("_params"):
            continue
        for each in vars(importlib.import_module(f"{package.__name__}.{module.name}")).values():
            if (
                isinstance(each, type)
                and issubclass(each, BaseModel)
                and {"type", "event_id"} <= each.model_fields.keys()
            ):
                for name in get_args(each.model_fields["type"].annotation):
                    found[name] = each
    return found


_GA = _event_types(openai.types.realtime)
_BETA = _event_types(openai.types.beta.realtime)
_SESSION_FACTS = {"id", "object", "expires_at"}
"""What a session holds beside its settings. The types of its events describe only what a client may set."""


def check(event: dict[str, Any], *, beta: bool = False) -> None:
    """Fails unless the stock client knows the event, with these types, and every field of it."""
    kinds = _BETA if beta else _GA
    if event["type"] not in kinds:
        raise AssertionError(f"the {'beta' if beta else 'GA'} types have no event '{event['type']}'")
    if beta and event["type"].startswith(("session.", "transcription_session.")):
        # The stock type knows OpenAI's own models only.
        event = {**event, "session": {name: value for name, value in event["session"].items() if name != "model"}}
    _check_known(kinds[event["type"]].model_validate_json(json.dumps(event), strict=True), event["type"])


def _check_known(value: Any, path: str) -> None:
    if isinstance(value, BaseModel):
        extra = value.model_extra or {}
        unknown = [name for name in extra if not (path.endswith(".session") and name in _SESSION_FACTS)]
        if unknown:
            raise AssertionError(f"{path} has fields that the stock client does not know: {unknown}")
        for name in value.model_fields_set:
            _check_known(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, list):
        for index, each in enumerate(value):
            _check_known(each, f"{path}[{index}]")
