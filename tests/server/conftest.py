from tests.support.judge import smart_turn
from tests.support.silero import silero

__all__ = ["silero", "smart_turn"]
