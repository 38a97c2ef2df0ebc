"""The whole pipeline on a tiny checkpoint, and the published implementation asked the same."""

from __future__ import annotations

import asyncio
import shutil
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import WhisperFeatureExtractor
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from tests.models.qwen3_omni.oracle import Case
from tests.support.pipelines import held, patient
from voice_omni.config.settings import ProcessSettings, Settings, default_settings
from voice_omni.models.qwen3_omni.audio_tower import row_count
from voice_omni.models.qwen3_omni.config import OmniConfig
from voice_omni.models.qwen3_omni.media import FilmSettings, MediaLimits, decode_film, decode_picture, decode_sound
from voice_omni.models.qwen3_omni.options import PreprocessOptions
from voice_omni.models.qwen3_omni.patches import Grid, PatchSettings, patchify
from voice_omni.models.qwen3_omni.pipeline import PIPELINE
from voice_omni.models.qwen3_omni.placeholders import Film, Medium, Picture, Sound
from voice_omni.models.qwen3_omni.prompt import PromptWriter
from voice_omni.models.qwen3_omni.talker_runner import TalkerRunner
from voice_omni.models.qwen3_omni.thinker_runner import ThinkerRunner
from voice_omni.pipeline.coordinator import RequestHandle
from voice_omni.pipeline.launcher import Launcher
from voice_omni.proto.payload import Data, OmniRequest

STAGES: Final = tuple(stage.name for stage in PIPELINE.stages)
INLINE: Final = {"all": ProcessSettings(stages=STAGES, inline=True, threads=1)}
EXTRACTOR: Final = WhisperFeatureExtractor(feature_size=128)
PICTURES: Final = Qwen2VLImageProcessorPil(patch_size=16, image_mean=[0.5] * 3, image_std=[0.5] * 3)
GREEDY: Final = {"thinker": {"max_new_tokens": 12}, "talker": {"temperature": 0.0, "max_new_tokens": 20}}


@dataclass(frozen=True)
class Question:
    """What is asked: messages as of :mod:`voice_omni.proto.vocabulary`, and perhaps a sound behind them."""

    messages: Sequence[Data] = ()
    sound: np.ndarray[Any, Any] | None = None
    following: Sequence[Data] = ()
    params: Data = field(default_factory=dict)
    tools: Sequence[Data] = ()

    def request(self, name: str, route: str | None = None, session: str | None = None) -> OmniRequest:
        inputs: Data = {"messages": list(self.messages), "following": list(self.following)}
        if self.tools:
            inputs |= {"tools": list(self.tools), "tool_choice": "auto"}
        route = route or ("text" if self.sound is None else "speech")
        return OmniRequest(request_id=name, route=route, inputs=inputs, params=self.params, session_id=session)


def settings(model: Path, options: Data | None = None, processes: Any = INLINE, **more: Any) -> Settings:
    """``options``: of stages, over :data:`GREEDY`; ``more``: of the schedulers of all stages that know them."""
    wanted = {name: {**GREEDY.get(name, {}), **(options or {}).get(name, {})} for name in STAGES}
    base = patient(default_settings(PIPELINE))
    stages = {}
    for name, stage in base.stages.items():
        known = {key: value for key, value in more.items() if key in stage.scheduler.__struct_fields__}
        stages[name] = msgspec.structs.replace(
            stage,
            options=msgspec.structs.replace(stage.options, **wanted[name]),
            scheduler=msgspec.structs.replace(stage.scheduler, **known),
        )
    return msgspec.structs.replace(base, model=str(model), stages=stages, processes=dict(processes))


@dataclass
class Said:
    """What came of one request: what a client sees, and the tokens and codec frames behind it."""

    text: str = ""
    calls: list[Data] = field(default_factory=list)
    transcripts: list[Data] = field(default_factory=list)
    pieces: list[np.ndarray[Any, Any]] = field(default_factory=list)
    results: dict[str, Data] = field(default_factory=dict)

    @property
    def samples(self) -> np.ndarray[Any, Any]:
        return np.concatenate([np.zeros(0, np.float32), *self.pieces])


@contextmanager
def observed() -> Iterator[tuple[dict[str, list[int]], dict[str, list[list[int]]]]]:
    """The tokens and the frames of each request of inline stages, by its id."""
    tokens: dict[str, list[int]] = defaultdict(list)
    frames: dict[str, list[list[int]]] = defaultdict(list)
    think, talk = ThinkerRunner.advance, TalkerRunner.advance

    def thinking(self: Any, state: Any, output: Any) -> Any:
        tokens[output.row_id] += output.tokens
        return think(self, state, output)

    def talking(self: Any, state: Any, output: Any) -> Any:
        frames[output.row_id] += output.frames
        return talk(self, state, output)

    ThinkerRunner.advance, TalkerRunner.advance = thinking, talking  # type: ignore[method-assign]
    try:
        yield tokens, frames
    finally:
        ThinkerRunner.advance, TalkerRunner.advance = think, talk  # type: ignore[method-assign]


@asynccontextmanager
async def launched(settings: Settings, run_base: Path) -> AsyncIterator[Launcher]:
    """A running pipeline that must hold nothing in the end."""
    async with Launcher(PIPELINE, settings, run_base=run_base) as pipeline:
        yield pipeline
        async with asyncio.timeout(20):
            while held(pipeline):
                await asyncio.sleep(0.01)


