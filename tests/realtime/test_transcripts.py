"""Words are told as deltas once two hypotheses agree on them; what was told is never taken back."""

from __future__ import annotations

from tests.support.talk import counting_ids
from voice_omni.proto.errors import ErrorInfo
from voice_omni.realtime.events import EventWriter
from voice_omni.realtime.transcripts import Transcripts

KIND = "conversation.item.input_audio_transcription"


def told(*hypotheses: str, final: str) -> tuple[list[str], str]:
    """The deltas and the transcript at the end."""
    transcripts = Transcripts(EventWriter(counting_ids()))
    events = [event for text in hypotheses for event in transcripts.partial("i", text)]
    events += transcripts.complete("i", final, 1.0)
    *deltas, completed = events
    assert completed["type"] == f"{KIND}.completed"
    assert {event["type"] for event in deltas} <= {f"{KIND}.delta"}
    return [event["delta"] for event in deltas], completed["transcript"]


def test_what_only_grows_is_told_as_it_grows() -> None:
    deltas, final = told("one two", "one two three", "one two three four", final="one two three four")
    assert deltas == ["one two", " three", " four"]
    assert final == "one two three four"


def test_a_word_that_changes_is_told_when_it_has_settled() -> None:
    assert told("one too", "one two", "one two three", final="one two three")[0] == ["one", " two", " three"]
    assert told("I can", "I can't swim", "I can't swim.", final="I can't swim.")[0] == ["I", " can't", " swim."]


def test_what_was_told_is_not_repeated_when_the_end_differs() -> None:
    deltas, final = told("one two", "one two", final="won too")
    assert (deltas, final) == (["one two"], "won too")


def test_without_hypotheses_all_is_told_at_the_end() -> None:
    assert told(final="Hello there.") == (["Hello there."], "Hello there.")
    assert told(final="") == ([], "")


def test_each_item_has_words_of_its_own() -> None:
    transcripts = Transcripts(EventWriter(counting_ids()))
    transcripts.partial("a", "one")
    assert transcripts.partial("b", "one") == []
    [failed] = transcripts.fail("a", ErrorInfo("stage_died", "the recogniser died"))
    assert (failed["type"], failed["item_id"], failed["error"]["code"]) == (f"{KIND}.failed", "a", "stage_died")
    assert transcripts.partial("a", "one") == []
