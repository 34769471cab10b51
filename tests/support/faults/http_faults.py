"""A proxy that drops, cuts, delays and repeats HTTP requests and their answers.

Faults of open streams are in `tests.support.faults.stream_faults`. The proxy runs in
its own process, so that it uses no time of the interpreter of the clients under test.
`FaultyNetwork` is its handle; the rest of the module is the code of that process.
"""

import argparse
import asyncio
import collections
import contextlib
import enum
import json
import random
import re
import subprocess
import sys
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

from tests.support.faults.http_connection import BROKEN, HttpConnection
from tests.support.faults.stream_faults import (
    REFUSED,
    CapturedRequest,
    FaultyStream,
    StreamAddress,
    StreamFault,
    is_handshake,
    send_again,
)
from tests.support.server import ROOT

_LAST = re.compile(rb"(?i)\r\nconnection:[ \t]*close")
_KEY = re.compile(rb"(?i)\r\nidempotency-key:[^\r]*")
_SESSION = re.compile(rb"\?session=[^ ]*")
_LATEST_S = 0.2
# Three handshakes that fail one after the other end the streams of a client.
_MOST_REFUSED = 0.1
_BUSY = b"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n"


class Fault(enum.StrEnum):
    """A fault of an exchange."""

    #: The server does not see the request; the connection closes.
    DROPPED = enum.auto()
    #: The connection closes after the request, before a byte of the answer.
    UNANSWERED = enum.auto()
    #: The connection closes within the answer.
    CUT = enum.auto()
    #: The answer does not come, and the connection stays.
    HELD = enum.auto()
    #: The exchange succeeds, and the request is repeated: at once, or after a while.
    DOUBLED = enum.auto()


