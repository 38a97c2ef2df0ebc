"""Qwen3-Omni at full size: random weights of the released sizes, the whole pipeline, and people who talk with it.

    python -m benchmarks.qwen3_omni_gpu [--layout configs/qwen3-omni-2gpu.yaml] [--people 1,4,16,64] [--mps]
    python -m benchmarks.qwen3_omni_gpu --load 10
    python -m benchmarks.qwen3_omni_gpu --tiny

Each person speaks, commits, and hears an answer of a fixed length (100 text tokens, 375 frames: half a minute); each
also interrupts one at random after its first sound. Times count from the commit, when the speech has been streamed in
and only its last window is left to encode. Nothing waits for sound to be played: answers are made as fast as the device
can, which is more than conversations ask of it. ``--paced`` leaves the talker as far ahead of the ear as the layout
says, as in production: then the first sound is what people would wait for, and the real-time factor says nothing. A gap
is counted where a chunk comes later than the end of the sound before it, without any buffer. "At once" is the worst
case: everybody commits in the same moment.

In the same run, before the pipeline starts: the engine that serves the thinker, alone with a model of the thinker's
shape, and a copy in the device's memory; the second table sets the figures against them. With random weights a router
sends tokens evenly to all experts, which is the most that a batch can make a step read.

``--load``: minutes of talk with interruptions at any moment, while one stage is killed half-way; ends with status 1
unless all is given back, memory and open files are as before, and the stage is back. ``--tiny``: all of that on a small
checkpoint on a processor, which tells that it works and not how fast it is.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.full_size import roofline
from benchmarks.full_size.device import Memory, multi_process_service, watched_memory
from benchmarks.full_size.endurance import Endurance, Plan
from benchmarks.full_size.figures import FRAME_SAMPLES, HEAD, Figures, figures, line, percentile, split_table
from benchmarks.full_size.floors import Floors
from benchmarks.full_size.people import Speech, crowd
from benchmarks.machine import describe
from tests.support.released_qwen3_omni import CONFIG, ROLES, SPECIALS, TOOL_MARKS, WORDS
from voice_omni.client.pipeline import PipelineClient
from voice_omni.config import load
from voice_omni.config.settings import Settings
from voice_omni.models.qwen3_omni.config import OmniConfig, load_config
from voice_omni.models.qwen3_omni.pipeline import PIPELINE
from voice_omni.pipeline.launcher import Launcher

CONFIGS = Path(__file__).parent.parent / "configs"
DEADLINE_S = 90
"""Of an answer: three times as long as it takes to listen to."""
TAIL = 18
"""Positions of the thinker's prompt behind what was prefilled during speech: the last second's and the header's."""


@dataclass(frozen=True, slots=True)
class Size:
    """What is measured: ``tokens`` and ``frames`` of an answer, how many people, at least how many complete answers
    there are for one figure, and how long an answer is heard that is interrupted."""

    tokens: int
    frames: int
    people: tuple[int, ...]
    at_once: tuple[int, ...]
    answers: int
    patience_s: float
    speech: Speech


FULL = Size(100, 375, (1, 4, 8, 16, 32, 64), (16, 64), 6, 1.5, Speech(pace=2.0))
TINY = Size(6, 12, (1, 2), (2,), 2, 0.1, Speech(seconds=1.5, pace=3.0, tokens=6))


# -- what is started ---------------------------------------------------------------------------------------------------


def fixed_lengths(
    layout: Path, model: Path, frames: int, overrides: Sequence[str] = (), *, paced: bool = False
) -> Settings:
    """A layout's settings for answers that end by their length alone, and are made as fast as can be where they are not
    ``paced``. Stages on SGLang draw their own weights.

    Text is drawn, too: with weights that nobody trained, the likeliest token would be the same for everybody, and a
    batch would read the experts of one.
    """
    said = [
        f"model={model}",
        "stages.thinker.options.ignore_eos=true",
        "stages.thinker.options.temperature=1",
        "stages.talker.options.ignore_eos=true",
        f"stages.talker.options.max_new_tokens={frames + 1}",
        f"limits.request_deadline_s={DEADLINE_S}",
        *([] if paced else ["stages.talker.scheduler.lead_s=null"]),
        *overrides,
    ]
    settings = load(PIPELINE, layout, said, {}).settings
    for stage in on_sglang(settings):
        arguments = {**settings.stages[stage].options.sglang.server_args, "load_format": "dummy"}
        said.append(f"stages.{stage}.options.sglang.server_args={json.dumps(arguments)}")
    return load(PIPELINE, layout, said, {}).settings


