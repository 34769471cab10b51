"""The HTTP API: read, call, answer."""