class FaultyNetwork:
    """A bad network in front of a server until the block ends.

    Args:
        port: The server's, on this machine.
        probability: The probability of a fault in an exchange.
        seed: Of the random numbers.
        keys: Whether requests keep their Idempotency-Key, and streams their session.
        holds: Whether answers may be held back. Clients need a timeout that leaves them
            time to send the request again.
    """

    def __init__(
        self,
        port: int,
        *,
        probability: float,
        seed: int,
        keys: bool = True,
        holds: bool = True,
    ) -> None:
        command = [sys.executable, "-m", __name__, str(port)]
        command += [f"--probability={probability}", f"--seed={seed}"]
        command += [] if keys else ["--without-keys"]
        command += [] if holds else ["--without-holding"]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )

    def __enter__(self) -> Self:
        assert self._process.stdout
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.returncode is None:
            self._process.kill()
        self._process.communicate()

    def counts(self) -> collections.Counter[str]:
        """Return the number of exchanges, and the number with each fault."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        return collections.Counter(json.loads(self._process.stdout.readline()))

    def finish(self) -> collections.Counter[str]:
        """End when the last doubled request has been answered; return the counts."""
        answer, _ = self._process.communicate(timeout=20)
        assert self._process.returncode == 0
        return collections.Counter(json.loads(answer))


class _Network:
    """Accepts the clients' connections, and opens one to the server for each."""

    def __init__(
        self, port: int, probability: float, seed: int, keys: bool, holds: bool
    ) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self._port = port
        self._probability = probability
        self._keys = keys
        self._faults = [each for each in Fault if holds or each is not Fault.HELD]
        self._stream_faults = [
            each for each in StreamFault if holds or each is not StreamFault.HELD
        ]
        self._dice = random.Random(seed)
        self._doubles: set[asyncio.Task[None]] = set()
        # asyncio itself does not keep a task whose client has gone.
        self._tasks: set[asyncio.Task[Any] | None] = set()

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._tasks.add(asyncio.current_task())
        client, server = HttpConnection(reader, writer), None
        try:
            server = await HttpConnection.to(self._port)
            while await self._exchange(client, server):
                pass
        except BROKEN:
            pass  # one end closed the connection, so the other one is closed, too
        finally:
            client.close()
            if server:
                server.close()
            self._tasks.discard(asyncio.current_task())

    async def finish(self) -> None:
        await asyncio.gather(*self._doubles)

    async def _exchange(self, client: HttpConnection, server: HttpConnection) -> bool:
        """Forward one exchange; return whether the connection stays open."""
        request = await client.request()
        if not self._keys:
            request = _SESSION.sub(b"", _KEY.sub(b"", request, count=1), count=1)
        if is_handshake(request):
            return await self._open(client, server, request)
        self.counts["exchanges"] += 1
        fault = self._fault()
        if fault is Fault.DROPPED:
            self.counts[fault] += 1
            return False
        if fault is Fault.DOUBLED:
            self._double(request)
        await server.send(request)
        early = fault is Fault.UNANSWERED and self._dice.random() < 0.5
        # Early, the retry may overtake the request, or meet it being executed.
        answer = b"" if early else await server.answer(request.split(b" ", 1)[0])
        if fault:
            self.counts[fault] += 1
        if fault in (Fault.UNANSWERED, Fault.CUT):
            if fault is Fault.CUT:
                await client.send(answer[: self._dice.randrange(1, len(answer))])
            client.close(rudely=self._dice.random() < 0.5)
            return False
        if fault is Fault.HELD:
            await client.until_closed()
            return False
        await client.send(answer)
        return not _LAST.search(answer.split(b"\r\n\r\n", 1)[0])

    async def _open(
        self, client: HttpConnection, server: HttpConnection, request: bytes
    ) -> bool:
        """Forward a handshake, and the bytes after it."""
        self.counts["handshakes"] += 1
        refused = self._dice.random() < min(self._probability, _MOST_REFUSED)
        if refused:
            self.counts[REFUSED] += 1
            if self._dice.random() < 0.5:
                busy = self._dice.random() < 0.5
                await client.send(_BUSY if busy else b"")
                return False
        await server.send(request)
        answer = await server.answer(b"GET")
        if refused:
            await client.send(answer[: self._dice.randrange(len(answer))])
            return False
        await client.send(answer)
        if not answer.startswith(b"HTTP/1.1 101"):
            return True
        origin = StreamAddress.of(self._port, request)

        def double(caught: list[CapturedRequest]) -> None:
            self._later(send_again(origin, caught, self._dice, self.counts))

        draw = self._stream_fault
        await FaultyStream(client, server, draw, self._dice, self.counts, double).run()
        return False

    def _stream_fault(self) -> StreamFault | None:
        if self._dice.random() >= self._probability:
            return None
        return self._dice.choice(self._stream_faults)

    def _fault(self) -> Fault | None:
        if self._dice.random() >= self._probability:
            return None
        return self._dice.choice(self._faults)

    def _double(self, request: bytes) -> None:
        delay = max(0.0, self._dice.uniform(-_LATEST_S / 4, _LATEST_S))
        self._later(self._send_again(request, delay))

    def _later(self, sending: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(sending)
        self._doubles.add(task)
        task.add_done_callback(self._doubles.discard)

    async def _send_again(self, request: bytes, delay: float) -> None:
        await asyncio.sleep(delay)
        with contextlib.suppress(*BROKEN):
            server = await HttpConnection.to(self._port)
            try:
                await server.send(request)
                await server.answer(request.split(b" ", 1)[0])
                self.counts["doubles answered"] += 1
            finally:
                server.close()


async def _run(options: argparse.Namespace) -> None:
    network = _Network(
        options.port,
        options.probability,
        options.seed,
        not options.without_keys,
        not options.without_holding,
    )
    listener = await asyncio.start_server(network.serve, "127.0.0.1", 0)
    print(listener.sockets[0].getsockname()[1], flush=True)
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(orders), sys.stdin
    )
    while await orders.readline():
        print(json.dumps(network.counts), flush=True)
    listener.close()
    await network.finish()
    print(json.dumps(network.counts), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--probability", type=float)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--without-keys", action="store_true")
    parser.add_argument("--without-holding", action="store_true")
    asyncio.run(_run(parser.parse_args()))