async def collect(handle: RequestHandle) -> Said:
    said = Said()
    async for output in handle:
        data = output.data
        said.text += data.get("text", "")
        if "audio" in data:
            said.pieces.append(data["audio"])
        if "tool_call" in data:
            said.calls.append(data["tool_call"])
        if "transcript" in data:
            said.transcripts.append(data)
    said.results = dict(handle.record.results)
    return said


async def ask(
    pipeline: Launcher,
    question: Question,
    name: str = "r",
    cuts: Sequence[int] = (),
    route: str | None = None,
    session: str | None = None,
) -> Said:
    """``cuts``: where the sound is cut into chunks."""
    handle = await pipeline.coordinator.submit(question.request(name, route, session))
    collecting = asyncio.create_task(collect(handle))
    if question.sound is not None:
        for part in np.split(question.sound, sorted(cuts)):
            await handle.append({"audio": part})
    await handle.end_input()
    return await collecting


class Asker:
    """Puts questions to the oracle."""

    def __init__(self, folder: Path, config: OmniConfig) -> None:
        self._writer = PromptWriter.load(folder, config)
        self._patches = PatchSettings.load(folder, config.thinker.vision)

    def spoken(self) -> Case:
        """What stands before a text that is only spoken."""
        return Case(self._writer.write([{"role": "user", "content": PreprocessOptions().speak_prompt}]).tokens)

    def case(self, question: Question) -> Case:
        """With the published extractors; only the decoding of files and the text of the prompt are ours."""
        sounds: list[np.ndarray[Any, Any]] = []
        media: list[Medium] = []
        pictures: list[Any] = []
        films: list[tuple[np.ndarray[Any, Any], Grid, float]] = []
        messages = [{"role": "system", "content": PreprocessOptions().system_prompt}, *question.messages]
        if question.sound is not None:
            messages.append({"role": "user", "content": "", "audios": [question.sound]})
        messages += question.following
        limits = MediaLimits()
        for message in messages:
            for source in message.get("audios", ()):
                sound = source if isinstance(source, np.ndarray) else decode_sound(source, limits)
                sounds.append(sound)
                media.append(Sound(row_count(len(sound) // 160)))
            for source in message.get("images", ()):
                seen = PICTURES(decode_picture(source, limits), return_tensors="pt")
                pictures.append(seen)
                media.append(Picture(Grid(*seen["image_grid_thw"][0].tolist())))
            for source in message.get("videos", ()):
                film = decode_film(source, FilmSettings(), limits)
                pixels, grid = patchify(film.frames, self._patches)
                films.append((pixels, grid, film.grid_seconds))
                heard = None if film.sound is None else row_count(len(film.sound) // 160)
                if film.sound is not None:
                    sounds.append(film.sound)
                media.append(Film(grid, film.grid_seconds, heard))
        prompt = self._writer.write(messages, media, question.tools)
        # The published implementation interleaves either all films with their sounds, or none.
        with_sound = any(isinstance(medium, Film) and medium.sound_rows is not None for medium in media)
        shown = {**_shown(films), "use_audio_in_video": with_sound} if films else {}
        return Case(prompt.tokens, {**_heard(sounds), **_seen(pictures), **shown})


def _heard(sounds: Sequence[np.ndarray[Any, Any]]) -> Data:
    if not sounds:
        return {}
    mels = [
        EXTRACTOR(sound, sampling_rate=16_000, padding=True, truncation=False, return_tensors="pt").input_features[0]
        for sound in sounds
    ]
    longest = max(mel.shape[1] for mel in mels)
    features = torch.zeros((len(mels), 128, longest))
    mask = torch.zeros((len(mels), longest), dtype=torch.int64)
    for row, (mel, sound) in enumerate(zip(mels, sounds, strict=True)):
        features[row, :, : mel.shape[1]] = mel
        mask[row, : len(sound) // 160] = 1
    return {"input_features": features, "feature_attention_mask": mask}


def _seen(pictures: Sequence[Any]) -> Data:
    if not pictures:
        return {}
    names = ("pixel_values", "image_grid_thw")
    return {name: torch.cat([picture[name] for picture in pictures]) for name in names}


def _shown(films: Sequence[tuple[np.ndarray[Any, Any], Grid, float]]) -> Data:
    grids = [[grid.time, grid.height, grid.width] for _, grid, _ in films]
    return {
        "pixel_values_videos": torch.cat([torch.from_numpy(pixels) for pixels, _, _ in films]),
        "video_grid_thw": torch.tensor(grids),
        "video_second_per_grid": torch.tensor([seconds for _, _, seconds in films]),
    }


@torch.no_grad()
def waveform(published: Any, frames: Sequence[Sequence[int]]) -> np.ndarray[Any, Any]:
    """One decode of all frames."""
    if not frames:
        return np.zeros(0, np.float32)
    samples: np.ndarray[Any, Any] = published.code2wav(torch.tensor(frames).T[None]).numpy()[0, 0]
    return samples


def edited(folder: Path, to: Path, rows: dict[str, tuple[int, torch.Tensor]]) -> Path:
    """The checkpoint with some rows of some tensors replaced: by name, the row's number and its values."""
    shutil.copytree(folder, to)
    tensors = load_file(to / "model.safetensors")
    for name, (number, row) in rows.items():
        tensors[name][number] = row
    save_file(tensors, to / "model.safetensors", metadata={"format": "pt"})
    return to
