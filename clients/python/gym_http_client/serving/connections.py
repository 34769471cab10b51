"""Connections of a provider to a server, over TCP, WebSocket or HTTP polling."""

from __future__ import annotations

import base64
import contextlib
import os
import select
import selectors
import socket
import ssl
import stat
import sys
import threading
import time
from collections import deque
from typing import Protocol

import msgspec

from gym_http_client.errors import Failure, ServerError
from gym_http_client.http.addresses import Address
from gym_http_client.http.dialing import Dialer
from gym_http_client.http.error_mapping import json_object
from gym_http_client.http.http1 import BadAnswer, Reply, Request, RequestHeads
from gym_http_client.http.ports import OtherPort, Port, port_of
from gym_http_client.http.requester import Requester
from gym_http_client.http.retries import Retries
from gym_http_client.streaming.handshakes import NoStream, upgraded
from gym_http_wire.external.framing import (
    CountedFraming,
    Framing,
    FramingError,
    ReceivedMessage,
)
from gym_http_wire.external.framing import WebSocketFraming as WebSocket
from gym_http_wire.external.handshake import Refused

__all__ = [
    "STDIO",
    "ConnectionLost",
    "PollingConnection",
    "ProviderConnection",
    "SocketConnection",
    "StandardStreams",
    "open_tcp",
    "open_websocket",
]

#: Set by a server that talks to this process on its standard input and output.
STDIO = "stdio:"
RECEIVE_BYTES = 256 * 1024
HANDSHAKE_SECONDS = 10.0
MAX_MESSAGE = 64 * 1024 * 1024
#: Milliseconds until the kernel closes a connection whose peer acknowledges nothing.
SEND_MS = 30_000
CLOSE_SECONDS = 1.0
# Only Linux has it.
_USER_TIMEOUT: int | None = getattr(socket, "TCP_USER_TIMEOUT", None)
# Windows has no Unix sockets in Python.
_UNIX = getattr(socket, "AF_UNIX", None)
#: Seconds that the server waits for a request before it sends an empty answer.
WAIT_S = 2.0
TIME_LIMIT = 20.0
_EXTERNAL = "/v1/external/"


class ConnectionLost(Exception):
    """The connection has ended, or could not be opened."""


class ProviderConnection(Protocol):
    """A connection of a provider, over any transport.

    Attributes:
        idles: Whether the server may be silent for a long time.
    """

    idles: bool

    def send(self, payload: bytes, *, text: bool) -> None:
        """Send a message.

        Raises:
            ConnectionLost: The connection has ended.
        """

    def receive(self, seconds: float | None) -> ReceivedMessage | None:
        """Wait for a message; return ``None`` if none arrived in time.

        Raises:
            ConnectionLost: The connection has ended.
        """

    def close(self) -> None:
        """End the connection."""


class SocketConnection:
    """A connection over a socket: TCP or WebSocket.

    Args:
        end: The connected socket.
        carrier: The framing, which splits its bytes into messages.
        early: Bytes that were already received.
    """

    idles = True

    def __init__(
        self, end: socket.socket | StandardStreams, carrier: Framing, early: bytes = b""
    ) -> None:
        end.settimeout(None)
        if (
            _USER_TIMEOUT is not None
            and isinstance(end, socket.socket)
            and end.family != _UNIX
        ):
            end.setsockopt(socket.IPPROTO_TCP, _USER_TIMEOUT, SEND_MS)
        self._end = end
        self._selector = selectors.DefaultSelector()
        self._selector.register(end, selectors.EVENT_READ)
        self._carrier = carrier
        self._arrived: deque[ReceivedMessage] = deque()
        self._early = early
        self._unread = True

    def send(self, payload: bytes, *, text: bool) -> None:
        """Send a message.

        Raises:
            ConnectionLost: The connection has ended.
        """
        try:
            self._end.sendall(self._carrier.message(payload, text=text))
        except OSError as error:
            raise ConnectionLost(str(error)) from error

    def receive(self, seconds: float | None) -> ReceivedMessage | None:
        """Wait for a message.

        Args:
            seconds: How long to wait; ``None`` for no limit.

        Returns:
            The message; ``None`` if none arrived in time.

        Raises:
            ConnectionLost: The connection has ended.
        """
        until = None if seconds is None else time.monotonic() + seconds
        while not self._arrived:
            if self._early:
                data, self._early = self._early, b""
            else:
                left = None if until is None else until - time.monotonic()
                if left is not None and (left < 0 or not self._readable(left)):
                    return None
                data = self._read()
            self._feed(data)
        return self._arrived.popleft()

    def _readable(self, seconds: float) -> bool:
        if isinstance(self._end, ssl.SSLSocket) and self._end.pending():
            return True
        return bool(self._selector.select(seconds))

    def _read(self) -> bytes:
        try:
            data = self._end.recv(RECEIVE_BYTES)
        except OSError as error:
            raise ConnectionLost(str(error)) from error
        if not data:
            raise ConnectionLost("the server ended the connection")
        return data

    def _feed(self, data: bytes) -> None:
        carrier = self._carrier
        if self._unread:
            self._unread = False
            port = port_of(data)
            # The right port may send the same bytes with a refusal.
            if port is not None and port is not Port.PLAIN:
                raise ConnectionLost(str(OtherPort(port)))
        try:
            self._arrived.extend(carrier.feed(data))
        except FramingError as error:
            raise ConnectionLost(str(error)) from error
        if carrier.replies:
            replies, carrier.replies = carrier.replies, b""
            try:
                self._end.sendall(replies)
            except OSError as error:
                raise ConnectionLost(str(error)) from error
        if carrier.over and not self._arrived:
            raise ConnectionLost("the server ended the connection")

    def close(self) -> None:
        """End the connection."""
        with contextlib.suppress(OSError):
            self._end.settimeout(CLOSE_SECONDS)
            self._end.sendall(self._carrier.encode_close("the environment leaves"))
        self._selector.close()
        self._end.close()


