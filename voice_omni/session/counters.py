"""What happened to turns in all sessions together, for ``/health``."""

from __future__ import annotations

import msgspec


class TurnCounters(msgspec.Struct):
    """Only ever grows. Belongs to the event loop on which all sessions run."""

    turns: int = 0
    """Turns that became items of a conversation."""
    wordless: int = 0
    """Turns that were dropped because no words were in them."""
    interruptions: int = 0
    """Answers that a person's speech ended."""
    false_interruptions: int = 0
    """Answers that were held for speech, or stopped before their first sound, and then went on or were made again."""
    echoes: int = 0
    """Turns that were dropped because they repeated what was just being spoken."""
    idle_timeouts: int = 0
    stalls: int = 0
    """Times that the sound stopped coming in the middle of a turn."""
    recoveries: int = 0
    """Times that it came again."""
    unjudged: int = 0
    """Pauses that the end-of-turn model did not judge in time."""
