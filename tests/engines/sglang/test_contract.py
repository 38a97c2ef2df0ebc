"""SGLang's real scheduler does what this project relies on. The tests are in ``contract``; their report is shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from transformers import Qwen3OmniMoeThinkerForConditionalGeneration

from tests.engines.sglang import thinker_cases
from tests.engines.sglang.environment import NEWEST, PINNED, UnreachableError, prepare, variables
from tests.engines.sglang.talking import write_talker
from tests.support import tiny_qwen3_omni
from tests.support.reported import passes
from voice_omni.models.starter.think_weights import open_gguf, read_checkpoint
from voice_omni.models.starter.weights import SMOLLM2_135M
from voice_omni.weights import fetch

CONTRACT = Path("tests/engines/sglang/contract")


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """So small matrices are slower on two."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    folder = tmp_path_factory.mktemp("smollm2")
    (folder / "config.json").write_text(json.dumps(config))
    tensors = {name: torch.tensor(values) for name, values in checkpoint.tensors.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@pytest.fixture(scope="module")
def qwen3_omni(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny one, with what its thinker says to the contract's prompts."""
    folder = tiny_qwen3_omni.build(tmp_path_factory.mktemp("tiny") / "qwen3-omni")
    thinker = Qwen3OmniMoeThinkerForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    prompt = torch.arange(10, 40)[None]
    said = thinker.generate(prompt, max_new_tokens=8, min_new_tokens=8, do_sample=False, eos_token_id=None)
    (folder / "greedy.json").write_text(json.dumps(said[0, prompt.shape[1] :].tolist()))
    thinker_cases.write(folder)
    return folder


@pytest.fixture(scope="module")
def talker(qwen3_omni: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_talker(qwen3_omni, tmp_path_factory.mktemp("talkers") / "talker")


@pytest.mark.parametrize("release", [PINNED, NEWEST], ids=lambda pins: pins.stem)
def test_sglang_keeps_its_side(release: Path, smollm2: Path, qwen3_omni: Path, talker: Path) -> None:
    try:
        python = prepare(release)
    except UnreachableError as error:
        pytest.skip(f"the package index, which has SGLang, cannot be reached: {error}")
    command = [
        python,
        "-m",
        "pytest",
        "-c",
        CONTRACT / "pytest.ini",
        "--rootdir",
        ".",
        "--confcutdir",
        CONTRACT,
        CONTRACT,
    ]
    environment = {
        **variables(),
        "SGLANG_CONTRACT_SMOLLM2": str(smollm2),
        "SGLANG_CONTRACT_QWEN3_OMNI": str(qwen3_omni),
        "SGLANG_CONTRACT_TALKER": str(talker),
    }
    passes(command, environment, "the report above says what SGLang does differently")
