"""A cutter: passes bytes on between far sides and a server, until it is to cut."""

import contextlib
import selectors
import socket
import threading
from types import TracebackType
from typing import Self


class Cutter:
    """Listens on a port of its own.

    Args:
        port: The server's.

    Attributes:
        port: Its own.
        cuts: How often it has cut.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.cuts = 0
        # Pieces to see from the server, or from the far side, before the cut.
        self._from_server: int | None = None
        self._from_far: int | None = None
        self._lock = threading.Lock()
        self._selector = selectors.DefaultSelector()
        self._waker, self._wake = socket.socketpair()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._wake.close()
        self._thread.join()
        self._waker.close()
        self._listener.close()

    def cut_after(self, side: int) -> None:
        """Cut before the next request arrives (0), or before its answer does (1)."""
        with self._lock:
            self._from_server, self._from_far = (0, None) if not side else (None, 0)

    def _run(self) -> None:
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._selector.register(self._waker, selectors.EVENT_READ, None)
        pairs: dict[socket.socket, socket.socket] = {}
        servers: set[socket.socket] = set()
        while True:
            for key, _ in self._selector.select():
                end: socket.socket = key.fileobj  # type: ignore[assignment]
                if end is self._waker:
                    for each in pairs:
                        each.close()
                    self._selector.close()
                    return
                if end is self._listener:
                    near, _ = end.accept()
                    far = socket.create_connection(("127.0.0.1", self._target))
                    pairs[near], pairs[far] = far, near
                    servers.add(far)
                    for each in (near, far):
                        self._selector.register(each, selectors.EVENT_READ, None)
                elif end in pairs and not self._pass(end, pairs[end], end in servers):
                    for each in (end, pairs[end]):
                        self._selector.unregister(each)
                        servers.discard(each)
                        del pairs[each]
                        each.close()

    def _pass(self, end: socket.socket, other: socket.socket, served: bool) -> bool:
        try:
            data = end.recv(1 << 16)
        except OSError:
            return False
        if not data:
            return False
        with self._lock:
            due = self._from_server if served else self._from_far
            if due == 0:
                self._from_server = self._from_far = None
                self.cuts += 1
                return False
        with contextlib.suppress(OSError):
            other.sendall(data)
        return True
