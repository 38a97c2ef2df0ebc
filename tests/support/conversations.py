"""What is said in whole sessions, and the settings that are asked for there."""

from __future__ import annotations

from tests.support.scripted import Script, ScriptedClient
from tests.support.speech import recording
from tests.support.talk import RATE, Talk, quiet
from voice_omni.audio.pcm import Samples
from voice_omni.client.interface import GenerateRequest

STORY = "Once upon a time there was a cat who lived by the sea and who was not afraid of any dog or of the rain."


def question(name: str = "question-10") -> Samples:
    """A short question with 0.2 s of quiet before and after it."""
    each = recording(name)
    return each.samples(RATE)[int((each.speech_start - 0.2) * RATE) : int((each.speech_end + 0.2) * RATE)]


def transcribing() -> dict[str, object]:
    return {"audio": {"input": {"transcription": {"model": "any"}}}}


def manual() -> dict[str, object]:
    return {"audio": {"input": {"turn_detection": None}}}


def semantic(eagerness: str = "auto") -> dict[str, object]:
    return {"audio": {"input": {"turn_detection": {"type": "semantic_vad", "eagerness": eagerness}}}}


def spoken(*transcripts: str, answer: str = STORY) -> ScriptedClient:
    """The first turn is understood as the first of ``transcripts``, and so on; the last holds for all others.

    Replies to one utterance are one turn's, however often they are begun anew.
    """

    def script(request: GenerateRequest, _: int) -> Script:
        turn = int(request.utterance_id.removeprefix("utt_")) if request.utterance_id is not None else 1
        text = transcripts[min(turn, len(transcripts)) - 1]
        return Script(transcript=text, silent=not text, answer=answer, word_seconds=0.5)

    return ScriptedClient(script)


async def asked(talk: Talk) -> None:
    """Ask a question, and listen to the first second of the answer."""
    await talk.say(question(), quiet(0.6))
    await talk.until("response.output_audio.delta")
    await talk.say(quiet(1.0))
