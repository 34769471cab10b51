"""A proxy that closes kept connections instead of answering on them."""

import asyncio
import re
import threading
from types import TracebackType
from typing import NamedTuple, Self

from tests.support.lines import BROKEN, Line

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


class Forgetful:
    """Passes all on; of each new step on a used connection it forgets the answer.

    The server has taken that step by then, and the connection ends without a byte of
    the answer. libcurl takes this for a connection that was idle for too long, and
    sends the request again by itself.

    Args:
        port: The server's, on this machine.

    Attributes:
        url: Where clients find it.
        steps: All that were passed on.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready = threading.Event()
        self._connections = 0
        self.steps: list[Passed] = []

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._ready.wait(10.0)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        self._ready.set()
        await self._over.wait()
        listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.create_task(self._attend(Line(reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _attend(self, client: Line) -> None:
        number, self._connections = self._connections, self._connections + 1
        server = await Line.to(self._port)
        used = False
        try:
            while await self._exchange(client, server, number, used):
                used = True
        except BROKEN:
            pass  # the client has ended it
        finally:
            client.close()
            server.close()

    async def _exchange(
        self, client: Line, server: Line, number: int, used: bool
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
