"""Requests to other nodes, over kept connections.

A node's record says where it is; whether it is there is decided by the connection.
"""

from __future__ import annotations

import functools
import logging
import math
import socket
import ssl
import time
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urlsplit

from gym_http_server.errors import NodeAway
from gym_http_server.fleet.callers import CallerSignatures
from gym_http_server.fleet.joining import tls_context
from gym_http_server.fleet.records import Record, port_of
from gym_http_server.processes.log_lines import LimitedLog
from gym_http_server.web.backends.arriving_answer import Check
from gym_http_server.web.backends.nodes.answers import NodeAnswer, NodeLost
from gym_http_server.web.backends.nodes.connection import (
    ArrivingBody,
    NodeConnection,
    NodeStream,
    NotTheNode,
)
from gym_http_server.web.backends.nodes.known import KnownNodes

__all__ = ["ClientLeft", "NodeClient", "NodeRequest"]

CONNECT_SECONDS = 1.0
MAX_IDLE = 64
#: Seconds without a request after which a kept connection is looked at before its use.
#: A proxy between two nodes may close it, or write to it, which would be taken for the
#: answer. It does so after seconds, and each look costs a system call.
IDLE_SECONDS = 0.05
log = logging.getLogger("gym_http_server.fleet")


class ClientLeft(Exception):
    """The client that waits for an answer has closed its connection."""


class NodeRequest(NamedTuple):
    """A request to another node.

    Attributes:
        method: As ``POST``.
        target: The path, with the query.
        headers: Lines, without those of connection and body.
        body: The body.
    """

    method: str
    target: str
    headers: str
    body: bytes | ArrivingBody = b""

    def head(self, node: Record, framing: str) -> bytes:
        """Return its head, with other lines of headers in front of its own."""
        host = node.url.partition("//")[2]
        return (
            f"{self.method} {self.target} HTTP/1.1\r\nHost: {host}\r\n"
            f"{framing}{self.headers}\r\n"
        ).encode("latin-1")


