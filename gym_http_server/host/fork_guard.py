"""Ends processes that an environment forked and that return into the host's code.

After ``os.fork`` in an environment, two processes run. If the child returned from the
environment's call, too, both would answer the same requests on the same sockets.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys

from gym_http_wire.frames import encode
from gym_http_wire.messages import answer

__all__ = ["RETURNED", "check", "claim"]

#: Status by which such a process reports itself to the supervisor.
RETURNED = 508

_forked = False
_owner = 0
_channel: socket.socket | None = None


def _note_fork() -> None:
    global _forked
    _forked = True


os.register_at_fork(after_in_child=_note_fork)


def claim(channel: socket.socket | None = None) -> None:
    """Record that this process answers requests, and that its children must not.

    Args:
        channel: To the supervisor, which ends the instance when a child reports itself.
            Without a channel, the child kills this process.
    """
    global _forked, _owner, _channel
    _forked, _owner, _channel = False, os.getpid(), channel


def check() -> None:
    """End this process if it is a fork of the host.

    Call this after each call of the environment.
    """
    if _forked:
        _end()


def _end() -> None:
    with contextlib.suppress(Exception):
        print(
            "a process that the environment forked returned from the environment's "
            "call; it must end with os._exit()",
            file=sys.stderr,
            flush=True,
        )
    try:
        if _channel is not None:
            _channel.sendall(encode(answer(RETURNED)))
        else:
            os.kill(_owner, signal.SIGKILL)
    finally:
        os._exit(1)
