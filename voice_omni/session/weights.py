"""The weights that the session layer needs whatever the model: when somebody speaks, and when a turn is over."""

from __future__ import annotations

from voice_omni.weights.declaration import Weights

SILERO_VAD = Weights(
    name="silero-vad",
    source="pypi:silero-vad==6.2.3",
    sha256="7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
    folder="silero_vad/data",
    files=("silero_vad.onnx",),
    size=11_317_527,
    licence="MIT",
    description="Voice activity, 16 kHz and 8 kHz, ONNX",
)

SMART_TURN = Weights(
    name="smart-turn-v3.2",
    source="pypi:pipecat-ai==1.14.0",
    sha256="0352f504b44e78bdf524e45af4bc759601c835b9b7dc195efe5e03384b974a44",
    folder="pipecat/audio/turn/smart_turn/data",
    files=("smart-turn-v3.2-cpu.onnx",),
    size=12_109_725,
    licence="BSD-2-Clause",
    description="End of turn from audio, int8 ONNX",
)

WEIGHTS = (SILERO_VAD, SMART_TURN)
