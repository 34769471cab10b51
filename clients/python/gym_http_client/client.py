"""Client: the front door, and what concerns the server as a whole.

Values are plain JSON values both ways: an observation is a number or nested lists
and not an array. Actions and values may be NumPy arrays and scalars, though.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Self

import requests

from gym_http_client.batches import BatchCalls
from gym_http_client.connection import Connection
from gym_http_client.errors import ServerError
from gym_http_client.instances import InstanceCalls
from gym_http_client.retries import Retries
from gym_http_client.spaces import SpaceCalls

__all__ = ["Client"]


class Client(InstanceCalls, BatchCalls, SpaceCalls):
    """Uses the environments of one gym_http_server.

    Its methods are requests. Each raises ``ServerError`` when the server says no,
    and ``ServerUnreachable``, which is one too, when there is no answer. Requests
    whose answers are lost, or are one of 408, 429 and 503, are sent again for a
    while; the server executes them once. A client serves one thread: give each its
    own.

    Args:
        remote_base: The server's address; ``http://:TOKEN@host:5000`` holds a token.
        token: The server's token; else the one in the address, else the one in
            the environment variable ``GHS_TOKEN``. An empty one means none.
        timeout: Seconds that each try of a request waits for the server to accept the
            connection, and then for each part of the answer; None to wait for ever.
        retries: How requests are sent again, and for how long.
    """

    def __init__(
        self,
        remote_base: str = "http://127.0.0.1:5000",
        *,
        token: str | None = None,
        timeout: float | None = 60.0,
        retries: Retries | None = None,
    ) -> None:
        self._connection = Connection(
            remote_base, token=token, timeout=timeout, retries=retries
        )

    def __repr__(self) -> str:
        return f"Client({self.remote_base!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def remote_base(self) -> str:
        """The server's address, without the token."""
        return self._connection.base

    @property
    def session(self) -> requests.Session:
        """The session of ``requests`` that carries the calls."""
        return self._connection.session

    def close(self) -> None:
        """Close the connection; instances stay as they are."""
        self._connection.close()

    def server_info(self) -> dict[str, Any]:
        """Tell the server's versions, capabilities, limits and count of instances."""
        return dict(self._connection.get("/v1/"))

    def healthy(self) -> bool:
        """Tell whether there is a server that answers, now: this asks once."""
        try:
            self._connection.send("GET", "/healthz", once=True)
        except ServerError:
            return False
        return True

    def registry(
        self, search: str | None = None, available: bool | None = None
    ) -> list[dict[str, Any]]:
        """List the environments that the server knows.

        Args:
            search: Only those with this text in their name.
            available: Only those that can, or cannot, be created there.
        """
        query = {}
        if search is not None:
            query["search"] = search
        if available is not None:
            query["available"] = "true" if available else "false"
        return list(self._connection.get("/v1/registry/", query)["envs"])

    def upload(
        self,
        training_dir: str,
        algorithm_id: str | None = None,
        api_key: str | None = None,
    ) -> None:
        """Upload results to a scoreboard that is gone: always raises ServerError.

        It is there for old agents, and takes the key, as they expect, from the
        environment variable ``OPENAI_GYM_API_KEY`` when there is none here.
        """
        body = {
            "training_dir": training_dir,
            "algorithm_id": algorithm_id,
            "api_key": api_key or os.environ.get("OPENAI_GYM_API_KEY"),
        }
        self._connection.post("/v1/upload/", body)

    def shutdown_server(self) -> None:
        """Stop the server, which must have been started with leave for it."""
        self._connection.send("POST", "/v1/shutdown/")
