"""A proxy that answers some requests wrongly and forwards the others to a server."""

import asyncio
import re
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from tests.support import websocket
from tests.support.faults.http_connection import BROKEN, HttpConnection
from tests.support.faults.relay import Relay
from tests.support.faults.stream_faults import is_handshake

#: Answers a request on a client's connection. Returns whether the connection continues.
#: `pass_on` leaves the answer to the server.
BadAnswer = Callable[[HttpConnection, "SeenRequest"], Awaitable[bool]]

_CREATE = re.compile(rb"POST /v1/envs/? ")
_STEP = re.compile(rb"POST /v1/envs/[0-9a-f]{8}/step/? ")
_STEP_OP = 2
_OPERATION = 10
_BINARY = 2


class SeenRequest(NamedTuple):
    """A request as it arrived.

    Attributes:
        place: ``create`` and ``step`` by REST, ``handshake`` of a stream, ``message``
            for a step over one, ``other``.
        key: Its Idempotency-Key, or the equivalent over a stream; "" without one.
        body: The body, or the message.
        head: Head of the HTTP request; empty over a stream.
    """

    place: str
    key: str
    body: bytes
    head: bytes

    def header(self, name: str) -> str | None:
        """Return a header's value, or None."""
        pattern = rb"(?i)\r\n%s:[ \t]*([^\r]*)" % name.encode()
        found = re.search(pattern, self.head)
        return found[1].decode().strip() if found else None


async def pass_on(_line: HttpConnection, _seen: SeenRequest) -> bool:
    """Marks requests that the server answers itself."""
    raise AssertionError("this is not called")


class BadServer(Relay):
    """A proxy in front of a server until the block ends.

    Args:
        port: The server's, on this machine.
        tricks: For each place, the handlers of its requests in order; the last one
            handles all further requests. The server answers at all other places.

    Attributes:
        seen: All requests.
    """

    def __init__(self, port: int, tricks: Mapping[str, Sequence[BadAnswer]]) -> None:
        super().__init__(port)
        self._tricks = {place: list(each) for place, each in tricks.items()}
        self.seen: list[SeenRequest] = []

    def at(self, *places: str) -> list[SeenRequest]:
        """Return the requests that arrived at some places."""
        return [each for each in self.seen if each.place in places]

    async def attend(
        self, client: HttpConnection, server: HttpConnection, number: int
    ) -> None:
        """Answer requests, one after the other."""
        while await self._exchange(client, server):
            pass

    async def _exchange(self, client: HttpConnection, server: HttpConnection) -> bool:
        """Answer a request; return whether the connection stays open."""
        request = await client.request()
        seen = _read(request)
        trick = self._trick(seen)
        if trick is not pass_on:
            return await trick(client, seen)
        await server.send(request)
        answer = await server.answer(request.split(b" ", 1)[0])
        await client.send(answer)
        if not answer.startswith(b"HTTP/1.1 101"):
            return True
        session = re.search(rb"\?session=([^& ]*)", request)
        back = asyncio.create_task(self._back(client, server))
        try:
            while await self._forth(client, server, session[1] if session else b""):
                pass
        finally:
            back.cancel()
            await asyncio.gather(back, return_exceptions=True)
        return False

    async def _forth(
        self, client: HttpConnection, server: HttpConnection, session: bytes
    ) -> bool:
        frame = await client.frame()
        start = {126: 8, 127: 14}.get(frame[1] & 127, 6)
        message = websocket.masked(frame[start:], frame[start - 4 : start])
        if frame[0] & 15 == _BINARY and message[_OPERATION] == _STEP_OP:
            number = struct.unpack_from("<I", message, 12)[0]
            seen = SeenRequest("message", f"{session.decode()}-{number}", message, b"")
            trick = self._trick(seen)
            if trick is not pass_on:
                return await trick(client, seen)
        await server.send(frame)
        return True

    async def _back(self, client: HttpConnection, server: HttpConnection) -> None:
        try:
            while True:
                await client.send(await server.frame())
        except BROKEN:
            client.close()

    def _trick(self, seen: SeenRequest) -> BadAnswer:
        self.seen.append(seen)
        tricks = self._tricks.get(seen.place, [pass_on])
        return tricks.pop(0) if len(tricks) > 1 else tricks[0]


def _read(request: bytes) -> SeenRequest:
    head, _, body = request.partition(b"\r\n\r\n")
    place = "other"
    if is_handshake(request):
        place = "handshake"
    elif _CREATE.match(request):
        place = "create"
    elif _STEP.match(request):
        place = "step"
    seen = SeenRequest(place, "", body, head)
    return seen._replace(key=seen.header("idempotency-key") or "")
