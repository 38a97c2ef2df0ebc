"""The HTTP side: one application, one small module for each family of routes."""

from voice_omni.server.app import create_app
from voice_omni.server.auth import Access
from voice_omni.server.services import ModelCard, Services

__all__ = ["Access", "ModelCard", "Services", "create_app"]
