"""What the gateway's process does."""

from __future__ import annotations

import os

from gym_http_server import boot
from gym_http_server.access import Keys
from gym_http_server.authentication import Authenticator, WrongTokens
from gym_http_server.gateway.context import Context, GatewaySettings
from gym_http_server.gateway.router import Router
from gym_http_server.gateway.server import Gateway
from gym_http_server.service_process import isolate, run_service

__all__ = ["run"]


def run(door: int, left: int, settings: GatewaySettings, parent_pid: int) -> int:
    """Be the gateway until the end; return the exit status.

    Args:
        door: Descriptor of the socket by which peers come in.
        left: Descriptor of what the launcher left, with the token.
        settings: The gateway's settings.
        parent_pid: The supervisor; the process ends with it.
    """
    isolate(parent_pid)
    whole, run_dir = boot.read_from(left)
    most = settings.max_message
    router = Router(os.dup(door), settings.place, most, settings.heartbeat_s)
    authenticator = Authenticator(Keys.of(whole), WrongTokens(), "show it as token")
    gateway = Gateway(Context(run_dir, settings, authenticator), router)
    return run_service(gateway, "gateway")
