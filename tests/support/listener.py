"""A base class for servers and proxies, with a thread for each connection."""

import contextlib
import itertools
import socket
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Self


class Listener:
    """Listens on a free port until the block ends, and then closes all connections.

    Attributes:
        port: Its own.
        url: Its address for HTTP clients.
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
        """Handle a connection, which is closed afterwards.

        Args:
            connection: The accepted connection.
            number: The number of the connection, from 0.
        """
        raise NotImplementedError

    @contextlib.contextmanager
    def onward(self, port: int) -> Iterator[socket.socket]:
        """Connect to a port of this machine until the block ends."""
        with (
            socket.create_connection(("127.0.0.1", port)) as server,
            self._kept(server),
        ):
            yield server

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
    """Shut a connection down in both directions, which ends reads on both sides."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
