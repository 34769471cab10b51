"""The access log: a line for each request that reaches the application."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from gym_http_server.access import EVERYONE
from gym_http_server.api.exchange import (
    CALLER,
    Environ,
    StartResponse,
    request_id_of,
)
from gym_http_server.log_lines import access

__all__ = ["AccessLog"]


class AccessLog:
    """A WSGI application that logs the requests that it passes to another.

    Args:
        application: The other one.
    """

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application

    def __call__(
        self, environ: Environ, start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer a request, and log it."""
        began = time.perf_counter()
        status, size = 500, 0

        def start(line: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            nonlocal status, size
            status = int(line[:3])
            lengths = (value for name, value in headers if name == "Content-Length")
            size = int(next(lengths, 0))
            return start_response(line, headers, *more)

        try:
            return self._application(environ, start)
        except StopIteration:
            # The connection is a stream now.
            status = 101
            raise
        finally:
            access(
                peer=environ["REMOTE_ADDR"] or "a local socket",
                method=environ["REQUEST_METHOD"],
                path=environ["PATH_INFO"],
                status=status,
                request_id=request_id_of(environ),
                token=environ.get(CALLER, EVERYONE).name,
                size=size,
                ms=1000 * (time.perf_counter() - began),
            )
