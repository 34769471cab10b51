"""The ping-pong: a round trip of 32 bytes over TCP, the minimum for any step.

``python -m benchmarks.ping_pong BYTES`` runs the server, which answers each message of
32 bytes with the given number of bytes. Both ends block.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
from urllib.parse import urlsplit

import gymnasium

from benchmarks.pinning import Cores
from benchmarks.race import Rival
from benchmarks.report import PING_PONG, STEP_AND_PING_PONG
from benchmarks.servers import Server, program
from gym_http_client.bench.agents import ENV_ID

__all__ = [
    "BALL",
    "BESIDE_PING_PONG",
    "BESIDE_STEP_AND_PING_PONG",
    "PingPongAgent",
    "remote_end",
]

#: The message.
BALL = bytes(32)


class PingPongAgent:
    """Sends a message and waits for an answer of the same length."""

    def __init__(self, url: str, seed: int) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 0))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def reset(self) -> None:
        """Do nothing: there are no episodes."""

    def step(self, action: int) -> bool:
        """Do one round trip.

        Raises:
            ConnectionError: The server has closed the connection.
        """
        self._socket.send(BALL)
        if len(self._socket.recv(len(BALL))) != len(BALL):
            raise ConnectionError("the far end of the ping-pong is gone")
        return False

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


class _StepAndPingPongAgent(PingPongAgent):
    """Steps a local environment after each ping-pong."""

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(url, seed)
        self._env = gymnasium.make(ENV_ID)
        self._first_seed: int | None = seed

    def reset(self) -> None:
        """Begin an episode."""
        self._env.reset(seed=self._first_seed)
        self._first_seed = None

    def step(self, action: int) -> bool:
        """Do one round trip, and take a step."""
        super().step(action)
        _, _, terminated, truncated, _ = self._env.step(action)
        return terminated or truncated


def remote_end(
    cores: Cores, answer: int = len(BALL)
) -> contextlib.AbstractContextManager[Server]:
    """Run the server, which answers with a given number of bytes."""
    return program(cores, "benchmarks.ping_pong", str(answer))


BESIDE_PING_PONG = Rival(PING_PONG, PingPongAgent, remote_end)
BESIDE_STEP_AND_PING_PONG = Rival(STEP_AND_PING_PONG, _StepAndPingPongAgent, remote_end)


def main() -> None:
    """Serve one client after the other, until killed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ping_pong")
    parser.add_argument("bytes", type=int, nargs="?", default=len(BALL))
    answer = bytes(parser.parse_args().bytes)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        print(f"Listening on http://127.0.0.1:{port}", flush=True)
        while True:
            sock, _ = listener.accept()
            with sock:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while sock.recv(len(BALL)):
                    sock.sendall(answer)


if __name__ == "__main__":
    main()
