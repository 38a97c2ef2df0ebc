"""The labelled recordings, and sounds that are no speech."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import soundfile
import soxr

from voice_omni.audio.pcm import Samples

FOLDER = Path(__file__).parents[1] / "data" / "speech"


@dataclass(frozen=True)
class Recording:
    name: str
    text: str
    rate: int
    speech_start: float
    speech_end: float

    def samples(self, rate: int) -> Samples:
        samples, own = soundfile.read(FOLDER / self.name, dtype="float32")
        return samples if own == rate else soxr.resample(samples, own, rate)


@cache
def recordings() -> tuple[Recording, ...]:
    entries = [json.loads(line) for line in (FOLDER / "manifest.jsonl").read_text().splitlines()]
    return tuple(
        Recording(entry["file"], entry["text"], entry["rate"], entry["speech_start"], entry["speech_end"])
        for entry in entries
    )


def recording(name: str) -> Recording:
    return next(each for each in recordings() if each.name.startswith(name))
