"""The conversations under way: admission, assembly and draining."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from voice_omni.proto.errors import OmniError
from voice_omni.realtime.connection import PLAIN, Connection
from voice_omni.realtime.core import Facts, RealtimeCore
from voice_omni.realtime.dialect import Dialect
from voice_omni.realtime.errors import ProtocolError
from voice_omni.realtime.settings import CONTRACT_RATES, EXTENDED_RATES, Session
from voice_omni.realtime.transcription_session import transcribing
from voice_omni.server.services import Services
from voice_omni.session.activity import VoiceActivity
from voice_omni.session.fence import EpochFence
from voice_omni.session.hearing import Hearing
from voice_omni.session.outbox import Close, Outbox
from voice_omni.session.parts import SessionParts
from voice_omni.session.session import VoiceSession
from voice_omni.session.track_speaker import SoundSink

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
    def admit(
        self, settings: Session | None = None, connection: Connection = PLAIN, sink: SoundSink | None = None
    ) -> Iterator[tuple[VoiceSession, Outbox]]:
        """A session, counted until the context is left. Raises :class:`OmniError`: ``overloaded``, ``not_ready`` and
        ``server_shutting_down``, all of which pass.

        ``settings``: with which it begins; None for those of the server. ``connection``: what its client asked for when
        it connected. ``sink``: plays the answers' sound out; None if the client does.
        """
        services = self._services
        if self._draining:
            raise OmniError("server_shutting_down", "The server is shutting down.", retryable=True)
        if not services.health()["ready"]:
            raise OmniError("not_ready", "The server is not ready yet.", retryable=True)
        if len(self._outboxes) >= services.max_sessions:
            message = f"The server holds {services.max_sessions} sessions, its maximum. Try again later."
            raise OmniError("overloaded", message, retryable=True)
        fence = EpochFence()
        settings = settings or self._initial()
        if connection.transcription and settings.type != "transcription":
            settings = transcribing(settings)
        dialect = Dialect(beta=connection.beta)
        outbox = Outbox(fence, dialect.outgoing, binary=connection.binary_audio)
        session = self._assemble(settings, connection, fence, outbox, dialect, sink)
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

    def effective(
        self, patch: Mapping[str, Any], connection: Connection = PLAIN, settings: Session | None = None
    ) -> tuple[Session, dict[str, Any]]:
        """The settings of a session that begins with ``patch``, and as its client would be shown them.

        ``connection``: says in which dialect the patch is. Whether the session transcribes only is said by either of
        the two. ``settings``: over which the patch comes; None for those of the server. Raises :class:`ProtocolError`.
        """
        initial = settings or self._initial()
        if connection.transcription or patch.get("type") == "transcription":
            initial = transcribing(initial)
        core = RealtimeCore(initial, self._facts(connection), self._services.ids)
        dialect = Dialect(beta=connection.beta)
        update = msgspec.json.encode({"type": "session.update", "session": patch}).decode()
        understood = dialect.incoming(update)
        answer, *_ = core.receive(understood, beta=dialect.is_beta)
        if not isinstance(answer, dict):
            raise RuntimeError(f"an update was answered by {answer}")
        if answer["type"] == "error":
            error = answer["error"]
            raise ProtocolError(error["code"], error["message"], error["param"])
        [shown] = dialect.outgoing(answer)
        return core.session, shown["session"]

    def _initial(self) -> Session:
        return self._services.options.initial_session(self._services.model.name, self._services.model.voices[0])

    def _facts(self, connection: Connection = PLAIN, *, owns_playback: bool = False) -> Facts:
        services, options = self._services, self._services.options
        return Facts(
            voices=OPENAI_VOICES.union(services.model.voices),
            output_sample_rate=services.client.output_sample_rate,
            expires_at=int(services.wall_clock()) + options.max_duration_s,
            max_buffer_ms=options.max_buffer_ms,
            images=services.model.images,
            owns_playback=owns_playback,
            semantic_vad=services.judge is not None,
            pcm_rates=EXTENDED_RATES if connection.pcm_rates else CONTRACT_RATES,
            binary_audio=connection.binary_audio,
        )

    def _assemble(
        self,
        settings: Session,
        connection: Connection,
        fence: EpochFence,
        outbox: Outbox,
        dialect: Dialect,
        sink: SoundSink | None,
    ) -> VoiceSession:
        services, options = self._services, self._services.options
        detection = settings.audio.input.turn_detection
        parts = SessionParts(
            client=services.client,
            core=RealtimeCore(settings, self._facts(connection, owns_playback=sink is not None), services.ids),
            hearing=Hearing(VoiceActivity(services.silero), services.client.input_sample_rate, detection, options),
            fence=fence,
            outbox=outbox,
            options=options,
            voices=services.model.voices,
            ids=services.ids,
            dialect=dialect,
            judge=services.judge,
            counters=services.counters,
            clock=services.clock,
            include_timings=connection.timings,
            sink=sink,
            transcribes=services.model.transcribes,
        )
        return VoiceSession(parts)
