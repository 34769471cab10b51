"""Listening on a port of one's own, with a thread for each connection."""

import contextlib
import itertools
import socket
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Self


class Listener:
    """Listens from here to the end of the block, which ends all connections.

    Attributes:
        port: Its own.
        url: Where HTTP clients find it.
    """

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=32)
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._ending = False
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Closing alone would not wake the thread that accepts.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()
        with self._lock:
            self._ending = True
            for each in self._open:
                shut_down(each)
        for thread in self._threads:
            thread.join()

    def attend(self, connection: socket.socket, number: int) -> None:
        """Do with a connection what is to be done; it is closed behind that.

        Args:
            connection: It ends when the block does.
            number: They count from 0.
        """
        raise NotImplementedError

    @contextlib.contextmanager
    def onward(self, port: int) -> Iterator[socket.socket]:
        """Have a connection to a port of this machine, which ends with the block."""
        with socket.create_connection(("127.0.0.1", port)) as far, self._kept(far):
            yield far

    def _accept(self) -> None:
        for number in itertools.count():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._run, args=(connection, number))
            self._threads.append(thread)
            thread.start()

    def _run(self, connection: socket.socket, number: int) -> None:
        with connection, self._kept(connection):
            self.attend(connection, number)

    @contextlib.contextmanager
    def _kept(self, connection: socket.socket) -> Iterator[None]:
        with self._lock:
            self._open.add(connection)
            if self._ending:
                shut_down(connection)
        try:
            yield
        finally:
            with self._lock:
                self._open.discard(connection)


def shut_down(connection: socket.socket) -> None:
    """Wake whoever reads from a connection, here and at its far end."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
