"""The one error type that crosses process and protocol borders."""

from __future__ import annotations

import logging

import msgspec

logger = logging.getLogger(__name__)


class ErrorInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """A failure as data: what a client is told, what a log line holds and what a control message carries.

    ``code`` is a stable machine-readable word (``stage_died``, ``overloaded``, ``deadline_exceeded``,
    ``invalid_value``, ``no_speech``, ``aborted``, ``internal_error``, ...). ``retryable`` tells whether the same
    request may succeed if it is sent again unchanged.
    """

    code: str
    message: str
    stage: str | None = None
    request_id: str | None = None
    retryable: bool = False
    param: str | None = None


class OmniError(Exception):
    """An expected failure of one request, session or configuration, carrying its :class:`ErrorInfo`."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        stage: str | None = None,
        request_id: str | None = None,
        retryable: bool = False,
        param: str | None = None,
    ) -> None:
        super().__init__(message)
        self.info = ErrorInfo(code, message, stage, request_id, retryable, param)

    @classmethod
    def of(cls, info: ErrorInfo) -> OmniError:
        """Rebuild the exception on the other side of a border."""
        return cls(
            info.code,
            info.message,
            stage=info.stage,
            request_id=info.request_id,
            retryable=info.retryable,
            param=info.param,
        )

    @property
    def code(self) -> str:
        return self.info.code

    def at(self, *, stage: str | None = None, request_id: str | None = None) -> OmniError:
        """The same failure with the stage and the request filled in where they are still unknown."""
        return OmniError.of(
            msgspec.structs.replace(
                self.info,
                stage=self.info.stage or stage,
                request_id=self.info.request_id or request_id,
            )
        )


def described(error: BaseException) -> str:
    """An unexpected error's type and words, and its :func:`origin`."""
    return f"{type(error).__name__}: {error}{origin(error)}"


def origin(error: BaseException) -> str:
    """What an error came of, at the end of its chain of causes, as an addition to its own words: a library that says
    what failed seldom says why. Empty where it has no cause."""
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    return "" if root is error else f" (from {type(root).__name__}: {root})"


def as_omni_error(error: Exception) -> OmniError:
    """An unexpected exception becomes ``internal_error``; its traceback goes to the log, not to the client."""
    if isinstance(error, OmniError):
        return error
    logger.error("an unexpected failure", exc_info=error)
    return OmniError("internal_error", described(error))