class NodeClient:
    """Sends requests to other nodes.

    Args:
        nodes: The nodes.
        callers: Makes the proof that answers of nodes have.
        ca: File with the certificates of authorities; "": the system's.
    """

    def __init__(
        self, nodes: KnownNodes, callers: CallerSignatures, ca: str = ""
    ) -> None:
        self._nodes = nodes
        self._callers = callers
        self._tls = tls_context(ca)
        self._refusals = LimitedLog(log)
        # By boot.
        self._idle: dict[str, list[NodeConnection]] = {}
        self._busy: set[NodeConnection] = set()
        # Those that were busy at the last sweep.
        self._slow: set[NodeConnection] = set()

    def send(
        self,
        node: Record,
        request: NodeRequest,
        *,
        repeatable: bool,
        timeout_s: float | None = None,
        has_left: Callable[[], bool] | None = None,
    ) -> NodeAnswer:
        """Send a request to a node, and return its answer.

        Args:
            node: The node.
            request: The request.
            repeatable: Whether it may be sent again if its answer is lost; an upload
                may not.
            timeout_s: Seconds to wait; ``None``: as long as the node is there.
            has_left: Whether the client has left, so that nobody needs the answer.

        Raises:
            NodeAway: The node does not answer.
            ClientLeft: The client has left; the node notices that, too.
        """
        deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s

        def look() -> None:
            if has_left is not None and has_left():
                raise ClientLeft
            if time.monotonic() > deadline:
                raise NodeLost

        check = None if timeout_s is None and has_left is None else look
        for last in (False, True) if repeatable else (True,):
            try:
                # The node may just have closed an idle one.
                connection = self._connect(node, fresh=last)
                return self._exchange(connection, node, request, check)
            except NotTheNode:
                self._warn_of_another(node)
            except (NodeLost, OSError):
                pass
            if time.monotonic() > deadline:
                break
        raise _away(node)

    def _exchange(
        self,
        connection: NodeConnection,
        node: Record,
        request: NodeRequest,
        check: Check | None,
    ) -> NodeAnswer:
        """Send a request over a connection, which is released after the answer."""
        body = request.body
        self._busy.add(connection)
        try:
            if isinstance(body, bytes):
                head = request.head(node, f"Content-Length: {len(body)}\r\n")
                answer = connection.exchange(head + body, check)
            else:
                answer = connection.upload(
                    request.head(node, body.framing), body, check
                )
        except BaseException:
            connection.kept = False
            self._release(connection)
            raise
        if isinstance(answer.body, bytes):
            self._release(connection)
        else:
            answer.body.at_end = functools.partial(self._end, connection)
        return answer

    def _end(self, connection: NodeConnection, complete: bool) -> None:
        """Release a connection after a large answer."""
        connection.kept = complete and connection.kept and connection.usable
        self._release(connection)

    def open_stream(
        self, node: Record, target: str, headers: str, accept: str
    ) -> NodeAnswer | NodeStream:
        """Pass the handshake of a stream on to a node.

        Args:
            node: The node.
            target: The path, with the query.
            headers: Lines.
            accept: Sec-WebSocket-Accept of the answer.

        Returns:
            The stream; or the node's answer, if it refuses the handshake.

        Raises:
            NodeAway: The node does not answer.
        """

        def check() -> None:
            if self._nodes.is_away(node.boot):
                raise NodeLost

        try:
            connection = self._connect(node, fresh=True)
        except OSError:
            raise _away(node) from None
        try:
            head = NodeRequest("GET", target, headers).head(node, "")
            proof = self._callers.proof(node.boot, accept)
            return connection.open_stream(head, proof, check)
        except (NodeLost, OSError) as error:
            connection.close()
            if isinstance(error, NotTheNode):
                self._warn_of_another(node)
            raise _away(node) from None
        except BaseException:
            connection.close()
            raise

    def _connect(self, node: Record, *, fresh: bool) -> NodeConnection:
        idle = self._idle.get(node.boot)
        while idle and not fresh:
            kept = idle.pop()
            if time.monotonic() - kept.kept_at < IDLE_SECONDS or kept.usable:
                return kept
            kept.close()
        parts = urlsplit(node.url)
        address = parts.hostname, port_of(node.url)
        sock = socket.create_connection(address, CONNECT_SECONDS)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if parts.scheme == "https":
            sock = self._secured(sock, node, parts.hostname)
        proof = self._callers.proof(node.boot)
        return NodeConnection(sock, node.boot, proof)

    def _secured(
        self, sock: socket.socket, node: Record, host: str | None
    ) -> ssl.SSLSocket:
        """Begin TLS on a connection to a node.

        Raises:
            NodeAway: It could not prove its identity.
            OSError: The connection failed.
        """
        try:
            return self._tls.wrap_socket(sock, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            self._refusals.warning(
                f"the node {node.name} at {node.url} is not trusted: "
                f"{error.verify_message}; expected a certificate for {host} that "
                "--fleet-ca or the system's certificates verify"
            )
            raise NodeAway(
                f"the node {node.name} of this fleet has no certificate that this one "
                "trusts; the log says why"
            ) from None

    def _release(self, connection: NodeConnection) -> None:
        """Keep a connection for other requests, or close it."""
        self._busy.discard(connection)
        if connection.kept:
            idle = self._idle.setdefault(connection.boot, [])
            if len(idle) < MAX_IDLE:
                connection.kept_at = time.monotonic()
                idle.append(connection)
                return
        connection.close()

    def sweep(self) -> None:
        """Close idle connections whose other end has closed, end those to lost nodes.

        It is called each second.
        """
        for connection in self._busy & self._slow:
            if self._nodes.is_away(connection.boot):
                connection.end()
        self._slow = set(self._busy)
        for boot, idle in list(self._idle.items()):
            for each in [each for each in idle if not each.usable]:
                idle.remove(each)
                each.close()
            if not idle:
                del self._idle[boot]

    def _warn_of_another(self, node: Record) -> None:
        self._refusals.warning(
            f"the answer at {node.url} is not of the node {node.name}: expected one "
            "that proves the fleet token; another program has this address, or a "
            "proxy answers itself"
        )


def _away(node: Record) -> NodeAway:
    return NodeAway(
        f"the node {node.name} of this fleet does not answer; send the request again"
    )
