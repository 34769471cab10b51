"""A proxy between external environments and a server that records messages."""

import contextlib
import selectors
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from gym_http_wire.external.framing import (
    CountedFraming,
    ReceivedMessage,
    WebSocketFraming,
)

MAX_MESSAGE = 64 * 1024 * 1024


class RecordingProxy:
    """Forwards bytes, and records the messages of both sides.

    Args:
        port: The server's.
        counted: Whether messages follow their counts of bytes; otherwise connections
            are WebSockets.

    Attributes:
        port: Its own.
        by_environments: The messages of external environments.
        by_server: The messages of the server.
    """

    def __init__(self, port: int, *, counted: bool = False) -> None:
        self._target = port
        self._counted = counted
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.by_environments: list[ReceivedMessage] = []
        self.by_server: list[ReceivedMessage] = []
        self._selector = selectors.DefaultSelector()
        self._waker, self._wake = socket.socketpair()
        self._thread = threading.Thread(target=self._run)

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

    def _run(self) -> None:
        ends: dict[socket.socket, tuple[socket.socket, Callable[[bytes], None]]] = {}
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._waker, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                end: socket.socket = key.fileobj  # type: ignore[assignment]
                if end is self._waker:
                    for each in ends:
                        each.close()
                    self._selector.close()
                    return
                if end is self._listener:
                    near, _ = end.accept()
                    server = socket.create_connection(("127.0.0.1", self._target))
                    ends[near] = server, self._noter(self.by_environments, client=False)
                    ends[server] = near, self._noter(self.by_server, client=True)
                    for each in (near, server):
                        self._selector.register(each, selectors.EVENT_READ)
                elif end in ends and not self._pass(end, *ends[end]):
                    for each in (end, ends[end][0]):
                        self._selector.unregister(each)
                        del ends[each]
                        each.close()

    @staticmethod
    def _pass(
        end: socket.socket, other: socket.socket, note: Callable[[bytes], None]
    ) -> bool:
        try:
            data = end.recv(1 << 16)
        except OSError:
            return False
        note(data)
        with contextlib.suppress(OSError):
            other.sendall(data)
        return bool(data)

    def _noter(
        self, messages: list[ReceivedMessage], *, client: bool
    ) -> Callable[[bytes], None]:
        if self._counted:
            carrier = CountedFraming(MAX_MESSAGE)
            return lambda data: messages.extend(carrier.feed(data))
        socket_reader = WebSocketFraming(MAX_MESSAGE, client=client)
        head = bytearray()

        def note(data: bytes) -> None:
            if b"\r\n\r\n" not in head:
                head.extend(data)
                data = bytes(head).partition(b"\r\n\r\n")[2]
                if b"\r\n\r\n" not in head:
                    return
            messages.extend(socket_reader.feed(data))

        return note
