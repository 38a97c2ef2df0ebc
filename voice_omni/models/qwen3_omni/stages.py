"""Builds the runner of each stage in the stage's own process.

Imports stand inside of the functions: a process loads what its own stages need, and some need no torch. What computes
with torch computes once here: then the stage is ready, and its first request is as quick as all others.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from voice_omni.model_runner.interface import Chunk
from voice_omni.models.qwen3_omni.config import OmniConfig, load_config
from voice_omni.models.qwen3_omni.weights import QWEN3_OMNI_30B
from voice_omni.pipeline.spec import StageContext
from voice_omni.proto.errors import OmniError, origin
from voice_omni.proto.payload import CLIENT
from voice_omni.proto.vocabulary import AUDIO
from voice_omni.weights import fetch

if TYPE_CHECKING:
    import torch

    from voice_omni.engines.interface import StreamedEngine
    from voice_omni.engines.sglang.engine import SglangEngine
    from voice_omni.models.qwen3_omni.audio_stage import AudioRunner
    from voice_omni.models.qwen3_omni.checkpoint import Checkpoint
    from voice_omni.models.qwen3_omni.code2wav_stage import Code2WavRunner
    from voice_omni.models.qwen3_omni.decode_stage import DecodeRunner
    from voice_omni.models.qwen3_omni.image_stage import ImageRunner
    from voice_omni.models.qwen3_omni.preprocess_stage import PreprocessRunner
    from voice_omni.models.qwen3_omni.talker_runner import TalkerRunner
    from voice_omni.models.qwen3_omni.thinker_runner import ThinkerRunner

_PICTURE: Final = (224, 224)
"""Pixels of the picture that is encoded before the first one comes."""


def preprocess(context: StageContext) -> PreprocessRunner:
    from voice_omni.models.qwen3_omni.chat import ChatTemplate
    from voice_omni.models.qwen3_omni.patches import PatchSettings
    from voice_omni.models.qwen3_omni.preprocess_stage import PreprocessRunner
    from voice_omni.models.qwen3_omni.prompt import PromptWriter
    from voice_omni.models.qwen3_omni.tokenizer import Tokenizer

    folder, config = _folder(context)
    tokenizer = Tokenizer.load(folder)
    writer = PromptWriter(config, tokenizer, ChatTemplate.load(folder, tokenizer.plain))
    patches = PatchSettings.load(folder, config.thinker.vision)
    return PreprocessRunner(config, context.options, writer, tokenizer, patches)


def image_encoder(context: StageContext) -> ImageRunner:
    from voice_omni.models.qwen3_omni.image_stage import ImageRunner
    from voice_omni.models.qwen3_omni.patches import PatchSettings
    from voice_omni.models.qwen3_omni.vision_tower import VisionEncoder
    from voice_omni.models.qwen3_omni.warm_up import encode_once
    from voice_omni.models.qwen3_omni.wire import FRAMES, MEDIUM

    checkpoint = _checkpoint(context)
    encoder = VisionEncoder(checkpoint, context.device, _precision(context, checkpoint))
    runner = ImageRunner(encoder, PatchSettings.load(checkpoint.folder, checkpoint.config.thinker.vision))
    encode_once(runner, Chunk("preprocess", {FRAMES: np.zeros((1, *_PICTURE, 3), np.uint8), MEDIUM: 0}))
    return runner


def audio_encoder(context: StageContext) -> AudioRunner:
    from voice_omni.models.qwen3_omni.audio_stage import AudioRunner
    from voice_omni.models.qwen3_omni.audio_tower import AudioEncoder
    from voice_omni.models.qwen3_omni.mel import SAMPLE_RATE
    from voice_omni.models.qwen3_omni.warm_up import encode_once

    checkpoint = _checkpoint(context)
    encoder = AudioEncoder(checkpoint, context.device, _precision(context, checkpoint))
    runner = AudioRunner(encoder, context.options)
    if context.device.startswith("cuda"):
        encoder.prepare(context.options.graph_windows, runner.window_chunks)
    samples = min(runner.window_samples, int(context.options.max_seconds * SAMPLE_RATE))
    encode_once(runner, Chunk(CLIENT, {AUDIO: np.zeros(samples, np.float32)}))
    return runner


def thinker(context: StageContext) -> tuple[ThinkerRunner, StreamedEngine]:
    from voice_omni.models.qwen3_omni.thinker_runner import CallTokens, ThinkerRunner
    from voice_omni.models.qwen3_omni.tokenizer import Tokenizer

    checkpoint = _checkpoint(context)
    config = checkpoint.config
    tokenizer = Tokenizer.load(checkpoint.folder)
    stop = frozenset({config.im_end_token_id})
    runner = ThinkerRunner(config, context.options, stop, CallTokens.of(tokenizer))
    if context.options.engine == "sglang":
        layer = None if config.talker is None else config.talker.accept_hidden_layer
        return runner, _sglang(context, checkpoint, checkpoint.folder, "Qwen3OmniThinker", hidden_layer=layer)

    from voice_omni.engines.torch_engine import TorchEngine
    from voice_omni.models.qwen3_omni.backbones import load_thinker
    from voice_omni.models.qwen3_omni.thinker import Thinker
    from voice_omni.models.qwen3_omni.warm_up import generate_once

    model = Thinker(load_thinker(checkpoint, device=context.device, dtype=_precision(context, checkpoint)))
    engine = TorchEngine(model, kept_positions=context.options.kept_positions)
    generate_once(engine)
    return runner, engine


def decode(context: StageContext) -> DecodeRunner:
    from voice_omni.models.qwen3_omni.decode_stage import DecodeRunner
    from voice_omni.models.qwen3_omni.tokenizer import Tokenizer

    folder, _ = _folder(context)
    return DecodeRunner(Tokenizer.load(folder).bytes)


def talker(context: StageContext) -> tuple[TalkerRunner, StreamedEngine]:
    from voice_omni.models.qwen3_omni.backbones import load_talker, load_talker_tables
    from voice_omni.models.qwen3_omni.talker_prompt import TalkerPrompt
    from voice_omni.models.qwen3_omni.talker_runner import TalkerRunner
    from voice_omni.models.qwen3_omni.warm_up import generate_once

    checkpoint, options = _checkpoint(context), context.options
    dtype = _precision(context, checkpoint)
    if options.engine == "sglang":
        tables = load_talker_tables(checkpoint, device=context.device, dtype=dtype)
        runner = TalkerRunner(tables.talker, options, TalkerPrompt(tables), checkpoint.config.frame_s)
        return runner, _sglang_talker(context, checkpoint)

    from voice_omni.engines.torch_engine import TorchEngine
    from voice_omni.models.qwen3_omni.talker import Talker

    modules = load_talker(checkpoint, device=context.device, dtype=dtype)
    engine = TorchEngine(Talker(modules), kept_positions=options.kept_positions)
    generate_once(engine)
    return TalkerRunner(modules.talker, options, TalkerPrompt(modules), checkpoint.config.frame_s), engine


def code2wav(context: StageContext) -> Code2WavRunner:
    from voice_omni.models.qwen3_omni.code2wav import StreamDecoder
    from voice_omni.models.qwen3_omni.code2wav_batches import grid
    from voice_omni.models.qwen3_omni.code2wav_stage import Code2WavRunner

    checkpoint, options = _checkpoint(context), context.options
    sizes = grid(options, options.max_streams) if context.device.startswith("cuda") else ()
    decoder = StreamDecoder(checkpoint, options.max_streams, context.device, _precision(context, checkpoint), sizes)
    return Code2WavRunner(decoder)


def _folder(context: StageContext) -> tuple[Path, OmniConfig]:
    folder = fetch(QWEN3_OMNI_30B if context.model is None else QWEN3_OMNI_30B.at(context.model))
    return folder, load_config(folder)


def _checkpoint(context: StageContext) -> Checkpoint:
    import torch

    from voice_omni.models.qwen3_omni.checkpoint import Checkpoint

    torch.set_num_threads(context.threads)
    return Checkpoint(_folder(context)[0])


def _sglang_talker(context: StageContext, checkpoint: Checkpoint) -> SglangEngine:
    from voice_omni.models.qwen3_omni.talker_export import export_talker

    # The folder is read when the engine is made, and never again.
    with TemporaryDirectory(prefix="voice-omni-talker-") as folder:
        exported = export_talker(checkpoint, Path(folder), ignore_eos=context.options.ignore_eos)
        return _sglang(context, checkpoint, exported)


def _sglang(
    context: StageContext,
    checkpoint: Checkpoint,
    folder: Path,
    architecture: str | None = None,
    hidden_layer: int | None = None,
) -> SglangEngine:
    """Raises :class:`OmniError` ``missing_dependency``, and what SGLang raises."""
    from voice_omni.engines.sglang.options import SglangOptions

    try:
        from voice_omni.engines.sglang.engine import SglangEngine
        from voice_omni.engines.sglang.warm_up import warm_up
    except ModuleNotFoundError as error:
        message = f"{error}{origin(error)}. The engine 'sglang' needs: pip install 'voice-omni[sglang]'"
        raise OmniError("missing_dependency", message, stage=context.stage) from error
    options = SglangOptions(
        model=str(folder),
        device=context.device,
        dtype=str(_precision(context, checkpoint)).removeprefix("torch."),
        architecture=architecture,
        hidden_layer=hidden_layer,
        **msgspec.structs.asdict(context.options.sglang),
    )
    engine = SglangEngine(options)
    warm_up(engine)
    return engine


def _precision(context: StageContext, checkpoint: Checkpoint) -> torch.dtype:
    import torch

    known = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    return known.get(context.options.precision) or checkpoint.dtype
