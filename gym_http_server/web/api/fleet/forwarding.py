"""A call at a node of a fleet, and how the node forwards it to another one.

The other node gets the request as it is, with the caller's identity in place of the
token.
"""

from __future__ import annotations

import secrets
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec

from gym_http_server.errors import AnswerBudgetFull, NodeAway
from gym_http_server.fleet.callers import ForwardedCaller, SignedParts
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
from gym_http_server.web.backends.arriving_answer import ArrivingAnswer
from gym_http_server.web.backends.budget import Room
from gym_http_server.web.backends.nodes.answers import NodeAnswer, NodeLost
from gym_http_server.web.backends.nodes.client import ClientLeft, NodeRequest
from gym_http_server.web.backends.nodes.connection import ArrivingBody, NodeStream
from gym_http_server.web.backends.nodes.fleet import Fleet
from gym_http_server.web.backends.transfers import PIECE
from gym_http_wire.messages import NODE_KEY
from gym_http_wire.websocket import accept_of

__all__ = ["FleetCall", "answer_of", "decoded", "joined"]

#: Headers that have a meaning at an instance's node. Others are not sent on, and so
#: need no room beside those that are added here.
SENT_ON = frozenset(
    {
        *("HTTP_ACCEPT", "HTTP_CONTENT_DIGEST", "HTTP_CONTENT_ENCODING"),
        *("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH", "HTTP_IF_RANGE", "HTTP_RANGE"),
        *("HTTP_SEC_FETCH_MODE", "HTTP_SEC_WEBSOCKET_KEY", "HTTP_TRACEPARENT"),
        *("HTTP_SEC_WEBSOCKET_PROTOCOL", "HTTP_SEC_WEBSOCKET_VERSION"),
    }
)
_RANGES = frozenset({"HTTP_IF_RANGE", "HTTP_RANGE"})
#: Characters of a header that are sent on. gunicorn joins headers of a name, and the
#: node takes no longer ones.
MOST_CHARS = 8000


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

    def forward(self, node: Record, body: bytes) -> Answer:
        """Send it to another node, and return the answer, to pass it on.

        A large one is still arriving.

        Raises:
            NodeAway: The node does not answer.
            AnswerBudgetFull: There is no room for a part of a large answer.
        """
        return self._passed_on(self._send(node, body, None))

    def fetch(
        self, node: Record, body: bytes, timeout_s: float | None = None
    ) -> Answer:
        """Send it to another node, and return the whole answer, to read it here.

        Raises:
            NodeAway: The node does not answer.
            AnswerBudgetFull: There is no room for a large answer.
        """
        answer = self._send(node, body, timeout_s)
        arriving = answer.body
        if not isinstance(arriving, ArrivingAnswer):
            return answer
        size = len(arriving)
        try:
            whole = arriving.receive_all(self._room(size, size))
        except ClientLeft:
            return empty_answer()
        except (NodeLost, OSError):
            raise NodeAway(
                f"the node {node.name} did not send its whole answer"
            ) from None
        finally:
            arriving.close()
        return answer._replace(body=whole)

    def _passed_on(self, answer: Answer) -> Answer:
        """Return an answer, with room for the part of it that is here at a time."""
        body = answer.body
        if isinstance(body, ArrivingAnswer):
            try:
                body.room = self._room(len(body), min(len(body), PIECE))
            except AnswerBudgetFull:
                body.close()
                raise
        return answer

    def _room(self, size: int, held: int) -> Room:
        caller = caller_of(self.environ)
        name = caller.run_token or caller.name
        return self.web.hosts.budget.forward(size, held, name)

    def _send(self, node: Record, body: bytes, timeout_s: float | None) -> Answer:
        """Send it to another node, and return the answer; a large one is arriving."""
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
        headers = self.headers(node, "")
        # The node refuses a handshake without them.
        for name in ("Connection", "Upgrade"):
            if value := self.environ.get(f"HTTP_{name.upper()}"):
                headers += f"{name}: {value}\r\n"
        accept = accept_of(self.environ.get("HTTP_SEC_WEBSOCKET_KEY", ""))
        target = self.environ["RAW_URI"]
        return self.fleet.client.open_stream(node, target, headers, accept)

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
            node, self._request(node, "", upload), repeatable=False
        )
        return self._passed_on(answer_of(answer, node))

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
    # The node gets a GET for HEAD, which has no ranges.
    sent_on = SENT_ON - _RANGES if environ["REQUEST_METHOD"] == "HEAD" else SENT_ON
    headers = {
        name[5:].replace("_", "-").title(): environ[name][:MOST_CHARS]
        for name in sorted(sent_on & environ.keys())
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
        if isinstance(answer.body, ArrivingAnswer):
            answer.body.close()
        raise NodeAway(f"the node {node.name} answered with {answer.status}")
    return Answer(*answer)


def decoded(answer: Answer) -> Any:
    """Return the value of an answer in JSON."""
    return msgspec.json.decode(joined(answer))


def joined(answer: Answer) -> bytes:
    """Return the body of an answer in one piece."""
    return b"".join(parts_of(answer.body))
