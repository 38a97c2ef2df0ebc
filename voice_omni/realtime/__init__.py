"""The OpenAI Realtime protocol (GA dialect): events in, events and commands out. No sockets, no models, no clock."""
