from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from transformers import LlamaForCausalLM

from tests.engines import tiny_llama
from tests.engines.driver import Driver
from voice_omni.engines.ctranslate2_engine import CTranslate2Engine
from voice_omni.engines.torch_engine import TorchEngine
from voice_omni.engines.torch_model import LanguageModel
from voice_omni.models.starter.think_weights import open_gguf, read_checkpoint, read_vocabulary, write_ctranslate2


@pytest.fixture(scope="session")
def llama() -> LlamaForCausalLM:
    return tiny_llama.model()


@pytest.fixture(scope="session")
def llama_folder(llama: LlamaForCausalLM, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model for CTranslate2, float32."""
    folder = tmp_path_factory.mktemp("tiny-llama")
    tiny_llama.write_gguf(folder / "model.gguf", llama)
    reader = open_gguf(folder / "model.gguf")
    write_ctranslate2(read_checkpoint(reader), read_vocabulary(reader), folder, "float32")
    return folder


@pytest.fixture(params=["torch", "ctranslate2"])
def driver(request: pytest.FixtureRequest, llama: LlamaForCausalLM, llama_folder: Path) -> Iterator[Driver]:
    engine = (
        TorchEngine(LanguageModel(llama)) if request.param == "torch" else CTranslate2Engine(llama_folder, max_rows=3)
    )
    yield Driver(engine)
    engine.stop()
    assert set(engine.stats().values()) == {0}
