"""The conversations under way: admission, assembly and draining."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from voice_omni.proto.errors import OmniError
from voice_omni.realtime.core import Facts, RealtimeCore
from voice_omni.server.services import Services
from voice_omni.session.activity import VoiceActivity
from voice_omni.session.fence import EpochFence
from voice_omni.session.hearing import Hearing
from voice_omni.session.outbox import Close, Outbox
from voice_omni.session.session import SessionParts, VoiceSession

OPENAI_VOICES: Final = frozenset(
    {"alloy", "ash", "ballad", "cedar", "coral", "echo", "marin", "sage", "shimmer", "verse"}
)
"""Names that unmodified clients ask for; here they stand for the pipeline's default voice."""


class Sessions:
    """Who talks at present."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._outboxes: set[Outbox] = set()
        self._draining = False

    def __len__(self) -> int:
        return len(self._outboxes)

    @contextmanager
    def admit(self, *, include_timings: bool) -> Iterator[tuple[VoiceSession, Outbox]]:
        """A session, counted until the context is left. Raises :class:`OmniError` ``overloaded``."""
        services = self._services
        if self._draining:
            raise OmniError("overloaded", "The server is shutting down.", retryable=True)
        if not services.health()["ready"]:
            raise OmniError("overloaded", "The server is not ready yet.", retryable=True)
        if len(self._outboxes) >= services.max_sessions:
            message = f"The server holds {services.max_sessions} sessions, its maximum. Try again later."
            raise OmniError("overloaded", message, retryable=True)
        fence = EpochFence()
        outbox = Outbox(fence)
        session = self._assemble(fence, outbox, include_timings)
        self._outboxes.add(outbox)
        try:
            yield session, outbox
        finally:
            self._outboxes.discard(outbox)

    def drain(self) -> None:
        """Admit nobody any more, and ask everybody to leave and come back elsewhere."""
        self._draining = True
        for outbox in self._outboxes:
            outbox.close(Close(1001, "the server is going away"))

    def _assemble(self, fence: EpochFence, outbox: Outbox, include_timings: bool) -> VoiceSession:
        services, options = self._services, self._services.options
        settings = options.initial_session(services.model.name, services.model.voices[0])
        facts = Facts(
            voices=OPENAI_VOICES.union(services.model.voices),
            output_sample_rate=services.client.output_sample_rate,
            expires_at=int(services.wall_clock()) + options.max_duration_s,
            max_buffer_ms=options.max_buffer_ms,
        )
        detection = settings.audio.input.turn_detection
        parts = SessionParts(
            client=services.client,
            core=RealtimeCore(settings, facts, services.ids),
            hearing=Hearing(VoiceActivity(services.silero), services.client.input_sample_rate, detection, options),
            fence=fence,
            outbox=outbox,
            options=options,
            voices=services.model.voices,
            ids=services.ids,
            clock=services.clock,
            include_timings=include_timings,
        )
        return VoiceSession(parts)
