"""Simulates a bad network for streams: drops, cuts, delays and repeats their messages.

The proxy forwards requests and answers unchanged. It parses only the fields that it
needs to send a caught request again on another connection. It parses them by hand,
without the project's codecs.
"""

import asyncio
import collections
import contextlib
import enum
import random
import re
import struct
from collections.abc import Callable
from typing import NamedTuple

from tests.support import websocket
from tests.support.faults.http_connection import BROKEN, HttpConnection

_ANSWERED_CAUGHT = 2
_MOST_CAUGHT = 32
_LATEST_S = 0.2
_LONGEST_DELAY_S = 0.03
_BINARY = "application/vnd.gym-http.binary"
_UPGRADE = re.compile(rb"(?i)\r\nupgrade:[ \t]*websocket")
_PATHS = {1: "reset", 2: "step", 3: "render"}
_MESSAGE = 2
_BINARY_FORM = 3
_HEADER = struct.Struct("<IIHBBI")


class StreamFault(enum.StrEnum):
    """A fault of a request on a stream or of its answer."""

    #: The server does not see the request; the connection closes.
    DROPPED = "message dropped"
    #: The connection closes within the request.
    TORN = "message torn"
    #: The connection closes after the request, before a byte of the answer.
    UNANSWERED = "message unanswered"
    #: The connection closes within the answer.
    CUT = "answer cut"
    #: The answer is not sent, and the connection stays open.
    HELD = "answer held"
    #: Request and answer are delayed, with everything behind them.
    DELAYED = "message delayed"
    #: The exchange succeeds, and the request and earlier ones are repeated: at once
    #: or a while later, over another stream of the session or by REST.
    DOUBLED = "message doubled"


#: Counts handshakes that fail.
REFUSED = "handshake refused"
Counts = collections.Counter[str]


def is_handshake(request: bytes) -> bool:
    """Whether a request is the handshake of a stream."""
    return bool(_UPGRADE.search(request))


class CapturedRequest(NamedTuple):
    """A request in a form that can be sent over any transport.

    Attributes:
        number: Its number in its session.
        op: The operation.
        status: The value of the field that holds the status in answers.
        form: Of the body, and of the answer.
        body: With its signature.
    """

    number: int
    op: int
    status: int
    form: int
    body: bytes


class RequestRecorder:
    """Records the requests of one stream, which may send signatures by number."""

    def __init__(self) -> None:
        self._signatures: dict[int, bytes] = {}
        self._caught: collections.deque[CapturedRequest] = collections.deque(
            maxlen=_MOST_CAUGHT
        )

    def last(self, count: int) -> list[CapturedRequest]:
        """Return the last requests, the oldest first."""
        return list(self._caught)[-count:]

    def catch(self, frame: bytes) -> None:
        """Record the request in a client's WebSocket frame."""
        if frame[0] & 15 != _MESSAGE:
            return
        start = {126: 8, 127: 14}.get(frame[1] & 127, 6)
        message = websocket.masked(frame[start:], frame[start - 4 : start])
        _, head, status, op, form, number = _HEADER.unpack_from(message)
        body = message[_HEADER.size + head :]
        if form & 15 == _BINARY_FORM:
            size, named = struct.unpack_from("<II", body)
            signature = body[8 : 8 + size] or self._signatures[named]
            if named:
                self._signatures[named] = signature
            body = struct.pack("<II", len(signature), 0) + signature + body[8 + size :]
        self._caught.append(CapturedRequest(number, op, status, form, body))


class StreamAddress(NamedTuple):
    """The server, instance and session of a stream.

    Attributes:
        port: The server's.
        path: The instance's.
        session: Its name; "" if the server is to make one.
    """

    port: int
    path: str
    session: str

    @classmethod
    def of(cls, port: int, handshake: bytes) -> "StreamAddress":
        """Read a handshake."""
        path = handshake.split(b" ", 2)[1].decode()
        path, _, query = path.partition("stream?session=")
        session = query.partition("&")[0]
        return cls(port, path.removesuffix("stream"), session)


