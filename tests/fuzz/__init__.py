"""Messages that no well-behaved client sends, and what a server owes whoever sends them."""
