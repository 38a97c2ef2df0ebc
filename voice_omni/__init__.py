"""voice_omni: a real-time voice agent server. Speech in, speech out, through a streaming chain of model stages."""

import os

__version__ = "0.1.0"

# ONNX Runtime's builds for Linux and macOS report to Microsoft unless this is set before they are loaded (from 1.29 on:
# https://github.com/microsoft/onnxruntime/pull/27379). Nothing here tells anybody that people talk, or with what.
# It stands here because every process of the server begins with it, and whoever wants to report can still say so.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
