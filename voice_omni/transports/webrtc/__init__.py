"""Calls over WebRTC: the media of each call, in a process of their own."""
