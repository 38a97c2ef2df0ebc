from tests.support.silero import silero

__all__ = ["silero"]
