"""Servers and handles: what an adapter holds of a server, and of one instance there."""

from gym_http_client.handles.handle import Handle
from gym_http_client.handles.servers import Server

__all__ = ["Handle", "Server"]
