"""What the lobby's process does with itself, and how it ends."""

from __future__ import annotations

import logging
import os
import signal
import socket
from typing import Any

from gym_http_server import boot, prctl
from gym_http_server.lobby.said import LobbySettings
from gym_http_server.lobby.server import Lobby

__all__ = ["run"]


class _Ended(BaseException):
    """Somebody wants this process to end."""


def run(
    listener: socket.socket,
    doors: tuple[int, int] | None,
    settings: LobbySettings,
    parent_pid: int,
) -> int:
    """Be the lobby until the end; return the exit status.

    Args:
        listener: Where web workers and hosts connect.
        doors: Descriptors of the socket by which environments come in by plain TCP,
            and of what the launcher left, with the token.
        settings: The lobby's settings.
        parent_pid: The supervisor; the process ends with it.
    """
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    prctl.die_with_parent(parent_pid, signal.SIGKILL)
    os.setsid()
    lobby = Lobby(listener, settings)
    if doors is not None:
        token = boot.read_from(doors[1])[0].token
        lobby.open_door(socket.socket(fileno=doors[0]), token)
    try:
        lobby.run()
    except _Ended:
        lobby.farewell()
    except Exception:
        logging.getLogger("gym_http_server.lobby").exception("the lobby failed")
        return 1
    return 0


def _end(number: int, frame: Any) -> None:
    raise _Ended
