"""deploy/haproxy in the real HAProxy: calls of an instance go straight to its node."""

import contextlib
import os
import re
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.api import Api, no_content, ok
from tests.support.drivers import needs
from tests.support.fleet import fleet
from tests.support.server import ROOT, Server
from tests.support.wait import wait_until
from tests.support.websocket import WebSocket

pytestmark = [pytest.mark.live, pytest.mark.toolchain]

FOLDER = ROOT / "deploy" / "haproxy"
#: So that no instance of two is on one node by chance alone.
INSTANCES = 8


@dataclass
class Address:
    """The servers as their clients reach them."""

    port: int
    token: str | None = None


def configuration(folder: Path, port: int, servers: Sequence[Server | Address]) -> Path:
    """Write the configuration of deploy for servers, and return its path."""
    text = (FOLDER / "haproxy.cfg").read_text()
    names = ("gym-0", "gym-1", "gym-2")
    for number, name in enumerate(names):
        line = f"    server {name} 10.0.0.{7 + number}:5000\n"
        assert line in text
        if number < len(servers):
            address = f"127.0.0.1:{servers[number].port}"
            text = text.replace(line, f"    server {name} {address}\n")
        else:
            text = text.replace(line, "")
    text = text.replace("/etc/haproxy/", f"{folder}/")
    text = text.replace("bind :5000", f"bind 127.0.0.1:{port}")
    path = folder / "haproxy.cfg"
    path.write_text(text)
    (folder / "gym-nodes.map").write_text((FOLDER / "gym-nodes.map").read_text())
    return path


@contextlib.contextmanager
def haproxy(folder: Path, servers: Sequence[Server | Address]) -> Iterator[Api]:
    """Run HAProxy before servers; yield a client of it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    path = configuration(folder, port, servers)
    with subprocess.Popen(["haproxy", "-db", "-f", str(path)]) as process:
        try:
            api = Api(Address(port))  # type: ignore[arg-type]
            wait_until(lambda: ready(api), 20.0, "HAProxy")
            yield api
        finally:
            process.terminate()


def ready(api: Api) -> bool:
    with contextlib.suppress(OSError):
        return api.get("/v1/").status == 200
    return False


@pytest.fixture(scope="module", autouse=True)
def _tools() -> Iterator[None]:
    # Debian puts haproxy where only root looks for programs.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{os.environ['PATH']}:/usr/sbin")
        needs("haproxy")
        yield


def requests_to(servers: list[Server], instance_id: str, call: str) -> int:
    """Return how many requests nodes have answered, those of other nodes included."""
    pattern = rf"gym_http_server\.access: \S+ \S+ \S+/{instance_id}/{call}/? "
    return sum(len(re.findall(pattern, each.stderr)) for each in servers)


def test_calls_go_straight_to_the_node(tmp_path: Path) -> None:
    names = ("gym-0", "gym-1")
    with fleet(*names, args=("--access-log",)) as (_, servers):
        with haproxy(tmp_path, servers) as api:
            made = [api.create() for _ in range(INSTANCES)]
            made += [api.create(node=name) for name in names]
            for each in made:
                each.reset(seed=1)
                each.step(1)
            for each in made:
                with WebSocket.to(each):
                    pass
            for each in made:
                for call in ("reset", "step", "stream"):
                    wait_until(partial(requests_to, servers, each.id, call))
                    assert requests_to(servers, each.id, call) == 1
            other = Api(servers[0]).create(node="gym-1")
            other.reset(seed=1)
        # Another HAProxy knows nothing yet. An answer comes all the same.
        with haproxy(tmp_path, servers) as api:
            for each in (*made, other):
                assert ok(api.post(each.path("step/"), {"action": 1}))
                no_content(api.post(each.path("close/")))


class Failing(BaseHTTPRequestHandler):
    """A server that answers 502 itself, or closes the connection."""

    def do_GET(self) -> None:
        """Answer that it is ready."""
        self._answer(200, b"{}")

    def do_POST(self) -> None:
        """Fail as the path says."""
        if self.path == "/v1/envs/00000000/step/":
            self._answer(502, b'{"code": "env-error"}')
        self.close_connection = True

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Print nothing."""


def test_clients_send_again_what_no_server_has_answered(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Failing) as failing:
        thread = threading.Thread(target=failing.serve_forever)
        thread.start()
        try:
            with haproxy(tmp_path, [Address(failing.server_port)]) as api:
                answer = api.post("/v1/envs/", {"env_id": "CartPole-v1"})
                step = api.post("/v1/envs/00000000/step/", {"action": 1})
        finally:
            failing.shutdown()
            thread.join()
    assert (answer.status, answer.header("Retry-After")) == (503, "1")
    assert "no server answers behind this proxy" in answer.json()["message"]
    assert (step.status, step.json()) == (502, {"code": "env-error"})


def test_haproxy_takes_the_configuration(tmp_path: Path) -> None:
    path = configuration(tmp_path, 5000, [])
    done = subprocess.run(["haproxy", "-c", "-f", str(path)], capture_output=True)
    assert (done.returncode, b"WARNING" in done.stderr) == (0, False), done.stderr
    path.write_text(path.read_text().replace("map_str", "map_strr"))
    command = ["haproxy", "-c", "-f", str(path)]
    assert subprocess.run(command, capture_output=True).returncode == 1
