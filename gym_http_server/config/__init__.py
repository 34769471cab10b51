"""How a server is set up: its settings, and what they name."""
