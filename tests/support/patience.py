"""How long tests wait for what must happen. It matters on failure only: on a busy machine everything takes longer."""

from __future__ import annotations

from typing import Final

PATIENCE_S: Final = 120.0
