"""Settings that hold for every test."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How long an example takes says something about the machine and who else uses it, not about the code.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
