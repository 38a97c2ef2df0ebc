"""Configuration: what can be set, where each value came from, and errors that say what would be right."""

from voice_omni.config.load import Resolved, Value, load, pipeline_name
from voice_omni.config.settings import (
    LimitSettings,
    ProcessSettings,
    ServerSettings,
    Settings,
    StageSettings,
    default_settings,
)
from voice_omni.config.sources import Origin

__all__ = [
    "LimitSettings",
    "Origin",
    "ProcessSettings",
    "Resolved",
    "ServerSettings",
    "Settings",
    "StageSettings",
    "Value",
    "default_settings",
    "load",
    "pipeline_name",
]
