"""A proxy that closes kept connections instead of answering requests on them."""

import re
from typing import NamedTuple

from tests.support.faults.http_connection import HttpConnection
from tests.support.faults.relay import Relay

_STEP = re.compile(rb"POST /v1/envs/[0-9a-f]{8}/step/? ")
_KEY = re.compile(rb"(?i)\r\nidempotency-key:[ \t]*([^\r]*)")


class Passed(NamedTuple):
    """A forwarded step.

    Attributes:
        key: Its Idempotency-Key.
        body: Its body.
        connection: The number of the client's connection, from 0.
        answered: Whether the client received its answer.
    """

    key: bytes
    body: bytes
    connection: int
    answered: bool


class ClosingProxy(Relay):
    """Forwards requests, but drops the answer to each new step on a used connection.

    The server has taken that step by then, and the connection ends without a byte of
    the answer. libcurl takes this for a connection that was idle for too long, and
    sends the request again by itself.

    Args:
        port: The server's, on this machine.

    Attributes:
        steps: All forwarded steps.
    """

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.steps: list[Passed] = []

    async def attend(
        self, client: HttpConnection, server: HttpConnection, number: int
    ) -> None:
        """Pass exchanges on until an answer is forgotten."""
        used = False
        while await self._exchange(client, server, number, used):
            used = True

    async def _exchange(
        self, client: HttpConnection, server: HttpConnection, number: int, used: bool
    ) -> bool:
        request = await client.request()
        await server.send(request)
        answer = await server.answer(request.split(b" ", 1)[0])
        if _STEP.match(request):
            found = _KEY.search(request)
            key = found[1] if found else b""
            forgotten = used and key not in {each.key for each in self.steps}
            body = request.partition(b"\r\n\r\n")[2]
            self.steps.append(Passed(key, body, number, not forgotten))
            if forgotten:
                return False
        await client.send(answer)
        return True
