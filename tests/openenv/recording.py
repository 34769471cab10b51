"""Records conversations of OpenEnv's client with a server, byte by byte.

``python -m tests.openenv.recording`` plays with both clients that ``make openenv`` has
installed, and writes the files in ``conversations``.
"""

import base64
import json
import re
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

from tests.support.server import ROOT, Server

FOLDER = Path(__file__).parent / "conversations"
#: The Pythons that have the clients.
PYTHONS = {
    "openenv-0.10.0": ROOT / "build" / "openenv" / "bin" / "python",
    "openenv-core-0.3.0": ROOT / "build" / "openenv-core" / "bin" / "python",
}
ECHO = "toys/Echo-v0"
EPISODES: list[dict[str, Any]] = [
    {
        "env_id": "CartPole-v1",
        "resets": [{"seed": 42}, {"seed": 7, "episode_id": "seven"}],
        "actions": [{"action": 1}, {"action": 0}, {"action": 7}, {"acton": 1}],
    },
    {
        "env_id": "FrozenLake-v1",
        "resets": [{"seed": 1, "kwargs": {"is_slippery": False}}, {"seed": 3}],
        "actions": [{"action": each} for each in (2, 2, 1, 1, 1, 2)],
    },
    {
        "env_id": ECHO.replace("/", "%2F"),
        "resets": [{"seed": 1, "kwargs": {"space": "text"}}],
        "actions": [{"action": "word"}, {"action": "äß€😀"}, {"action": "too long"}],
    },
    {
        "env_id": ECHO,
        "resets": [{"seed": 1, "kwargs": {"space": "dict"}}],
        "actions": [{"go": 2, "by": [0.5, 9.0]}, {"action": {"go": 1, "by": [1, 2]}}],
    },
]
TOYS = ("--import", "tests.support.envs.toys")
_ID = re.compile(rb"[0-9a-f]{8}(?=[\"-])")
_PORT = re.compile(rb"127\.0\.0\.1:\d+")


def to_port(sent: bytes, port: int) -> bytes:
    """Replace the port in a handshake of the client."""
    return _PORT.sub(b"127.0.0.1:%d" % port, sent)


def without_ids(received: bytes) -> bytes:
    """Replace the ID of the instance, which differs in each run, by another one."""
    return _ID.sub(b"3c657dbc", received)


def play(name: str, url: str, episodes: list[dict[str, Any]]) -> list[Any]:
    """Play episodes with one of the clients."""
    script = Path(__file__).with_name("play.py")
    done = subprocess.run(
        [PYTHONS[name], script, url],
        input=json.dumps(episodes),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results: list[Any] = json.loads(done.stdout)
    return results


class Tap:
    """A proxy for one connection after the other, which keeps their bytes in turns."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        #: Of each connection, who sent and what.
        self.conversations: list[list[tuple[str, bytes]]] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept no more."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            turns: list[tuple[str, bytes]] = []
            self.conversations.append(turns)
            server = socket.create_connection(("127.0.0.1", self._port))
            for source, target, name in (
                (client, server, "sent"),
                (server, client, "received"),
            ):
                threading.Thread(
                    target=self._copy, args=(source, target, name, turns), daemon=True
                ).start()

    @staticmethod
    def _copy(
        source: socket.socket,
        target: socket.socket,
        name: str,
        turns: list[tuple[str, bytes]],
    ) -> None:
        while data := source.recv(1 << 20):
            if turns and turns[-1][0] == name:
                turns[-1] = (name, turns[-1][1] + data)
            else:
                turns.append((name, data))
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def _kept(who: str, data: bytes) -> bytes:
    return to_port(data, 5000) if who == "sent" else without_ids(data)


def main() -> None:
    """Record both clients."""
    for name in PYTHONS:
        with Server(*TOYS) as server:
            tap = Tap(server.port)
            play(name, f"http://127.0.0.1:{tap.port}", EPISODES)
            tap.close()
        recorded = [
            [[who, base64.b64encode(_kept(who, data)).decode()] for who, data in each]
            for each in tap.conversations
        ]
        text = json.dumps(recorded, indent=1)
        (FOLDER / f"{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
