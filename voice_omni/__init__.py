"""voice_omni: a real-time voice agent server. Speech in, speech out, through a streaming chain of model stages."""

__version__ = "0.1.0"
