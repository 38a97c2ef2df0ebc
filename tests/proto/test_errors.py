"""What is said of an unexpected error."""

from __future__ import annotations

from voice_omni.proto.errors import OmniError, as_omni_error, described


def failed() -> Exception:
    try:
        try:
            raise OSError("no such file")
        except OSError as error:
            raise ImportError("could not import a module") from error
    except ImportError as error:
        return error


def test_an_error_is_told_with_what_it_came_of() -> None:
    assert described(failed()) == "ImportError: could not import a module (from OSError: no such file)"
    assert described(OSError("no such file")) == "OSError: no such file"


def test_an_unexpected_error_becomes_an_internal_one() -> None:
    error = as_omni_error(failed())
    assert error.code == "internal_error"
    assert error.info.message == described(failed())


def test_a_known_error_stays_itself() -> None:
    error = OmniError("no_speech", "there was no sound")
    assert as_omni_error(error) is error
