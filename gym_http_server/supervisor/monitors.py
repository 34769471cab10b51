"""Open the file of a monitor in a child of the supervisor, on behalf of a host."""

from __future__ import annotations

import signal
import socket

import msgspec

from gym_http_server import prctl
from gym_http_server.envhost.monitor import FILE_SECONDS, FileRequest, answer_file
from gym_http_server.supervisor.forks import start_child
from gym_http_wire.frames import Frame

__all__ = ["open_monitor"]


def open_monitor(data_dir: str, frame: Frame, line: int, owner: str) -> int:
    """Fork a child that opens the file which a host has requested.

    Args:
        data_dir: Directory below which monitors write.
        frame: The request.
        line: Descriptor of the socket to send the answer to.
        owner: Token that owns the instance; "" if there are no several tokens.

    Returns:
        The child's process ID; it ends by itself.

    Raises:
        ForkFailed: No process can be started.
    """

    def run(parent: int) -> int:
        for number in (signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        prctl.die_with_parent(parent)
        signal.alarm(FILE_SECONDS)
        request = msgspec.json.decode(frame.body, type=FileRequest)
        with socket.socket(fileno=line) as end:
            answer_file(end, data_dir, request, owner)
        return 0

    return start_child([line], run, "monitor file")
