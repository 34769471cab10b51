"""Processes that serve all instances: broker, gateway and relay."""
