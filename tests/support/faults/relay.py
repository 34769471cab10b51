"""A base class for proxies, with an asyncio task for each connection."""

import asyncio
import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

from tests.support.faults.http_connection import BROKEN, HttpConnection


class Relay:
    """A proxy in front of a server, on its own thread, until the block ends.

    Args:
        port: The server's, on this machine.

    Attributes:
        url: Its own address.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._ready = threading.Event()
        self._accepted: list[socket.socket] = []
        self._ends: list[HttpConnection] = []
        self._tasks: list[asyncio.Task[None]] = []

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._ready.wait(10.0)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    async def attend(
        self, client: HttpConnection, server: HttpConnection, number: int
    ) -> None:
        """Handle a client's connection; both connections close afterwards.

        Args:
            client: The connection of the client.
            server: A new connection to the server.
            number: The number of the connection, from 0.
        """
        raise NotImplementedError

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
            listener.setblocking(False)
            self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            # Not by a server of asyncio's: closed between accepting a connection and
            # attending to it, that loses the connection without closing it.
            self._loop.add_reader(listener, self._accept, listener)
            self._ready.set()
            await self._over.wait()
            self._loop.remove_reader(listener)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for end in self._ends:
            # Closing it would wait until its peer has read all sent bytes.
            end.abort()
        await asyncio.sleep(0)
        for connection in self._accepted:
            # Of a task that was cancelled before it began.
            connection.close()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
            connection, _ = listener.accept()
            attending = self._attend(connection, len(self._accepted))
            self._accepted.append(connection)
            self._tasks.append(self._loop.create_task(attending))

    async def _attend(self, connection: socket.socket, number: int) -> None:
        ends: list[HttpConnection] = []
        try:
            ends.append(await HttpConnection.over(connection))
            ends.append(await HttpConnection.to(self._port))
            self._ends += ends
            await self.attend(ends[0], ends[1], number)
        except BROKEN:
            pass  # one end closed the connection, so the other one is closed, too
        finally:
            for end in ends:
                end.close()
