"""Gymnasium environments on a gym_http_server, from Python."""

from gym_http_client.client import Client
from gym_http_client.errors import (
    ServerError,
    ServerTimeout,
    ServerUnreachable,
    UnexpectedAnswer,
)

__all__ = [
    "Client",
    "ServerError",
    "ServerTimeout",
    "ServerUnreachable",
    "UnexpectedAnswer",
]
