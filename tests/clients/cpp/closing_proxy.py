"""A proxy that closes kept connections instead of answering requests on them."""

import re
from typing import NamedTuple

from tests.support.faults.http_connection import HttpConnection
from tests.support.faults.relay import Relay

_STEP = re.compile(rb"POST /v1/envs/[0-9a-f]{8}/step/? ")
_KEY = re.compile(rb"(?i)\r\nidempotency-key:[ \t]*([^\r]*)")


class Passed(NamedTuple):
    """A step on its way to the server.

    Attributes:
        key: Its Idempotency-Key.
        body: What it asks for.
        connection: On which connection of the client's, counted from 0.
        answered: Whether the client was told what came of it.
    """

    key: bytes
    body: bytes
    connection: int
    answered: bool


class ClosingProxy(Relay):
    """Passes all on; of each new step on a used connection it forgets the answer.

    The server has taken that step by then, and the connection ends without a byte of
    the answer. libcurl takes this for a connection that was idle for too long, and
    sends the request again by itself.

    Args:
        port: The server's, on this machine.

    Attributes:
        steps: All that were passed on.
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