class FaultyStream:
    """Forwards one stream over a bad network.

    Args:
        client: The client's connection.
        server: The connection to the server, after the handshake.
        draw: Returns the fault of the next request, if it has one.
        dice: Random numbers for everything else.
        counts: Of messages and faults.
        double: Called with the requests that are to be sent once more.
    """

    def __init__(
        self,
        client: HttpConnection,
        server: HttpConnection,
        draw: Callable[[], StreamFault | None],
        dice: random.Random,
        counts: Counts,
        double: Callable[[list[CapturedRequest]], None],
    ) -> None:
        self._client = client
        self._server = server
        self._draw = draw
        self._dice = dice
        self._counts = counts
        self._double = double
        self._due: collections.deque[StreamFault | None] = collections.deque()
        self._net = RequestRecorder()

    async def run(self) -> None:
        """Forward all messages until the connection closes, or a fault closes it."""
        ways = {asyncio.create_task(self._forth()), asyncio.create_task(self._back())}
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            ends = await asyncio.gather(*ways, return_exceptions=True)
        self._client.close(rudely=self._dice.random() < 0.5)
        for end in ends:
            if isinstance(end, Exception) and not isinstance(end, BROKEN):
                raise end

    async def _forth(self) -> None:
        while True:
            message = await self._client.frame()
            fault = self._draw()
            self._counts["messages"] += 1
            if fault:
                self._counts[fault] += 1
            if fault is StreamFault.DROPPED:
                return
            if fault is StreamFault.TORN:
                await self._server.send(message[: self._within(message)])
                return
            self._net.catch(message)
            if fault is StreamFault.DOUBLED:
                # None may overtake one that the server has not seen: a client sends
                # all that are unanswered in their order, too.
                unanswered = len(self._due) + 1
                self._double(self._net.last(unanswered + _ANSWERED_CAUGHT))
            if fault is StreamFault.DELAYED:
                await asyncio.sleep(self._dice.uniform(0.0, _LONGEST_DELAY_S))
            self._due.append(fault)
            await self._server.send(message)
            # Early, the request may meet its own repetition in the server.
            if fault is StreamFault.UNANSWERED and self._dice.random() < 0.5:
                return

    async def _back(self) -> None:
        while True:
            answer = await self._server.frame()
            is_answer = answer[0] & 15 == _MESSAGE
            fault = self._due.popleft() if is_answer else None
            if fault is StreamFault.UNANSWERED:
                return
            if fault is StreamFault.CUT:
                await self._client.send(answer[: self._within(answer)])
                return
            if fault is StreamFault.HELD:
                await asyncio.Event().wait()
            if fault is StreamFault.DELAYED:
                await asyncio.sleep(self._dice.uniform(0.0, _LONGEST_DELAY_S))
            await self._client.send(answer)

    def _within(self, message: bytes) -> int:
        return self._dice.randrange(1, len(message))


async def send_again(
    origin: StreamAddress,
    caught: list[CapturedRequest],
    dice: random.Random,
    counts: Counts,
) -> None:
    """Send requests once more after a pause, and wait for their answers."""
    await asyncio.sleep(max(0.0, dice.uniform(-_LATEST_S / 4, _LATEST_S)))
    by_rest = dice.random() < 0.5
    with contextlib.suppress(*BROKEN):
        server = await HttpConnection.to(origin.port)
        try:
            if by_rest:
                await _by_rest(server, origin, caught)
            else:
                await _by_stream(server, origin, caught)
            counts["doubles answered by " + ("REST" if by_rest else "a stream")] += 1
        finally:
            server.close()


async def _by_stream(
    server: HttpConnection, origin: StreamAddress, caught: list[CapturedRequest]
) -> None:
    session = f"?session={origin.session}" if origin.session else ""
    await server.send(
        f"GET {origin.path}stream{session} HTTP/1.1\r\n"
        f"Host: 127.0.0.1:{origin.port}\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Protocol: gym-http.v1\r\n"
        f"Sec-WebSocket-Key: {websocket.KEY}\r\n"
        "\r\n".encode()
    )
    answer = await server.answer(b"GET")
    if not answer.startswith(b"HTTP/1.1 101"):
        raise ConnectionError(answer)
    for number, op, status, form, body in caught:
        message = websocket.binary(op, number, body, form=form, status=status)
        await server.send(websocket.frame(_MESSAGE, message))
    for _ in caught:
        await server.frame()


async def _by_rest(
    server: HttpConnection, origin: StreamAddress, caught: list[CapturedRequest]
) -> None:
    for number, op, _, form, body in caught:
        key = ""
        kind = _BINARY if form & 15 == _BINARY_FORM else "application/json"
        if origin.session:
            key = f"Idempotency-Key: {origin.session}-{number}\r\n"
        head = (
            f"POST {origin.path}{_PATHS[op]}/ HTTP/1.1\r\n"
            f"Host: 127.0.0.1:{origin.port}\r\n{key}"
            f"Content-Type: {kind}\r\nAccept: {_BINARY}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        await server.send(head.encode() + body)
        await server.answer(b"POST")
