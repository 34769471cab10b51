"""Handshakes: open connections and upgrade them to WebSockets."""

from __future__ import annotations

import base64
import os
import socket
import ssl
import time

from gym_http_client.errors import Failure, FailureKind
from gym_http_client.http.dialing import Dialer
from gym_http_client.http.http1 import BadAnswer, Reply, ReplyReader, read_head
from gym_http_client.http.ports import OtherPort, Port, port_of
from gym_http_wire.handshakes import BINARY_PROTOCOL
from gym_http_wire.websocket import WebSocketError, accept_of

__all__ = ["LONGEST_WAIT", "NoStream", "shake_hands", "stream_failure", "upgraded"]

#: The longest wait that is set for a socket, in seconds.
LONGEST_WAIT = 1e6
_MAX_HEAD = 64 * 1024
_RECEIVE_BYTES = 64 * 1024


class NoStream(Exception):
    """The server did not accept the handshake.

    Attributes:
        reply: Its answer.
    """

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"the handshake was answered with status {reply.status}")
        self.reply = reply


def shake_hands(
    dialer: Dialer, head: bytes, limit: float, protocol: str = BINARY_PROTOCOL
) -> tuple[socket.socket, bytes]:
    """Open a connection and upgrade it to a stream.

    Args:
        dialer: Opens the connection.
        head: Head of the request, without the headers of the handshake and the
            blank line at its end.
        limit: Seconds for the connection and the handshake together.
        protocol: The dialect of the stream.

    Returns:
        The connection, and the bytes of the stream that followed the answer.

    Raises:
        NoStream: The server refuses the stream.
        Failure: There is no answer.
    """
    end = time.monotonic() + limit
    try:
        sock = dialer.dial(lambda: _left(end))
    except OSError as error:
        raise Failure.of(error) from error
    try:
        key = base64.b64encode(os.urandom(16)).decode()
        return sock, upgraded(sock, head, end, key, protocol)
    except (OSError, BadAnswer) as error:
        sock.close()
        raise stream_failure(error) from error
    except BaseException:
        sock.close()
        raise


def stream_failure(error: Exception) -> Failure:
    """Convert an error of a stream's connection to a failure."""
    if isinstance(error, OtherPort):
        return Failure(FailureKind.MISTAKEN, error)
    if isinstance(error, BadAnswer | WebSocketError):
        return Failure(FailureKind.MALFORMED, error)
    # For a blocking socket, the kernel reports a timeout as EAGAIN.
    if isinstance(error, TimeoutError | BlockingIOError | ssl.SSLWantReadError):
        return Failure(FailureKind.TIMEOUT, "nothing within the time limit")
    return Failure(FailureKind.LOST, error)


def upgraded(
    sock: socket.socket, head: bytes, end: float, key: str, protocol: str
) -> bytes:
    """Perform a WebSocket handshake over a connection.

    Args:
        sock: The connection.
        head: Head of the request, as for `shake_hands`.
        end: The time limit, in monotonic seconds.
        key: The handshake's key.
        protocol: The subprotocol that the server must accept; "" for none.

    Returns:
        The bytes after the answer.

    Raises:
        NoStream: The server did not accept the handshake.
        OSError: The connection is lost.
        BadAnswer: The bytes are not an answer to the handshake.
    """
    chosen = f"Sec-WebSocket-Protocol: {protocol}\r\n" if protocol else ""
    sock.settimeout(_left(end))
    sock.sendall(
        head
        + b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
        + b"Sec-WebSocket-Version: 13\r\n"
        + f"{chosen}Sec-WebSocket-Key: {key}\r\n\r\n".encode()
    )
    data = _read_head(sock, end)
    if not data.startswith((b"HTTP/1.1 101", b"HTTP/1.0 101")):
        raise NoStream(_refusal(sock, data, end))
    head_bytes, _, rest = data.partition(b"\r\n\r\n")
    headers = read_head(head_bytes).headers
    accepted = headers.get("sec-websocket-accept") == accept_of(key)
    if not accepted or headers.get("sec-websocket-protocol", "") != protocol:
        raise BadAnswer("the handshake's answer is not to our handshake")
    return rest


def _read_head(sock: socket.socket, end: float) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data and len(data) <= _MAX_HEAD:
        sock.settimeout(_left(end))
        more = sock.recv(_RECEIVE_BYTES)
        if not more:
            raise ConnectionResetError("the connection was closed in the handshake")
        data += more
        if port_of(data) is Port.ZEROMQ:
            # No other answer would follow.
            raise OtherPort(Port.ZEROMQ)
    return data


def _refusal(sock: socket.socket, data: bytes, end: float) -> Reply:
    reader = ReplyReader()
    reply = reader.feed(data)
    while reply is None:
        sock.settimeout(_left(end))
        more = sock.recv(_RECEIVE_BYTES)
        reply = reader.feed(more) if more else reader.end()
        if not more and reply is None:
            raise ConnectionResetError("the refusal of the stream was cut off")
    return reply


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return min(left, LONGEST_WAIT)
