"""From GGUF to CTranslate2: the same model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tests.engines import tiny_llama
from tests.engines.driver import Driver, row
from voice_omni.engines.ctranslate2_engine import CTranslate2Engine
from voice_omni.engines.torch_engine import TorchEngine
from voice_omni.engines.torch_model import LanguageModel
from voice_omni.models.starter.think_model import prompt_writer, stop_tokens
from voice_omni.models.starter.think_prompt import EXAMPLES
from voice_omni.models.starter.think_smoothing import activation_peaks, smooth
from voice_omni.models.starter.think_tokenizer import build_tokenizer
from voice_omni.models.starter.think_weights import (
    Checkpoint,
    open_gguf,
    read_checkpoint,
    read_vocabulary,
    write_ctranslate2,
)
from voice_omni.models.starter.weights import SMOLLM2_135M
from voice_omni.proto.errors import OmniError
from voice_omni.weights import fetch

TOKENS = list(range(3, 60))


@pytest.fixture(scope="module")
def llama() -> LlamaForCausalLM:
    return tiny_llama.model()


@pytest.fixture(scope="module")
def checkpoint(llama: LlamaForCausalLM, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    tiny_llama.write_gguf(path, llama)
    return read_checkpoint(open_gguf(path))


def hugging_face(checkpoint: Checkpoint) -> LlamaForCausalLM:
    shape = checkpoint.shape
    config = LlamaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        max_position_embeddings=shape.context,
        rms_norm_eps=shape.norm_epsilon,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_base},
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config)
    state = {name: torch.from_numpy(np.array(value)) for name, value in checkpoint.tensors.items()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert missing == ["lm_head.weight"]
    assert not unexpected
    return model.eval()


def logits(model: LlamaForCausalLM) -> np.ndarray:
    with torch.inference_mode():
        return model(torch.tensor([TOKENS])).logits[0].numpy()


def test_tensors_come_back_as_they_were(llama: LlamaForCausalLM, checkpoint: Checkpoint) -> None:
    expected = tiny_llama.tensors(llama)
    assert checkpoint.tensors.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(checkpoint.tensors[name], value, err_msg=name)


def test_other_architectures_and_tokenizers_are_refused(llama: LlamaForCausalLM, tmp_path: Path) -> None:
    tiny_llama.write_gguf(tmp_path / "other.gguf", llama, tokenizer="llama")
    with pytest.raises(OmniError, match="byte-level BPE"):
        read_vocabulary(open_gguf(tmp_path / "other.gguf"))


def test_smoothing_changes_the_activations_and_not_the_function(checkpoint: Checkpoint) -> None:
    smoothed = smooth(checkpoint, TOKENS)
    np.testing.assert_allclose(logits(hugging_face(smoothed)), logits(hugging_face(checkpoint)), atol=1e-3)
    before, after = activation_peaks(checkpoint, TOKENS), activation_peaks(smoothed, TOKENS)
    for name in before:
        if not name.endswith(("k_proj", "v_proj", "up_proj")):
            assert np.ptp(np.log(after[name])) < np.ptp(np.log(before[name])), name


def test_the_peaks_are_those_of_the_reference_model(llama: LlamaForCausalLM, checkpoint: Checkpoint) -> None:
    expected: dict[str, np.ndarray] = {}
    for name, module in llama.named_modules():
        if isinstance(module, torch.nn.Linear) and name != "lm_head":
            module.register_forward_pre_hook(
                lambda _, inputs, name=name: expected.update({name: inputs[0][0].abs().amax(0).numpy()})
            )
    logits(llama)
    peaks = activation_peaks(checkpoint, TOKENS)
    assert peaks.keys() == expected.keys()
    for name, peak in peaks.items():
        np.testing.assert_allclose(peak, expected[name], rtol=1e-3, atol=1e-5, err_msg=name)


def test_smollm2_says_the_same_in_ctranslate2_and_in_torch(tmp_path: Path) -> None:
    reader = open_gguf(fetch(SMOLLM2_135M) / SMOLLM2_135M.files[0])
    checkpoint, vocabulary = read_checkpoint(reader), read_vocabulary(reader)
    tokenizer = build_tokenizer(vocabulary)
    writer = prompt_writer(tokenizer, history_tokens=100, message_tokens=100)
    opening = writer.opening("You are a helpful AI assistant.", EXAMPLES[:2])
    questions = ["What is the capital of France?", "Why is the sea salty?", "Tell me a story.", "Bonjour, ça va ? 😀"]
    prompts = [writer.write(opening, [{"role": "user", "content": question}], 24) for question in questions]
    rows = [
        row(question, prompt.tokens, stop=stop_tokens(tokenizer), prefix_len=prompt.prefix_len)
        for question, prompt in zip(questions, prompts, strict=True)
    ]
    write_ctranslate2(checkpoint, vocabulary, tmp_path, "float32")
    answers = []
    for engine in (TorchEngine(LanguageModel(hugging_face(checkpoint))), CTranslate2Engine(tmp_path)):
        answers.append(Driver(engine).run(*rows))
        engine.stop()
    assert answers[0] == answers[1]
    assert "Paris" in tokenizer.decode(answers[0][questions[0]])
