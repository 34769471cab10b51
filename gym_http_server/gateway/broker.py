"""The broker as the gateway reaches it: far sides are handed over to it."""

from __future__ import annotations

import contextlib
import socket

import msgspec

from gym_http_server.access import Identity
from gym_http_server.frame_socket import FrameSocket, limit_sending
from gym_http_server.poller import Poller
from gym_http_server.rundir.directory import RunDir
from gym_http_wire.external.framing import COUNTED
from gym_http_wire.messages import Op, RequestHead, request

__all__ = ["BrokerConnection"]


class BrokerConnection:
    """The connection to the broker, opened again if the broker is another one.

    Args:
        run: The run directory.
        poller: Watches it.
    """

    def __init__(self, run: RunDir, poller: Poller) -> None:
        self._path = run.broker_socket
        self._poller = poller
        self._line: FrameSocket | None = None

    def hand_over(self, end: socket.socket, identity: Identity) -> None:
        """Hand one end of a far side's connection over.

        Args:
            end: The end.
            identity: The identity of the token that the far side has shown.

        Raises:
            OSError: There is no broker.
        """
        come = {"greeting": "", "framing": COUNTED, "identity": identity}
        head = RequestHead(value=msgspec.json.encode(come).decode())
        frame = request(Op.EXTERNAL_CONNECT, head=head)
        if self._line is not None:
            with contextlib.suppress(OSError):
                self._line.send(frame, end.fileno())
                return
            self._drop()
        line = self._connected()
        try:
            line.send(frame, end.fileno())
        except OSError:
            self._drop()
            raise

    def _connected(self) -> FrameSocket:
        end = socket.socket(socket.AF_UNIX)
        try:
            end.connect(self._path)
        except OSError:
            end.close()
            raise
        limit_sending(end)
        self._line = FrameSocket(end)
        self._poller.add(self._line, self._hear)
        return self._line

    def _hear(self, events: int) -> None:
        # It says that it has taken them, and nothing else.
        if self._line is not None and self._line.receive() is None:
            self._drop()

    def _drop(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            self._poller.remove(line)
            line.close()
