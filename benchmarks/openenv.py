"""Compares a step of OpenEnv's protocol with REST, and with OpenEnv's own server."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.gauges import MICROSECONDS
from benchmarks.measuring import Plan
from benchmarks.pinning import Cores, Mode
from benchmarks.race import Rival, race
from benchmarks.report import Row
from benchmarks.servers import Server, our_server, program
from gym_http_client.bench.agents import ENV_ID, LeanAgent
from gym_http_wire.websocket import Masks, Message, MessageReader, Opcode, encode

__all__ = ["OpenEnvAgent", "openenv", "openenv_server"]

#: The Python with OpenEnv's own server, which ``make openenv`` sets up.
_PYTHON = Path(__file__).parents[1] / "build" / "openenv" / "bin" / "python"
_HANDSHAKE = (
    "GET {path}/ws HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\n"
    "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: {key}\r\n\r\n"
)


class OpenEnvAgent:
    """Steps with the messages of OpenEnv's client, over a bare connection."""

    path = f"/openenv/{ENV_ID}"

    def __init__(self, url: str, seed: int) -> None:
        address = urlsplit(url)
        self._socket = socket.create_connection((address.hostname, address.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        key = base64.b64encode(os.urandom(16)).decode()
        named = {"path": self.path, "host": address.netloc, "key": key}
        self._socket.sendall(_HANDSHAKE.format(**named).encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self._socket.recv(4096)
        if not answer.startswith(b"HTTP/1.1 101 "):
            raise RuntimeError(answer.decode())
        self._masks = Masks()
        self._reader = MessageReader(masked=False, max_message=1 << 20)
        self._resets = itertools.chain([{"seed": seed}], itertools.repeat({}))

    def reset(self) -> None:
        """Begin an episode."""
        self._call({"type": "reset", "data": next(self._resets)})

    def step(self, action: int) -> bool:
        """Take a step."""
        answer = self._call({"type": "step", "data": {"action": action}})
        return bool(answer["done"])

    def close(self) -> None:
        """End the instance."""
        self._send(b'{"type":"close"}')
        while self._socket.recv(4096):
            pass
        self._socket.close()

    def _call(self, message: dict[str, Any]) -> Any:
        self._send(json.dumps(message).encode())
        while not (texts := [m for m in self._receive() if m.opcode == Opcode.TEXT]):
            pass
        answer = json.loads(bytes(texts[0].payload))
        if answer["type"] != "observation":
            raise RuntimeError(answer)
        return answer["data"]

    def _send(self, text: bytes) -> None:
        self._socket.sendall(encode(Opcode.TEXT, text, self._masks.next()))

    def _receive(self) -> list[Message]:
        data = self._socket.recv(65536)
        if not data:
            raise RuntimeError("the server has closed the connection")
        return self._reader.feed(data)


class _AtItsOwnServer(OpenEnvAgent):
    path = ""


@contextlib.contextmanager
def _own_server(cores: Cores) -> Iterator[Server]:
    with program(cores, "benchmarks.openenv_server", python=_PYTHON) as server:
        yield server


_REST = Rival("REST", LeanAgent, our_server)
_OWN = Rival("OpenEnv's server", _AtItsOwnServer, _own_server)


def openenv(plan: Plan) -> list[Row]:
    """Measure a step beside one over REST."""
    return _beside(plan, "openenv", _REST)


def openenv_server(plan: Plan) -> list[Row]:
    """Measure it beside one at OpenEnv's own server, where that is installed."""
    if not _PYTHON.exists():
        plan.say("openenv_server: left out, since make openenv has not installed it")
        return []
    return _beside(plan, "openenv_server", _OWN)


def _beside(plan: Plan, name: str, rival: Rival) -> list[Row]:
    return race(
        plan.halved(),
        name,
        Mode.SAME,
        kind=OpenEnvAgent,
        count=1,
        rival=rival,
        gauge=MICROSECONDS,
    )
