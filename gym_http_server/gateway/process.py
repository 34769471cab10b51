"""What the gateway's process does with itself, and how it ends."""

from __future__ import annotations

import logging
import os
import signal
from typing import Any

from gym_http_server import boot, prctl
from gym_http_server.gateway.house import GatewaySettings, House
from gym_http_server.gateway.router import Router
from gym_http_server.gateway.server import Gateway

__all__ = ["run"]


class _Ended(BaseException):
    """Somebody wants this process to end."""


def run(door: int, left: int, settings: GatewaySettings, parent_pid: int) -> int:
    """Be the gateway until the end; return the exit status.

    Args:
        door: Descriptor of the socket by which peers come in.
        left: Descriptor of what the launcher left, with the token.
        settings: The gateway's settings.
        parent_pid: The supervisor; the process ends with it.
    """
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    prctl.die_with_parent(parent_pid, signal.SIGKILL)
    os.setsid()
    whole, run_dir = boot.read_from(left)
    most = settings.max_message
    router = Router(os.dup(door), settings.place, most, settings.heartbeat_s)
    gateway = Gateway(House(run_dir, settings, whole.token), router)
    try:
        gateway.run()
    except _Ended:
        gateway.farewell()
    except Exception:
        logging.getLogger("gym_http_server.gateway").exception("the gateway failed")
        return 1
    return 0


def _end(number: int, frame: Any) -> None:
    raise _Ended
