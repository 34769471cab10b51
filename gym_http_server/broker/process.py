"""What the broker's process does."""

from __future__ import annotations

import socket

from gym_http_server import boot
from gym_http_server.access import Keys
from gym_http_server.authentication import Authenticator, WrongTokens
from gym_http_server.broker.messages import BrokerSettings
from gym_http_server.broker.server import Broker
from gym_http_server.service_process import isolate, limit_waits, run_service

__all__ = ["run"]


def run(
    listener: socket.socket,
    doors: tuple[int, int] | None,
    settings: BrokerSettings,
    parent_pid: int,
) -> int:
    """Be the broker until the end; return the exit status.

    Args:
        listener: Where web workers and hosts connect.
        doors: Descriptors of the socket by which environments come in by plain TCP,
            and of what the launcher left, with the token.
        settings: The broker's settings.
        parent_pid: The supervisor; the process ends with it.
    """
    isolate(parent_pid)
    limit_waits()
    broker = Broker(listener, settings)
    if doors is not None:
        keys = Keys.of(boot.read_from(doors[1])[0])
        advice = "show it as token in the hello"
        authenticator = Authenticator(keys, WrongTokens(), advice) if keys else None
        broker.open_door(socket.socket(fileno=doors[0]), authenticator)
    return run_service(broker, "broker")
