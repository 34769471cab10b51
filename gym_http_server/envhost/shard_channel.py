"""Lines: what the processes of one vector say to each other."""

from __future__ import annotations

import socket
from enum import IntEnum
from typing import Any

import msgspec

from gym_http_server.envhost import env_warnings
from gym_http_server.frame_socket import FrameSocket
from gym_http_wire.frames import Frame
from gym_http_wire.messages import problem_of
from gym_http_wire.values import binary

__all__ = ["ShardChannel", "ShardOp", "with_warnings"]

MAX_MESSAGE_BYTES = 2**31


def with_warnings(frame: Frame) -> Frame:
    """Add the pending warnings of this process, for the leading one to tell."""
    if not env_warnings.pending:
        return frame
    return frame._replace(head=msgspec.json.encode(env_warnings.take()))


class ShardOp(IntEnum):
    """What a part is asked for."""

    SHARE = 1
    RESET = 2
    STEP = 3
    RENDER = 4
    CALL = 5
    SET_ATTR = 6
    GENERATORS = 7
    SET_GENERATORS = 8
    INFOS = 9
    CLOSE = 10
    CALL_SOME = 11


class ShardChannel(FrameSocket):
    """One end of the connection between the leading process and a part."""

    def __init__(self, end: socket.socket) -> None:
        super().__init__(end, MAX_MESSAGE_BYTES, max_descriptors=1)

    def answer(self) -> Any:
        """Wait for the value of an answer.

        Raises:
            EOFError: The other end is gone.
            Problem: What the answer tells of instead.
        """
        frame = self.receive_one()
        if frame is None:
            raise EOFError("the part is gone")
        if frame.head:
            for each in msgspec.json.decode(frame.head):
                env_warnings.add(**each)
        if frame.status != 200:
            raise problem_of(frame)
        return binary.decode(frame.body)
