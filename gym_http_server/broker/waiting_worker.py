"""Callers: web workers that wait for what the broker answers later."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from gym_http_server.frame_socket import FrameSocket
from gym_http_wire.frames import Frame

__all__ = ["WaitingWorker"]


class WaitingWorker(NamedTuple):
    """A web worker that waits for an answer.

    Attributes:
        until: Monotonic seconds.
    """

    line: FrameSocket
    number: int
    until: float

    def tell(self, frame: Frame) -> None:
        """Answer it, unless it is gone."""
        with contextlib.suppress(OSError):
            self.line.send(frame._replace(number=self.number))
