"""Watching: receives copies of what an instance answers to others, or its states."""

from __future__ import annotations

import json
import socket
from collections import deque
from types import TracebackType
from typing import Any, NamedTuple, Self

from gym_http_client.errors import Failure
from gym_http_client.http.addresses import Address
from gym_http_client.http.dialing import Dialer
from gym_http_client.http.error_mapping import error_from_reply, unanswered_error
from gym_http_client.http.http1 import MAX_BODY, BadAnswer, Request, RequestHeads
from gym_http_client.streaming.handshakes import NoStream, shake_hands, stream_failure
from gym_http_wire.frames import HEADER
from gym_http_wire.handshakes import BINARY_PROTOCOL, TEXT_PROTOCOL
from gym_http_wire.messages import Form, Op
from gym_http_wire.signatures import ReceivedSignatures
from gym_http_wire.values import BadValue
from gym_http_wire.websocket import (
    Masks,
    Message,
    MessageReader,
    Opcode,
    WebSocketError,
    encode,
)

__all__ = ["Showing", "Shown", "Watched", "Watching"]

_RECEIVE_BYTES = 64 * 1024
_HEADER_SIZE = HEADER.size


class Watched(NamedTuple):
    """The copy of an answer to another client.

    Attributes:
        op: ``"reset"``, ``"step"``, ``"render"`` or, for a problem, ``"rollout"``.
        number: Number of the answer since watching began; 0 for an earlier answer.
        dropped: Number of answers dropped directly before it, because this client was
            too slow.
        status: HTTP status.
        value: The value that the environment returned; or, unless the status is 200,
            the problem's ``code``, ``message`` and ``extras``.
    """

    op: str
    number: int
    dropped: int
    status: int
    value: Any


class Shown(NamedTuple):
    """The state of an instance at a moment.

    Attributes:
        state: What happened last and what was counted, as docs/streams.md has it:
            ``op``, ``action``, ``reward``, ``steps``, ``ansi`` and more.
        picture: A JPEG file, or ``None``; ``state["picture"]`` has its size, and
            ``state["why"]`` why there is none.
    """

    state: dict[str, Any]
    picture: bytes | None


class _WatchStream:
    """A stream that sends no requests.

    Args:
        address: The server's.
        path: Of the stream, with its query.
        time_limit: Seconds that the handshake may take.
        protocol: The dialect.

    Raises:
        ServerUnreachable: There is no answer.
        ServerError: The server refuses.
    """

    def __init__(
        self, address: Address, path: str, time_limit: float, protocol: str
    ) -> None:
        self._url = address.url + path
        self._masks = Masks()
        self._reader = MessageReader(masked=False, max_message=MAX_BODY)
        request = Request("GET", path, accept="application/problem+json")
        head = RequestHeads(address).head(request).removesuffix(b"\r\n")
        try:
            self._socket, early = shake_hands(
                Dialer(address), head, time_limit, protocol
            )
        except NoStream as none:
            raise error_from_reply(none.reply, self._url) from none
        except Failure as failure:
            raise unanswered_error(failure, "GET", self._url, None, 1) from failure
        self._socket.settimeout(None)
        # An instance may be idle for hours; keepalive detects a lost server.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._arrived: deque[Message] = deque()
        self._early = early

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def close(self) -> None:
        """Stop watching."""
        self._socket.close()

    def _failed(self, error: Exception) -> Exception:
        """Close the stream, and return the exception for its reader."""
        self.close()
        return unanswered_error(stream_failure(error), "GET", self._url, None, 1)

    def _next_message(self) -> Message:
        """Wait for the next text or binary message.

        Raises:
            StopIteration: The instance was closed.
            OSError: The connection is lost.
            BadAnswer: The stream is malformed; or `WebSocketError`.
        """
        while True:
            while not self._arrived:
                self._receive()
            message = self._arrived.popleft()
            if message.opcode in (Opcode.BINARY, Opcode.TEXT):
                return message
            if message.opcode == Opcode.CLOSE:
                self.close()
                raise StopIteration
            if message.opcode == Opcode.PING:
                pong = bytes(message.payload)
                self._socket.sendall(encode(Opcode.PONG, pong, self._masks.next()))

    def _receive(self) -> None:
        space = self._reader.space()
        if space is not None:
            size = self._socket.recv_into(space)
            messages = self._reader.received(size)
        else:
            data = self._early or self._socket.recv(_RECEIVE_BYTES)
            self._early = b""
            size = len(data)
            messages = self._reader.feed(data)
        if not size:
            raise ConnectionResetError("the stream ended")
        self._arrived.extend(messages)


