"""Calls: an environment fetches what it is asked by HTTP, and posts its answers."""

from __future__ import annotations

import msgspec

from gym_http_client.errors import ServerError
from gym_http_client.http1 import Reply
from gym_http_client.links import Link
from gym_http_client.raising import told_by
from gym_http_client.retries import Retries
from gym_http_client.serving.lines import LineLost
from gym_http_wire.external.framing import ReceivedMessage
from gym_http_wire.external.handshake import Refused

__all__ = ["CallingLine"]

#: Seconds that the server waits for a request before it says that there is none.
WAIT_S = 2.0
TIME_LIMIT = 20.0
_EXTERNAL = "/v1/external/"


class CallingLine:
    """A connection that is made of calls.

    Args:
        url: The server's address.
        token: Its token; ``None`` is as for `Link`.
    """

    # Each look is a call, which the server answers.
    idles = False

    def __init__(self, url: str, token: str | None) -> None:
        self._link = Link(
            url, token=token, time_limit=TIME_LIMIT, retries=Retries(total=0)
        )
        self._path = ""
        self._welcome: bytes | None = None

    def send(self, payload: bytes, *, text: bool) -> None:
        """Say hello, or answer.

        Raises:
            LineLost: There is no server, or the connection is over.
        """
        kind = "application/json" if text else "application/octet-stream"
        if self._path:
            self._call("POST", f"{self._path}/answer", payload, kind)
            return
        reply = self._call("POST", _EXTERNAL, payload, kind)
        self._welcome = reply.body
        if reply.status == 200:
            self._path = f"{_EXTERNAL}{told_by(reply)['connection']}"
        else:
            told = told_by(reply)
            code = str(told.get("code", "bad-hello"))
            words = str(told.get("message", "bad hello"))
            self._welcome = msgspec.json.encode(Refused(code, words))

    def receive(self, seconds: float | None) -> ReceivedMessage | None:
        """Wait for a request, for longer than asked for: each look is a call.

        Raises:
            LineLost: There is no server, or the connection is over.
        """
        if self._welcome is not None:
            payload, self._welcome = self._welcome, None
            return ReceivedMessage(payload, True)
        reply = self._call("GET", f"{self._path}/request?wait_s={WAIT_S:g}")
        if reply.status == 204:
            return None
        return ReceivedMessage(reply.body, None)

    def _call(
        self, method: str, path: str, body: bytes = b"", kind: str | None = None
    ) -> Reply:
        try:
            reply = self._link.request(method, path, body, content_type=kind)
        except (ServerError, OSError) as error:
            raise LineLost(str(error)) from error
        if reply.status in (200, 204) or (reply.status == 400 and not self._path):
            return reply
        words = told_by(reply).get("message", f"status {reply.status}")
        raise LineLost(f"the server refuses: {words}")

    def close(self) -> None:
        """Call no more."""
        self._link.close()
