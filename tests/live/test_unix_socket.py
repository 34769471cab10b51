"""The server on a Unix socket: the same interface for users who may open the file."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import gymnasium
import numpy as np
import psutil
import pytest

from gym_http_client import RemoteEnv, ServerError
from gym_http_client.envs.server import Server as Remote
from gym_http_client.http.requester import Requester
from tests.live.test_start_up import complaint
from tests.support.api import Api
from tests.support.server import ROOT, Server
from tests.support.status_page import is_busy
from tests.support.wait import wait_until

Launch = Callable[..., Server]

pytestmark = pytest.mark.live


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.sock"


def url_of(path: Path) -> str:
    """Return the URL of a socket."""
    return f"http+unix://{quote(str(path), safe='')}"


def wait_ready(server: Server, path: Path) -> None:
    """Wait until a server prints that it listens on a path."""
    wait_until(lambda: f"Listening on {url_of(path)}\n" in server.stdout, 30.0)


def exchange(path: Path, request: bytes) -> bytes:
    """Send bytes and return all bytes of the answer."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(20.0)
        caller.connect(str(path))
        caller.sendall(request)
        answer = b""
        while data := caller.recv(65536):
            answer += data
        return answer


def test_both_doors_lead_to_the_same_instances(make_server: Launch, path: Path) -> None:
    server = make_server("--unix", str(path))
    wait_ready(server, path)
    assert path.stat().st_mode & 0o777 == 0o600
    env = RemoteEnv(url_of(path), "CartPole-v1")
    assert Api(server).instances() == {env.instance_id: "CartPole-v1"}
    again = RemoteEnv.attach(server.url, env.instance_id)
    local = gymnasium.make("CartPole-v1")
    for ours, theirs in (
        (env.reset(seed=7), local.reset(seed=7)),
        *((each.step(1), local.step(1)) for each in (env, again, env)),
    ):
        assert ours[0].tobytes() == theirs[0].tobytes()
        assert ours[1:] == theirs[1:]
    local.close()
    env.close()
    again.close()
    assert Api(server).instances() == {}
    assert server.stop() == 0
    assert not path.exists()
    assert list(path.parent.iterdir()) == []


