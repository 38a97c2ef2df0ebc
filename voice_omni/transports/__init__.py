"""How sound and events reach a session and leave it."""
