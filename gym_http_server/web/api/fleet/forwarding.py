"""A call at a node of a fleet, and how the node forwards it to another one.

The other node gets the request as it is, with the caller's identity in place of the
token.
"""

from __future__ import annotations

import secrets
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec

from gym_http_server.errors import NodeAway
from gym_http_server.fleet.records import Record
from gym_http_server.operations.row import Operation
from gym_http_server.web.api.exchange import (
    FORWARDED,
    SAME_HEAD,
    STATUS_LINES,
    Answer,
    Environ,
    caller_of,
    empty_answer,
    key_of,
    parts_of,
    read_body,
    request_id_of,
    with_body,
)
from gym_http_server.web.api.web import View, Web
from gym_http_server.web.backends.nodes.callers import ForwardedCaller, SignedParts
from gym_http_server.web.backends.nodes.client import ClientLeft, NodeRequest
from gym_http_server.web.backends.nodes.connection import (
    ArrivingBody,
    NodeAnswer,
    NodeStream,
)
from gym_http_server.web.backends.nodes.fleet import Fleet
from gym_http_wire.messages import NODE_KEY

__all__ = ["FleetCall", "answer_of", "decoded", "joined"]

#: Not sent on: they are of this connection, or have been checked here.
_KEPT_HERE = frozenset(
    {
        *("HTTP_AUTHORIZATION", "HTTP_CONNECTION", "HTTP_COOKIE", "HTTP_EXPECT"),
        *("HTTP_HOST", "HTTP_KEEP_ALIVE", "HTTP_ORIGIN", "HTTP_REFERER", "HTTP_TE"),
        *("HTTP_PROXY_AUTHORIZATION", "HTTP_TRAILER", "HTTP_TRANSFER_ENCODING"),
        *("HTTP_UPGRADE", "HTTP_IDEMPOTENCY_KEY", "HTTP_X_REQUEST_ID"),
    }
)


class FleetCall(NamedTuple):
    """A call of an operation at a node of a fleet.

    Attributes:
        fleet: The fleet.
        row: The operation.
        view: Its view on a server alone.
        web: The collaborators of views.
        environ: The request.
    """

    fleet: Fleet
    row: Operation
    view: View
    web: Web
    environ: Environ

    @property
    def is_forwarded(self) -> bool:
        """Whether another node has forwarded it, so that this one must answer it."""
        return FORWARDED in self.environ

    @property
    def method(self) -> str:
        """The method for another node: this one omits the body after ``HEAD``."""
        method: str = self.environ["REQUEST_METHOD"]
        return "GET" if method == "HEAD" else method

    def read_body(self) -> bytes:
        """Read the body."""
        return read_body(self.environ, self.web.settings.max_body)

    def here(self, **arguments: str) -> Answer:
        """Answer it on this node alone."""
        return self.view(self.web, self.environ, **arguments)

    def with_body(self, body: bytes) -> FleetCall:
        """Return the call with a body that was read already."""
        return self._replace(environ=with_body(self.environ, body))

    def forward(
        self, node: Record, body: bytes, timeout_s: float | None = None
    ) -> Answer:
        """Send it to another node, and return the answer.

        Raises:
            NodeAway: The node does not answer.
        """
        key = key_of(self.environ)
        if self.row.keyed and not key:
            # So that it may be sent again if its answer is lost.
            key = NODE_KEY + secrets.token_hex(16)
        client = self.environ.get("gunicorn.socket") if self.row.waits else None
        try:
            answer = self.fleet.client.send(
                node,
                self._request(node, key, body),
                repeatable=self.row.keyed or not self.row.has_effect,
                budget=self.web.hosts.budget,
                timeout_s=timeout_s,
                has_left=client and client.has_left,
            )
        except ClientLeft:
            return empty_answer()
        return answer_of(answer, node)

    def open_stream(self, node: Record) -> NodeAnswer | NodeStream:
        """Forward the handshake of a WebSocket to a node.

        Returns:
            The connection; or the node's answer, if it refuses the handshake.

        Raises:
            NodeAway: The node does not answer.
        """
        upgrade = self.environ.get("HTTP_UPGRADE", "")
        headers = self.headers(node, "")
        headers += f"Connection: Upgrade\r\nUpgrade: {upgrade}\r\n"
        return self.fleet.client.open_stream(node, self.environ["RAW_URI"], headers)

    def relay(self, stream: NodeStream) -> None:
        """Relay a stream of a node until it ends, or the caller's token is removed."""
        client, name = self.environ["gunicorn.socket"], caller_of(self.environ).name
        self.fleet.relayed.relay(client, stream, name, self.web.accepts)

    def forward_upload(self, node: Record, upload: ArrivingBody) -> Answer:
        """Send it to another node while its body arrives, and return the answer.

        Raises:
            NodeAway: The node does not answer.
        """
        answer = self.fleet.client.send(
            node,
            self._request(node, "", upload),
            repeatable=False,
            budget=self.web.hosts.budget,
        )
        return answer_of(answer, node)

    def _request(
        self, node: Record, key: str, body: bytes | ArrivingBody
    ) -> NodeRequest:
        target, headers = self.environ["RAW_URI"], self.headers(node, key)
        return NodeRequest(self.method, target, headers, body)

    def headers(self, node: Record, key: str) -> str:
        """Return the lines of headers for another node, which acts for the caller."""
        environ = self.environ
        request_id, caller = request_id_of(environ), caller_of(environ)
        name = "" if caller.run_token else caller.name
        parts = SignedParts(self.method, environ["RAW_URI"], request_id, key)
        acting = ForwardedCaller(name, caller.run_token)
        signature = self.fleet.callers.sign(node, acting, parts)
        shared = environ.get(SAME_HEAD, {})
        if "forwarded" not in shared:
            shared["forwarded"] = _forwarded(environ)
        # The node reads these fast at the end of a head, as what is before repeats.
        lines = shared["forwarded"]
        lines += f"Authorization: {signature}\r\nX-Request-Id: {request_id}\r\n"
        return f"{lines}Idempotency-Key: {key}\r\n" if key else lines


def _forwarded(environ: Environ) -> str:
    """Return the lines of the client's headers that are sent on."""
    headers = {
        name[5:].replace("_", "-").title(): value
        for name, value in environ.items()
        if name.startswith("HTTP_") and name not in _KEPT_HERE
    }
    if environ.get("CONTENT_TYPE"):
        headers["Content-Type"] = environ["CONTENT_TYPE"]
    return "".join([f"{name}: {value}\r\n" for name, value in headers.items()])


def answer_of(answer: NodeAnswer, node: Record) -> Answer:
    """Return a node's answer as one of this node.

    Raises:
        NodeAway: It is malformed.
    """
    if answer.status not in STATUS_LINES or answer.status < HTTPStatus.OK:
        raise NodeAway(f"the node {node.name} answered with {answer.status}")
    return Answer(*answer)


def decoded(answer: Answer) -> Any:
    """Return the value of an answer in JSON."""
    return msgspec.json.decode(joined(answer))


def joined(answer: Answer) -> bytes:
    """Return the body of an answer in one piece."""
    return b"".join(parts_of(answer.body))
