"""Handles by HTTP, and by streams that begin there."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from gym_http_client.handles.handle import Handle
from gym_http_client.links import Link
from gym_http_client.raising import object_in
from gym_http_client.sessions import Session
from gym_http_client.warned import HEADER, show_header
from gym_http_wire.messages import MEDIA_TYPES, Form
from gym_http_wire.values import binary

__all__ = ["WebHandle"]

_BINARY = MEDIA_TYPES[Form.BINARY]


class WebHandle(Handle[Session]):
    """One instance on a server.

    Args:
        link: The connection to the server; the handle's own.
        instance_id: The instance.
        session: Makes a session of it.
    """

    def __init__(
        self, link: Link, instance_id: str, session: Callable[[], Session]
    ) -> None:
        super().__init__(session, link.url, instance_id)
        self._link = link
        self._path = f"/v1/envs/{instance_id}/"
        self._request = link.request

    def _end(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        self._session.get().leave(seconds / 2)
        left = until - time.monotonic()
        self._request("POST", self._path + "close/", closing_seconds=left)

    def _release(self) -> None:
        self._session.get().abandon()
        self._link.abandon()

    def _begin_end(self, seconds: float) -> None:
        self._session.get().abandon()
        self._link.begin(self._path + "close/", seconds)

    def _finish_end(self, seconds: float) -> None:
        self._link.finish(seconds)

    def _ask_other(self, session: Session, method: str, path: str, given: Any) -> Any:
        # It must not come before what was sent earlier.
        session.drain()
        path = self._path + path
        body = binary.encode(given) if method == "POST" else b""
        reply = self._request(method, path, body, content_type=_BINARY, accept=_BINARY)
        show_header(reply.headers.get(HEADER.lower()))
        if reply.status == 200 and reply.headers["content-type"] == _BINARY:
            return binary.decode(reply.body)
        return object_in(reply, self._link.url + path)
