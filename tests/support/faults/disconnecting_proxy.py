"""A proxy that cuts connections between external environments and a server."""

import contextlib
import socket
import threading

from tests.support.listener import Listener, shut_down


class DisconnectingProxy(Listener):
    """Forwards bytes until `cut_after` requests a cut.

    Args:
        port: The server's.

    Attributes:
        cuts: The number of cuts so far.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self.cuts = 0
        self._severed = False
        # The sender of the next piece that is not forwarded.
        self._due: str | None = None
        self._cutting = threading.Lock()

    def cut_after(self, side: int) -> None:
        """Cut before the next request arrives (0), or before its answer does (1)."""
        with self._cutting:
            self._due = "environment" if side else "server"

    def cut_all(self) -> None:
        """Cut all connections now."""
        with self._lock:
            for each in self._open:
                shut_down(each)

    def sever(self) -> None:
        """Cut all connections, and all new ones until `mend`."""
        self._severed = True
        self.cut_all()

    def mend(self) -> None:
        """Forward connections again."""
        self._severed = False

    def attend(self, connection: socket.socket, number: int) -> None:
        """Forward bytes in both directions."""
        with contextlib.suppress(ConnectionRefusedError):
            self._attend(connection)

    def _attend(self, connection: socket.socket) -> None:
        with self.onward(self._target) as server:
            if self._severed:
                return
            pieces = (server, connection, "server")
            back = threading.Thread(target=self._pass_on, args=pieces)
            back.start()
            self._pass_on(connection, server, "environment")
            back.join()

    def _pass_on(self, source: socket.socket, target: socket.socket, name: str) -> None:
        with contextlib.suppress(OSError):
            while (data := source.recv(1 << 16)) and not self._is_cut(name):
                target.sendall(data)
        for each in (source, target):
            shut_down(each)

    def _is_cut(self, name: str) -> bool:
        with self._cutting:
            cut = self._due == name
            if cut:
                self._due = None
                self.cuts += 1
            return cut
