"""What the contract compares SGLang with: checkpoints, and what transformers and the torch engine say to its prompts.

    python -m tests.engines.sglang.references FOLDER

writes them, for a machine that has SGLang and a GPU but not what this takes, and prints the variables that tell where
they are: the folder has the same path there. It must not exist.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from shlex import quote

import torch
from safetensors.torch import save_file
from transformers import Qwen3OmniMoeThinkerForConditionalGeneration

from tests.engines.sglang import thinker_cases
from tests.engines.sglang.talking import write_talker
from tests.support import tiny_qwen3_omni
from voice_omni.models.starter.think_weights import open_gguf, read_checkpoint
from voice_omni.models.starter.weights import SMOLLM2_135M
from voice_omni.weights import fetch


def write_references(folder: Path) -> dict[str, str]:
    """Returns the variables by which the contract finds them."""
    omni = write_qwen3_omni(folder / "qwen3-omni")
    talker = write_talker(omni, folder / "talker")
    for link in filter(Path.is_symlink, talker.iterdir()):
        # The folder may be taken elsewhere.
        shutil.copy(link.resolve(), link.with_suffix(".copy")).replace(link)
    (folder / "smollm2").mkdir()
    return {
        "SGLANG_CONTRACT_SMOLLM2": str(write_smollm2(folder / "smollm2")),
        "SGLANG_CONTRACT_QWEN3_OMNI": str(omni),
        "SGLANG_CONTRACT_TALKER": str(talker),
    }


def write_smollm2(folder: Path) -> Path:
    """The starter's language model as Hugging Face would have it."""
    checkpoint = read_checkpoint(open_gguf(fetch(SMOLLM2_135M) / SMOLLM2_135M.files[0]))
    shape = checkpoint.shape
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": shape.hidden,
        "intermediate_size": shape.feed_forward,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": shape.context,
        "rope_theta": shape.rope_base,
        "rms_norm_eps": shape.norm_epsilon,
        "tie_word_embeddings": "lm_head.weight" not in checkpoint.tensors,
    }
    (folder / "config.json").write_text(json.dumps(config))
    tensors = {name: torch.tensor(values) for name, values in checkpoint.tensors.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def write_qwen3_omni(folder: Path) -> Path:
    """A tiny one, with what its thinker says to the contract's prompts."""
    tiny_qwen3_omni.build(folder)
    thinker = Qwen3OmniMoeThinkerForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    prompt = torch.arange(10, 40)[None]
    said = thinker.generate(prompt, max_new_tokens=8, min_new_tokens=8, do_sample=False, eos_token_id=None)
    (folder / "greedy.json").write_text(json.dumps(said[0, prompt.shape[1] :].tolist()))
    thinker_cases.write(folder)
    return folder


if __name__ == "__main__":
    made = Path(sys.argv[1]).absolute()
    made.mkdir(parents=True)
    sys.stdout.writelines(f"export {name}={quote(value)}\n" for name, value in write_references(made).items())
