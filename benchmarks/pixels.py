"""Measures how many megabytes of images per second a stream transfers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from benchmarks import frames
from benchmarks.gauges import rate
from benchmarks.measuring import Plan
from benchmarks.ping_pong import BALL, PingPongAgent, remote_end
from benchmarks.pinning import Cores, Mode
from benchmarks.race import Rival, ServerMaker, race
from benchmarks.report import Row
from benchmarks.servers import Server, our_server
from gym_http_client.bench.agents import StreamAgent

__all__ = ["pixels64", "pixels64_local"]

_BYTES = math.prod(frames.SHAPE)
_MEGABYTES = rate("MB/s", _BYTES / 1e6, percentiles=False)


class _FramesAgent(StreamAgent):
    """Steps an environment that returns images."""

    env_id = frames.ENV_ID

    def step(self, action: int) -> bool:
        """Receive images."""
        observation, *_ = self._env.step(action)
        assert observation.nbytes == _BYTES
        return False


class _RawAgent(PingPongAgent):
    """Receives as many bytes per message over plain TCP, into the same memory."""

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(url, seed)
        self._memory = memoryview(bytearray(_BYTES))

    def step(self, action: int) -> bool:
        """Receive the bytes.

        Raises:
            ConnectionError: The server has closed the connection.
        """
        self._socket.send(BALL)
        got = 0
        while got < _BYTES:
            more = self._socket.recv_into(self._memory[got:])
            if not more:
                raise ConnectionError("the far end of the raw bytes is gone")
            got += more
        return False


def pixels64(plan: Plan) -> list[Row]:
    """Measure a stream over TCP."""
    return _pixels(plan, "pixels64", _server)


def pixels64_local(plan: Plan) -> list[Row]:
    """Measure a stream over a Unix socket."""
    return _pixels(plan, "pixels64_local", partial(_server, over_unix_socket=True))


def _pixels(plan: Plan, name: str, server: ServerMaker) -> list[Row]:
    rival = Rival("raw loopback", _RawAgent, partial(remote_end, answer=_BYTES))
    return race(
        plan.halved(),
        name,
        Mode.SAME,
        _FramesAgent,
        1,
        rival,
        gauge=_MEGABYTES,
        server=server,
    )


@contextmanager
def _server(cores: Cores, *, over_unix_socket: bool = False) -> Iterator[Server]:
    flags = ["--import", frames.__name__]
    with our_server(cores, *flags, over_unix_socket=over_unix_socket) as server:
        yield server
