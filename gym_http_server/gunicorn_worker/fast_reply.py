"""Replies to whole requests: a head that is known already, and one piece to send."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from gunicorn import util  # type: ignore[import-untyped]
from gunicorn.http.wsgi import Response  # type: ignore[import-untyped]

from gym_http_server.gunicorn_worker.client_socket import ClientSocket
from gym_http_server.gunicorn_worker.fast_request import FastRequest

__all__ = ["FastReplies"]

_MAX_KNOWN = 512
# Up to this size a body is copied behind its head, which is cheaper than a second
# system call, and than waking the client twice.
_SMALL = 64 * 1024

_Headers = list[tuple[str, str]]
_Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class _Start:
    """What an application says before the body."""

    __slots__ = ("early", "headers", "status")
    early: list[bytes]
    headers: _Headers
    status: str

    def __init__(self) -> None:
        self.early = []

    def __call__(
        self, status: str, headers: _Headers, exc_info: object = None
    ) -> Callable[[bytes], None]:
        if exc_info is None and hasattr(self, "status"):
            raise AssertionError("the application starts its answer twice")
        self.status, self.headers = status, headers
        return self.early.append


class FastReplies:
    """Answers whole requests with what the application says.

    Args:
        cfg: gunicorn's configuration.
        application: The WSGI application.
    """

    def __init__(self, cfg: Any, application: _Application) -> None:
        self._cfg = cfg
        self._application = application
        self._heads: dict[tuple[Any, ...], bytes] = {}
        self._second = 0
        self._date = b""

    def reply(self, request: FastRequest, client: ClientSocket) -> bool:
        """Answer a request; return whether the connection stays."""
        start = _Start()
        chunks = self._application(request.environ, start)
        if type(chunks) is list:
            body = chunks[0] if len(chunks) == 1 else None
        else:
            # Applications may also return a large body as a memoryview.
            body = getattr(chunks, "whole", None)
        if body is None or start.early:
            return self._reply_in_pieces(request, client, start, chunks)
        headers = start.headers
        sized = headers and headers[-1] == ("Content-Length", str(len(body)))
        if not sized or request.should_close():
            return self._reply_in_pieces(request, client, start, chunks)
        shape = (start.status, *headers)
        head = self._heads.get(shape) or self._write_head(shape, request, client)
        if len(body) <= _SMALL:
            client.sendall(b"%b%b%b" % (head, self._date_line(), body))
        else:
            client.sendall(head + self._date_line())
            client.sendall(body)
        return True

    def _reply_in_pieces(
        self,
        request: FastRequest,
        client: ClientSocket,
        start: _Start,
        chunks: Iterable[bytes],
    ) -> bool:
        response = Response(request, client, self._cfg)
        try:
            for chunk in chunks:
                self._begin(response, start)
                response.write(chunk)
            self._begin(response, start)
            response.close()
        finally:
            if hasattr(chunks, "close"):
                chunks.close()
        return not response.should_close()

    @staticmethod
    def _begin(response: Response, start: _Start) -> None:
        # Not before the first chunk, when it may not have been said yet.
        if response.status is None:
            response.start_response(start.status, start.headers)
            for chunk in start.early:
                response.write(chunk)

    def _write_head(
        self, shape: tuple[Any, ...], request: FastRequest, client: ClientSocket
    ) -> bytes:
        status, *headers = shape
        response = Response(request, client, self._cfg)
        response.start_response(status, headers)
        lines = [
            line for line in response.default_headers() if not line.startswith("Date:")
        ]
        lines += [f"{name}: {value}\r\n" for name, value in response.headers]
        head = "".join(lines).encode("latin-1")
        if len(self._heads) >= _MAX_KNOWN:
            self._heads.clear()
        self._heads[shape] = head
        return head

    def _date_line(self) -> bytes:
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._date = f"Date: {util.http_date(second)}\r\n\r\n".encode()
        return self._date