def on_sglang(settings: Settings) -> list[str]:
    """The stages whose engine is SGLang."""
    options = {name: msgspec.structs.asdict(stage.options) for name, stage in settings.stages.items()}
    return [name for name, each in options.items() if each.get("engine") == "sglang"]


def make_checkpoint(folder: Path, layout: Path, tiny: bool) -> Path:
    """The model's folder."""
    if tiny:
        from tests.support.tiny_qwen3_omni import build

        return build(folder)
    import torch

    from benchmarks.full_size.weights import BACKBONES, write_checkpoint
    from tests.support.byte_level_bpe import write_tokenizer

    settings = load(PIPELINE, layout, (), {}).settings
    return write_checkpoint(
        folder,
        CONFIG,
        lambda there: write_tokenizer(there, ROLES, SPECIALS, TOOL_MARKS, range(WORDS)),
        "cuda" if torch.cuda.is_available() else "cpu",
        [prefix for stage in on_sglang(settings) for prefix in BACKBONES[stage]],
    )


def written_elsewhere(folder: Path, layout: Path, tiny: bool) -> None:
    """:func:`make_checkpoint` in a process of its own, which gives the device back; not if there is one already."""
    if (folder / "config.json").exists():
        return
    arguments = ["--only-checkpoint", "--checkpoint", str(folder), "--layout", str(layout), *["--tiny"][: int(tiny)]]
    subprocess.run([sys.executable, "-m", "benchmarks.qwen3_omni_gpu", *arguments], check=True)


def measured_floors(folder: Path, tiny: bool, people: Sequence[int]) -> Floors:
    arguments = ["--device", "cpu" if tiny else "cuda", "--steps", ",".join(map(str, people))]
    arguments += ["--prefills", str(TAIL) if tiny else f"{TAIL},85,512"]
    command = [sys.executable, "-m", "benchmarks.full_size.floors", str(folder), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout.strip().splitlines()[-1], type=Floors)


# -- what is printed ---------------------------------------------------------------------------------------------------


def floor_table(floors: Floors, config: OmniConfig, found: dict[int, Figures], size: Size) -> str:
    """Each figure beside the time in which its weights can be read at the speed of a copy."""
    text, per_ms = config.thinker.text, floors.copied / 1000

    def row(name: str, measured: float, weights: float) -> str:
        return f"| {name} | {measured:.2f} | {weights / per_ms:.2f} | {measured * per_ms / weights:.1f} |"

    lines = [
        f"A copy in the device's memory moves {floors.copied / 1e12:.2f} TB/s, read and written.",
        "",
        "| | ms | floor, ms | times |",
        "|---|---|---|---|",
    ]
    for rows, spent in floors.step_ms.items():
        lines.append(row(f"engine alone: thinker step of {rows}", spent, roofline.moe_step(text, rows)))
    for tokens, spent in floors.prefill_ms.items():
        lines.append(row(f"engine alone: thinker prefill of {tokens}", spent, roofline.moe_step(text, tokens)))
    for people, each in found.items():
        frame = roofline.frame_bytes(config, people, size.tokens / size.frames)
        lines.append(row(f"pipeline: frame of {people}", percentile(each.frame_ms, 0.5), frame))
    if alone := found.get(1):
        weights = roofline.first_sound_bytes(config, TAIL)
        lines.append(row("pipeline: first sound of 1", percentile(alone.first_ms, 0.5), weights))
    return "\n".join(lines)


def restarts(pipeline: Launcher) -> str:
    again = {name: each["restarts"] for name, each in pipeline.health()["processes"].items() if each["restarts"]}
    return ", ".join(f"{name} {count}" for name, count in again.items()) or "none"


# -- what is run -------------------------------------------------------------------------------------------------------


