"""The command of a container's HEALTHCHECK, against healthy and failing servers."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from gym_http_server import healthcheck

Serve = Callable[[int], int]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Return a factory of servers whose /healthz answers with one status."""
    servers: list[tuple[HTTPServer, threading.Thread]] = []

    def start(status: int) -> int:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status if self.path == "/healthz" else 404)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        servers.append((server, thread))
        return server.server_port

    yield start
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


def run(port: int, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a container does, with its own environment."""
    return subprocess.run(
        [sys.executable, "-m", "gym_http_server.healthcheck"],
        env={**os.environ, "GHS_PORT": str(port), **environment},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


def test_a_healthy_server_passes(serve: Serve) -> None:
    done = run(serve(200))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("healthy: ")
    assert done.stdout.count("\n") == 1


def test_an_unhealthy_server_fails(serve: Serve) -> None:
    done = run(serve(503))
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("unhealthy: ")
    assert "503" in done.stdout


def test_an_absent_server_fails() -> None:
    with socket.socket() as held:
        # Bound but not listening: no other process can use this port meanwhile.
        held.bind(("127.0.0.1", 0))
        done = run(held.getsockname()[1])
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("unhealthy: ")


def test_proxies_are_not_used(serve: Serve) -> None:
    proxy = serve(503)
    assert run(serve(200), http_proxy=f"http://127.0.0.1:{proxy}").returncode == 0


def test_a_unix_socket_wins(tmp_path: Path, serve: Serve) -> None:
    path = tmp_path / "s.sock"

    def reply() -> None:
        with listening.accept()[0] as connection:
            assert connection.recv(65536).startswith(b"GET /healthz HTTP/1.1\r\n")
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        thread = threading.Thread(target=reply)
        thread.start()
        done = run(serve(503), GHS_UNIX=str(path))
        thread.join()
    assert (done.returncode, done.stdout.partition(": ")[0]) == (0, "healthy")
    gone = run(serve(200), GHS_UNIX=str(path))
    assert gone.returncode == 1
    assert "refused" in gone.stdout


def test_a_server_that_hangs_fails() -> None:
    with socket.socket() as hanging:
        hanging.bind(("127.0.0.1", 0))
        hanging.listen()
        port = hanging.getsockname()[1]
        healthy, line = healthcheck.check(port, timeout_s=0.1)
    assert not healthy
    assert "timed out" in line


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH\r\n"])
def test_a_server_that_speaks_no_http_fails(answer: bytes) -> None:
    def reply() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=reply)
        thread.start()
        healthy, line = healthcheck.check(listening.getsockname()[1])
        thread.join()
    assert not healthy
    assert line.startswith("unhealthy: ")