def test_the_socket_alone(launch_server: Launch, path: Path) -> None:
    server = launch_server("--no-tcp", "--unix", str(path), "--listen", "0.0.0.0")
    wait_ready(server, path)
    everyone = [psutil.Process(server.pid), *server.members()]
    assert not [each for one in everyone for each in one.net_connections("inet")]
    assert "http://1" not in server.stdout
    (curl,) = re.findall(r"^Try:  (curl .*)$", server.stdout, re.MULTILINE)
    output = subprocess.run(
        ["bash", "-c", curl], capture_output=True, text=True, timeout=20, check=True
    )
    assert re.fullmatch(r'\{"instance_id":"[0-9a-f]{8}"\}\n?', output.stdout)
    with contextlib.closing(RemoteEnv(url_of(path), "FrozenLake-v1")) as env:
        local = gymnasium.make("FrozenLake-v1")
        assert env.reset(seed=3) == local.reset(seed=3)
        for action in np.random.default_rng(3).integers(4, size=50).tolist():
            ours, theirs = env.step(action), local.step(action)
            assert ours == theirs
            if ours[2] or ours[3]:
                assert env.reset() == local.reset()
        local.close()
    done = subprocess.run(
        [sys.executable, "-m", "gym_http_server.healthcheck"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "GHS_UNIX": str(path)},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.stdout == f"healthy: {path}/healthz answered 200\n"
    assert server.stop() == 0
    assert list(path.parent.iterdir()) == []


def test_a_token_is_required_here_too(make_server: Launch, path: Path) -> None:
    token = "unix-5d0c2f7e91fe00aa"
    make_server("--unix", str(path), "--token", token, token=token)
    with pytest.raises(ServerError, match="token is missing"):
        RemoteEnv(url_of(path), "CartPole-v1")
    RemoteEnv(Remote(url_of(path), token=token), "CartPole-v1").close()
    RemoteEnv(url_of(path).replace("//", f"//:{token}@"), "CartPole-v1").close()


# A path with a colon looks like an address with a port to some.
@pytest.mark.parametrize("name", ["s.sock", "a:b:80 c.sock"])
def test_whom_it_answers(name: str, make_server: Launch, tmp_path: Path) -> None:
    path = tmp_path / name
    make_server("--unix", str(path), "--unix-mode", "660")
    assert path.stat().st_mode & 0o777 == 0o660
    get = b"GET /v1/envs/ HTTP/1.1\r\nConnection: close\r\n"
    assert exchange(path, get + b"Host: localhost\r\n\r\n").endswith(
        b'{"all_envs":{}}\n'
    )
    old = exchange(path, b"GET /v1/envs/ HTTP/1.0\r\n\r\n")
    assert re.match(rb"HTTP/1\.[01] 200 ", old)
    refused = exchange(path, get + b"Host: evil.example\r\n\r\n")
    assert refused.startswith(b"HTTP/1.1 403 ")
    assert b"host-refused" in refused
    page = b"Host: localhost\r\nOrigin: https://evil.example\r\n\r\n"
    assert b"origin-refused" in exchange(path, get + page)
    assert exchange(path, b"nonsense\r\n\r\n").startswith(b"HTTP/1.1 400 ")


def test_a_second_server_leaves_the_first_alone(
    make_server: Launch, launch_server: Launch, path: Path
) -> None:
    first = make_server("--unix", str(path))
    env = RemoteEnv(url_of(path), "CartPole-v1")
    line = complaint(launch_server("--unix", str(path)))
    assert f"another server listens on {path}" in line
    env.reset()
    env.close()
    assert first.stop() == 0
    after = make_server("--unix", str(path))
    RemoteEnv(url_of(path), "CartPole-v1").close()
    assert after.stop() == 0


def test_remains_of_a_killed_server_are_removed(
    make_server: Launch, path: Path
) -> None:
    killed = make_server("--unix", str(path))
    members = killed.members()
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait_exit()
    # As long as one lives, the kernel accepts callers for it.
    wait_until(lambda: not any(each.is_running() for each in members), 10.0)
    assert path.exists()
    with pytest.raises(ConnectionRefusedError):
        exchange(path, b"")
    after = make_server("--unix", str(path))
    RemoteEnv(url_of(path), "CartPole-v1").close()
    assert after.stop() == 0
    assert list(path.parent.iterdir()) == []


def test_a_server_that_fails_clears_up(make_server: Launch, path: Path) -> None:
    server = make_server("--unix", str(path))
    for child in psutil.Process(server.pid).children():
        child.kill()
    assert server.wait_exit() == 1
    assert list(path.parent.iterdir()) == []


def test_a_server_that_cannot_start_clears_up(
    launch_server: Launch, path: Path
) -> None:
    server = launch_server("--unix", str(path), "--import", "no_such_module")
    assert server.wait_exit() == 1
    assert list(path.parent.iterdir()) == []


def test_draining_answers_requests_in_flight(make_server: Launch, path: Path) -> None:
    server = make_server("--unix", str(path), "--import", "tests.support.envs.hostile")
    slow = Api(server).create("hostile/Slow-v0", kwargs={"seconds": 1.5})
    slow.reset()
    found = []
    with Requester(url_of(path)) as link:

        def step() -> None:
            found.append(link.request("POST", slow.path("step/"), b'{"action": 1}'))

        stepping = threading.Thread(target=step)
        stepping.start()
        wait_until(lambda: is_busy(slow), message="the step to begin")
        assert server.stop() == 0
        stepping.join(20.0)
    assert found[0].status == 200
    assert not path.exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--no-tcp"], "--unix"),
        (["--unix", "/tmp/" + "x" * 103], "has 108 bytes, 107 are possible"),
        (["--unix", "s.sock", "--unix-mode", "rw"], "octal"),
        (["--unix", "/dev/null"], "is no socket"),
    ],
)
def test_refused_paths(flags: list[str], words: str, launch_server: Launch) -> None:
    assert words in complaint(launch_server(*flags))