async def crowds(pipeline: Launcher, memory: Memory, size: Size) -> dict[int, Figures]:
    """Print a row for each crowd as soon as it has gone; the figures of those who came one by one."""
    client = PipelineClient.of(pipeline)

    async def talk(people: int, rounds: int, seed: int, at_once: bool = False) -> Figures:
        turns = await crowd(client, size.speech, people, rounds, seed, patience_s=size.patience_s, at_once=at_once)
        return figures(turns, client.output_sample_rate, FRAME_SAMPLES)

    await talk(max(size.people), 1, seed=0, at_once=True)  # warms up
    memory.peak()
    print(HEAD, flush=True)
    found = {}
    for people in size.people:
        found[people] = await talk(people, -(-size.answers // people), people)
        print(line(str(people), found[people], memory.peak()), flush=True)
        if not found[people].frames:
            return found
    for people in size.at_once:
        together = await talk(people, 1, 1000 + people, at_once=True)
        print(line(f"{people} at once", together, memory.peak()), flush=True)
    return found


async def run(options: argparse.Namespace, size: Size, folder: Path, floors: Floors | None) -> int:
    settings = fixed_lengths(options.layout, folder, size.frames, options.set, paced=options.paced)
    began = time.monotonic()
    async with watched_memory() as memory, Launcher(PIPELINE, settings) as pipeline:
        print(f"started in {time.monotonic() - began:.0f} s", flush=True)
        if options.load is not None:
            people = options.load_people or max(size.people)
            plan = Plan(people, options.load * 60, replace(size.speech, pace=1.0), options.kill)
            outcome = await Endurance(pipeline, plan, memory).run()
            print(outcome.report(), flush=True)
            return int(bool(outcome.faults()))
        found = await crowds(pipeline, memory, size)
        for code, reason in {code: reason for each in found.values() for code, reason in each.reasons.items()}.items():
            print(f"\n{code}: {reason}", flush=True)
        print(f"\n{split_table(found)}\n", flush=True)
        if floors is not None:
            print(floor_table(floors, load_config(folder), found, size), flush=True)
        print(f"\nprocesses that were started again: {restarts(pipeline)}", flush=True)
        wanted = all(set(each.frames) == {size.frames} and not each.failed for each in found.values())
        return int(not wanted)


@contextmanager
def checkpoint_folder(given: Path | None) -> Iterator[Path]:
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="qwen3-omni-") as folder:
        yield Path(folder)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)

    def numbers(text: str) -> tuple[int, ...]:
        return tuple(int(each) for each in text.split(",") if each)

    parser.add_argument("--layout", type=Path, help="default: configs/qwen3-omni-gpu.yaml")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="over the layout; repeatable")
    parser.add_argument("--people", type=numbers, help="how many talk at the same time, for one row each")
    parser.add_argument("--at-once", type=numbers, help="how many commit in one moment, for one row each")
    parser.add_argument("--answers", type=int, help="complete answers behind each row at least")
    parser.add_argument("--pace", type=float, help="speech is streamed in so many times as fast as it is spoken")
    parser.add_argument("--tokens", type=int, help="of each answer's text")
    parser.add_argument("--frames", type=int, help="of each answer's speech")
    parser.add_argument("--paced", action="store_true", help="the talker keeps the lead that the layout says")
    parser.add_argument("--chunk-ms", type=float, default=20.0, help="of sound that is sent at once")
    parser.add_argument("--load", type=float, metavar="MINUTES", help="talk so long, and look for what leaks")
    parser.add_argument("--load-people", type=int, help="default: the most of --people")
    parser.add_argument("--kill", default="talker", metavar="STAGE", help="the one that dies under --load")
    parser.add_argument("--mps", action="store_true", help="run under NVIDIA's multi-process service")
    parser.add_argument("--no-floors", action="store_true", help="leave out what is measured without the pipeline")
    parser.add_argument("--checkpoint", type=Path, metavar="FOLDER", help="write it there, or take what is there")
    parser.add_argument("--only-checkpoint", action="store_true", help="write it, and nothing else")
    parser.add_argument("--tiny", action="store_true", help="a small checkpoint on a processor")
    options = parser.parse_args(arguments)
    options.layout = options.layout or CONFIGS / ("qwen3-omni.yaml" if options.tiny else "qwen3-omni-gpu.yaml")
    return options


def sized(options: argparse.Namespace) -> Size:
    size = TINY if options.tiny else FULL
    said: dict[str, Any] = {
        name: value
        for name in ("people", "at_once", "answers", "tokens", "frames")
        if (value := getattr(options, name)) is not None
    }
    size = replace(size, **said)
    speech = replace(size.speech, tokens=size.tokens, chunk_s=options.chunk_ms / 1000)
    return replace(size, speech=replace(speech, pace=options.pace or speech.pace))


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    # CUDA would number the GPUs by their speed, and nvidia-smi does so by their places.
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    size = sized(options)
    with checkpoint_folder(options.checkpoint) as folder:
        if options.only_checkpoint:
            make_checkpoint(folder, options.layout, options.tiny)
            return 0
        print(describe(), flush=True)
        began = time.monotonic()
        written_elsewhere(folder, options.layout, options.tiny)
        print(f"checkpoint in {time.monotonic() - began:.0f} s", flush=True)
        floors = None
        if not options.no_floors and options.load is None:
            began = time.monotonic()
            floors = measured_floors(folder, options.tiny, size.people)
            print(f"floors in {time.monotonic() - began:.0f} s", flush=True)
        with multi_process_service(options.mps) as service:
            print(service, flush=True)
            return asyncio.run(run(options, size, folder, floors))


if __name__ == "__main__":
    sys.exit(main())
