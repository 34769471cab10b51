"""The engine that drives an environment: calls in, values or problems out."""
