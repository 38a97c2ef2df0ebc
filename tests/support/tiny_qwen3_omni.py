"""A Qwen3-Omni checkpoint of 3.4 MB in the released format, with a tokenizer: small enough to compare every number.

Every special token lies below 512. The weights are drawn so that activations keep their size, greedy choices have clear
margins and the waveform is neither silent nor clipped, none of which the stock initialisation gives.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

import torch
from transformers import Qwen3OmniMoeConfig, Qwen3OmniMoeForConditionalGeneration

from tests.support.byte_level_bpe import write_tokenizer

SPECIALS: Final = {
    "<|audio_pad|>": 490,
    "<|image_pad|>": 491,
    "<|video_pad|>": 492,
    "<|audio_start|>": 493,
    "<|audio_end|>": 494,
    "<|vision_start|>": 495,
    "<|vision_end|>": 496,
    "<|endoftext|>": 499,
    "<|im_start|>": 500,
    "<|im_end|>": 501,
    "<tts_pad>": 502,
    "<tts_text_bos>": 503,
    "<tts_text_eod>": 504,
}
TOOL_MARKS: Final = {"<tool_call>": 508, "</tool_call>": 509}
ROLES: Final = {"system": 505, "user": 506, "assistant": 507}

_MEDIA: Final = {
    "audio_token_id": 490,
    "image_token_id": 491,
    "video_token_id": 492,
    "audio_start_token_id": 493,
    "audio_end_token_id": 494,
    "vision_start_token_id": 495,
    "vision_end_token_id": 496,
}
_MROPE: Final = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [4, 2, 2], "interleaved": True}


def build(folder: Path, *, max_shard_size: str = "1GB") -> Path:
    """Write the checkpoint; in several files if ``max_shard_size`` is small. Returns ``folder``."""
    model = Qwen3OmniMoeForConditionalGeneration(_config()).eval()
    _draw(model)
    model.save_pretrained(folder, max_shard_size=max_shard_size)
    write_tokenizer(folder, ROLES, SPECIALS, TOOL_MARKS)
    return folder


def _config() -> Qwen3OmniMoeConfig:
    decoder: dict[str, Any] = {"head_dim": 16, "max_position_embeddings": 4096, "norm_topk_prob": True}
    audio = {
        "num_mel_bins": 128,
        "encoder_layers": 2,
        "encoder_attention_heads": 4,
        "encoder_ffn_dim": 64,
        "d_model": 32,
        "output_dim": 64,
        "downsample_hidden_size": 8,
        "n_window": 50,
        "n_window_infer": 800,
    }
    vision = {
        "depth": 4,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_heads": 4,
        "out_hidden_size": 64,
        "num_position_embeddings": 64,
        "deepstack_visual_indexes": [0, 1, 2],
        "patch_size": 16,
    }
    thinker = {
        "vocab_size": 512,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "moe_intermediate_size": 32,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "rope_parameters": _MROPE,
        **decoder,
    }
    talker = {
        "vocab_size": 1024 + 64,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 32,
        "num_experts": 8,
        "num_experts_per_tok": 3,
        "rope_parameters": _MROPE,
        **decoder,
    }
    predictor = {
        "vocab_size": 64,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "num_code_groups": 16,
        "max_position_embeddings": 512,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    }
    codec = {
        "codebook_size": 64,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "num_quantizers": 16,
        "decoder_dim": 32,
        "sliding_window": 72,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
    }
    return Qwen3OmniMoeConfig(
        thinker_config={
            "audio_config": audio,
            "vision_config": vision,
            "text_config": thinker,
            "position_id_per_seconds": 13,
            "user_token_id": ROLES["user"],
            **_MEDIA,
        },
        talker_config={
            "text_config": talker,
            "code_predictor_config": predictor,
            "num_code_groups": 16,
            "thinker_hidden_size": 64,
            "accept_hidden_layer": 2,
            "spatial_merge_size": 2,
            "position_id_per_seconds": 13,
            "codec_pad_id": 1070,
            "codec_bos_id": 1071,
            "codec_eos_token_id": 1072,
            "codec_nothink_id": 1073,
            "codec_think_bos_id": 1074,
            "codec_think_eos_id": 1075,
            "speaker_id": {"ethan": 1080, "chelsie": 1081, "aiden": 1082},
            **{name: id for name, id in _MEDIA.items() if not name.endswith("_end_token_id")},
        },
        code2wav_config=codec,
        enable_audio_output=True,
        im_start_token_id=500,
        im_end_token_id=501,
        tts_pad_token_id=502,
        tts_bos_token_id=503,
        tts_eos_token_id=504,
        system_token_id=ROLES["system"],
        user_token_id=ROLES["user"],
        assistant_token_id=ROLES["assistant"],
    )


@torch.no_grad()
def _draw(model: Qwen3OmniMoeForConditionalGeneration) -> None:
    generator = torch.Generator().manual_seed(1)
    last = f"code2wav.decoder.{len(model.code2wav.decoder) - 1}."
    for name, weight in model.named_parameters():
        if weight.dim() >= 2:
            weight.normal_(0, _deviation(name, weight, last), generator=generator)
        elif name.endswith("bias"):
            weight.normal_(0, 0.02, generator=generator)
        elif name.endswith(("gamma", "scale")):
            weight.fill_(0.5)
        elif name.endswith(("alpha", "beta")):
            weight.normal_(0, 0.1, generator=generator)
        elif "norm" in name or "ln_" in name:
            weight.normal_(1, 0.05, generator=generator)
    for head in (model.thinker.lm_head, model.talker.codec_head, *model.talker.code_predictor.lm_head):
        head.weight.mul_(2)


def _deviation(name: str, weight: torch.Tensor, last: str) -> float:
    """That keeps the size of what passes: one over the root of the inputs, less where branches add up."""
    inputs, gain = weight[0].numel(), 1.0
    if "embed" in name:
        inputs = 1
    elif "experts." in name:
        inputs = weight.shape[-1]
    elif name.startswith("code2wav.decoder"):
        if ".block.1." in name:  # transposed: two taps of each input reach a sample
            inputs, gain = 2 * weight.shape[0], 0.6
        elif "conv2" in name or name.startswith(last):
            gain = 0.2
    return gain / math.sqrt(inputs)