class Watching(_WatchStream):
    """Iterates over the answers of one instance until it is closed.

    Args:
        address: The server's.
        instance_id: The instance.
        time_limit: Seconds that the handshake may take.
        form: ``"plain"`` for values of plain JSON; "" for lossless values.

    Raises:
        ServerUnreachable: There is no answer.
        ServerError: The server refuses.
    """

    def __init__(
        self, address: Address, instance_id: str, time_limit: float, *, form: str = ""
    ) -> None:
        path = f"/v1/envs/{instance_id}/stream?watch=1"
        if form:
            path += f"&form={form}"
        self._announced = ReceivedSignatures()
        super().__init__(address, path, time_limit, BINARY_PROTOCOL)

    def __next__(self) -> Watched:
        """Wait for the next answer.

        Raises:
            StopIteration: The instance was closed.
            ServerUnreachable: The connection is lost.
            UnexpectedAnswer: A message is not a copy of an answer.
        """
        try:
            message = self._next_message()
            if message.opcode != Opcode.BINARY:
                raise BadAnswer("a message is text")
            return self._read(message.payload)
        except (OSError, BadAnswer, WebSocketError) as error:
            raise self._failed(error) from error

    def _read(self, payload: bytes | memoryview) -> Watched:
        if len(payload) < _HEADER_SIZE:
            raise BadAnswer(f"a message has {len(payload)} bytes")
        body_size, head_size, status, op, form, number = HEADER.unpack_from(payload)
        start = _HEADER_SIZE + head_size
        if start + body_size != len(payload):
            raise BadAnswer(f"a message of {len(payload)} bytes announces others")
        try:
            name = Op(op).name.lower()
            head = bytes(payload[_HEADER_SIZE:start])
            dropped = json.loads(head)["dropped"] if head else 0
            if form == Form.BINARY:
                value = self._announced.read(payload, start)
            else:
                value = json.loads(bytes(payload[start:]))
        except (ValueError, KeyError, TypeError, RecursionError, BadValue) as error:
            raise BadAnswer(f"a message is no copy of an answer: {error}") from error
        return Watched(name, number, dropped, status, value)


class Showing(_WatchStream):
    """Iterates over the states that are shown of one instance until it is closed.

    Args:
        address: The server's.
        instance_id: The instance.
        time_limit: Seconds that the handshake may take.
        fps: States a second at most, 1 to 60.
        share: Part of the host's time that drawing may take, 0.01 to 1.
        size: Pixels that the longer side of a picture may have, 16 to 2048.

    Raises:
        ServerUnreachable: There is no answer.
        ServerError: The server refuses.
    """

    def __init__(
        self,
        address: Address,
        instance_id: str,
        time_limit: float,
        *,
        fps: float,
        share: float,
        size: int,
    ) -> None:
        path = (
            f"/v1/envs/{instance_id}/stream?watch=1&form=show"
            f"&fps={fps:g}&share={share:g}&size={size}"
        )
        super().__init__(address, path, time_limit, TEXT_PROTOCOL)

    def __next__(self) -> Shown:
        """Wait for the next state.

        Raises:
            StopIteration: The instance was closed.
            ServerUnreachable: The connection is lost.
            UnexpectedAnswer: A message is malformed, or out of its place.
        """
        try:
            message = self._next_message()
            if message.opcode != Opcode.TEXT:
                raise BadAnswer("a picture came without a text")
            state = self._state(bytes(message.payload))
            if state["picture"] is None:
                return Shown(state, None)
            message = self._next_message()
            if message.opcode != Opcode.BINARY:
                raise BadAnswer("a text came instead of a picture")
            return Shown(state, bytes(message.payload))
        except (OSError, BadAnswer, WebSocketError) as error:
            raise self._failed(error) from error

    def _state(self, text: bytes) -> dict[str, Any]:
        try:
            state = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadAnswer(f"a message is no JSON: {error}") from error
        if not isinstance(state, dict) or not {"show", "picture"} <= state.keys():
            raise BadAnswer(f"a message shows no state: {text[:80]!r}")
        return state
