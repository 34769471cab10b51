"""OpenEnv's own clients, which ``make openenv`` installs, and what they have sent."""