class StandardStreams:
    """The standard input and output of this process, as a socket.

    What the process prints from now on goes to standard error. The process ends when
    its standard input does, also in the middle of a step.
    """

    def __init__(self) -> None:
        if stat.S_ISCHR(os.fstat(0).st_mode):
            raise ValueError(
                "url is 'stdio:' and standard input a terminal or /dev/null: expected "
                "a server that has started this program (serve --env-command "
                "NAME=COMMAND)"
            )
        sys.stdout.flush()
        self._input, self._output = os.dup(0), os.dup(1)
        with open(os.devnull, "rb") as null:
            os.dup2(null.fileno(), 0)
        os.dup2(2, 1)
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        poller = select.poll()
        # Without a mask, only the end of the input wakes this thread.
        poller.register(self._input, 0)
        poller.poll()
        os._exit(0)

    def connection(self) -> SocketConnection:
        """Return a connection to the server at the other end."""
        return SocketConnection(self, CountedFraming(MAX_MESSAGE))

    def fileno(self) -> int:
        """Return the descriptor of the input."""
        return self._input

    def settimeout(self, seconds: float | None) -> None:
        """Do nothing: the server reads at once, or ends."""

    def recv(self, most: int) -> bytes:
        """Return received bytes; empty at the end."""
        return os.read(self._input, most)

    def sendall(self, data: bytes) -> None:
        """Write bytes."""
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._output, rest) :]

    def close(self) -> None:
        """Close the output, from which the server reads."""
        os.close(self._output)


def open_tcp(host: str, port: int) -> SocketConnection:
    """Open a plain TCP connection to a server.

    Raises:
        ConnectionLost: No server accepts the connection.
    """
    try:
        end = socket.create_connection((host, port), HANDSHAKE_SECONDS)
    except OSError as error:
        raise ConnectionLost(f"there is no server at {host}:{port}: {error}") from error
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return SocketConnection(end, CountedFraming(MAX_MESSAGE))


def open_websocket(address: Address) -> SocketConnection:
    """Open a WebSocket to a server.

    Raises:
        ConnectionLost: No server accepts the connection, or it refuses the WebSocket.
    """
    head = RequestHeads(address).head(Request("GET", "/v1/external/"))
    end = time.monotonic() + HANDSHAKE_SECONDS
    key = base64.b64encode(os.urandom(16)).decode()
    try:
        sock = Dialer(address).dial(lambda: max(0.001, end - time.monotonic()))
    except (OSError, Failure) as error:
        raise ConnectionLost(f"there is no server at {address.url}: {error}") from error
    try:
        early = upgraded(sock, head.removesuffix(b"\r\n"), end, key, "")
    except NoStream as none:
        sock.close()
        problem = json_object(none.reply).get("message", f"status {none.reply.status}")
        raise ConnectionLost(f"the server refuses: {problem}") from none
    except OtherPort as error:
        sock.close()
        raise ConnectionLost(f"there is no server at {address.url}: {error}") from error
    except (OSError, BadAnswer) as error:
        sock.close()
        raise ConnectionLost(f"the handshake failed: {error}") from error
    return SocketConnection(sock, WebSocket(MAX_MESSAGE, client=True), early)


class PollingConnection:
    """A connection by HTTP long polling.

    Args:
        url: The server's address.
        token: Its token; ``None`` as for `Requester`.
    """

    # The server answers each poll, so it is never silent for long.
    idles = False

    def __init__(self, url: str, token: str | None) -> None:
        self._link = Requester(
            url, token=token, time_limit=TIME_LIMIT, retries=Retries(total=0)
        )
        self._path = ""
        self._welcome: bytes | None = None

    def send(self, payload: bytes, *, text: bool) -> None:
        """Send hello, or an answer, in a POST.

        Raises:
            ConnectionLost: The server does not answer, or the connection has ended.
        """
        kind = "application/json" if text else "application/octet-stream"
        if self._path:
            self._call("POST", f"{self._path}/answer", payload, kind)
            return
        reply = self._call("POST", _EXTERNAL, payload, kind)
        self._welcome = reply.body
        if reply.status == 200:
            self._path = f"{_EXTERNAL}{json_object(reply)['connection']}"
        else:
            problem = json_object(reply)
            code = str(problem.get("code", "bad-hello"))
            words = str(problem.get("message", "bad hello"))
            self._welcome = msgspec.json.encode(Refused(code, words))

    def receive(self, seconds: float | None) -> ReceivedMessage | None:
        """Poll once for a request; the HTTP call may take longer than ``seconds``.

        Raises:
            ConnectionLost: The server does not answer, or the connection has ended.
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
            raise ConnectionLost(str(error)) from error
        if reply.status in (200, 204) or (reply.status == 400 and not self._path):
            return reply
        words = json_object(reply).get("message", f"status {reply.status}")
        raise ConnectionLost(f"the server refuses: {words}")

    def close(self) -> None:
        """Close the connection."""
        self._link.close()
