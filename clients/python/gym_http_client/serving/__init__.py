"""Lending environments of this process to a server, where agents find them."""

from gym_http_client.serving.serve import serve_env

__all__ = ["serve_env"]
