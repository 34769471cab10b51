"""`gym-http-server reload`, and SIGHUP: tokens are read anew while the server runs."""

import os
import pty
import re
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import Result

from tests.support import processes
from tests.support.api import Api, Instance, error, no_content, ok
from tests.support.reloads import (
    USER,
    Tokens,
    lines_about,
    reload,
    reload_apart,
    reloaded,
)
from tests.support.server import Server
from tests.support.token_file import api_of, line, token_of
from tests.support.wait import wait_until

pytestmark = pytest.mark.live


def begin(tokens: Tokens) -> None:
    """Write an admin, ada and bob into a file."""
    tokens.write(root="admin", ada=USER, bob=f"{USER} 1")


@pytest.fixture
def own_tokens(tmp_path: Path) -> Tokens:
    """A file with an admin, ada and bob, for a server that the test starts."""
    made = Tokens(tmp_path)
    begin(made)
    return made


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Tokens:
    """Such a file for the module's server."""
    made = Tokens(tmp_path_factory.mktemp("tokens"))
    begin(made)
    return made


@pytest.fixture(scope="module")
def module_server(tokens: Tokens) -> Iterator[Server]:
    """A server with that file and two web workers."""
    flags = ("--tokens", str(tokens.path), "--workers", "2")
    with Server(*flags, token=token_of("root")) as started:
        yield started


@pytest.fixture
def server(module_server: Server, tokens: Tokens) -> Iterator[Server]:
    """That server, which has the first tokens and no instance again after a test."""
    module_server.begin_log()
    yield module_server
    begin(tokens)
    module_server.begin_log()
    os.kill(module_server.pid, signal.SIGHUP)
    wait_until(lambda: lines_about(module_server, " reloaded: "), 10.0, "the reload")
    root = Api(module_server)
    for instance_id in root.instances():
        Instance(root, instance_id).close()


class KeptAlive:
    """A connection to the server that stays open, for one token."""

    def __init__(self, server: Server, name: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port))
        self._head = (
            f"Host: 127.0.0.1:{server.port}\r\n"
            f"Authorization: Bearer {token_of(name)}\r\n"
        )

    def get(self, path: str) -> int:
        """Send a GET, and return the status of its answer."""
        self._socket.sendall(f"GET {path} HTTP/1.1\r\n{self._head}\r\n".encode())
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._socket.recv(65536)
        head, _, body = data.partition(b"\r\n\r\n")
        size = int(re.search(rb"(?i)content-length: (\d+)", head)[1])  # type: ignore[index]
        while len(body) < size:
            body += self._socket.recv(65536)
        return int(head.split()[1])

    def close(self) -> None:
        """Close it."""
        self._socket.close()


def test_tokens_come_and_go_while_instances_run(server: Server, tokens: Tokens) -> None:
    ada, bob, carol = (api_of(server, name) for name in ("ada", "bob", "carol"))
    ada_steps, bob_steps = ada.create(), bob.create()
    ada_steps.reset(seed=1)
    # Enough that both web workers have some, and few enough: of an address, ten wrong
    # tokens a second are answered with 401.
    kept = [KeptAlive(server, "ada") for _ in range(6)]
    assert [each.get("/v1/envs/") for each in kept] == [200] * 6
    error(carol.get("/v1/envs/"), 401, "unauthorized")
    tokens.write(root="admin", bob=f"{USER} 2", carol=USER)
    said = reloaded(server)
    assert said == ("new tokens: carol; removed tokens: ada; changed tokens: bob\n")
    assert [each.get("/v1/envs/") for each in kept] == [401] * 6
    for each in kept:
        each.close()
    error(ada.get("/v1/envs/"), 401, "unauthorized")
    error(ada_steps.post("step/", {"action": 0}), 401, "unauthorized")
    # The instance is in the hands of admins alone.
    assert ada_steps.id not in bob.instances()
    root = Api(server)
    assert {ada_steps.id, bob_steps.id} <= root.instances().keys()
    assert ok(root.post(ada_steps.path("step/"), {"action": 0}))["done"] is False
    no_content(root.post(ada_steps.path("close/")))
    # Quotas, and names that a create may name.
    second = bob.create()
    error(bob.post("/v1/envs/", {"env_id": "CartPole-v1"}), 429, "too-many-instances")
    made = root.create(**{"for": "carol"})
    assert made.id in carol.instances()
    wrong = {"env_id": "CartPole-v1", "for": "ada"}
    error(root.post("/v1/envs/", wrong), 400, "bad-parameter")
    no_content(second.close())
    assert len(lines_about(server, "reloaded: ")) == 1


def test_scopes_hold_from_the_next_request(server: Server, tokens: Tokens) -> None:
    ada = api_of(server, "ada")
    instance = ada.create()
    tokens.write(root="admin", ada="read", bob=USER)
    reloaded(server)
    error(instance.post("reset/"), 403, "scope-missing")
    assert instance.id in ada.instances()


def test_a_web_worker_that_starts_later_has_the_new_tokens(
    server: Server, tokens: Tokens
) -> None:
    tokens.write(root="admin", carol=USER)
    reloaded(server)
    before = processes.gunicorn(server.pid)[1]
    for worker in before:
        worker.kill()

    def replaced() -> bool:
        now = processes.gunicorn(server.pid)[1]
        return len(now) == 2 and not set(now) & set(before)

    wait_until(replaced, 20.0, "new web workers")
    kept = [KeptAlive(server, "carol") for _ in range(8)]
    assert [each.get("/v1/envs/") for each in kept] == [200] * 8
    gone = [KeptAlive(server, "ada") for _ in range(8)]
    assert [each.get("/v1/envs/") for each in gone] == [401] * 8
    for each in (*kept, *gone):
        each.close()


def nothing_changed(server: Server, done: Result) -> str:
    """Check a refused reload; return the command's message."""
    assert (done.exit_code, done.stdout) == (1, "")
    (said,) = done.stderr.splitlines()
    message = said.removeprefix("gym-http-server: ")
    (logged,) = lines_about(server, "cannot reload: ")
    assert logged.endswith(f"ERROR gym_http_server.launcher: cannot reload: {message}")
    assert api_of(server, "ada").get("/v1/envs/").status == 200
    assert api_of(server, "carol").get("/v1/envs/").status == 401
    return message


GOOD = line("root", "admin") + line("carol", USER)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (GOOD + "dave 12 read\n", "line 3: the second field is not a SHA-256"),
        (GOOD + line("carol", "read"), "line 3: the name 'carol' is also on line 2"),
        (GOOD + line("dave", "fly"), "line 3: the scope 'fly' is unknown"),
        ("# nobody\n", "has no token in it"),
    ],
)
def test_a_file_with_a_mistake_changes_nothing(
    text: str, why: str, server: Server, tokens: Tokens
) -> None:
    tokens.write_text(text)
    assert why in nothing_changed(server, reload(server))


def test_a_file_that_others_can_write_changes_nothing(
    server: Server, tokens: Tokens
) -> None:
    tokens.write_text(GOOD)
    tokens.path.chmod(0o666)
    assert "chmod go-w it" in nothing_changed(server, reload(server))


def test_a_file_that_is_gone_changes_nothing(server: Server, tokens: Tokens) -> None:
    tokens.path.unlink()
    assert "cannot read the file" in nothing_changed(server, reload(server))


def test_sighup_without_a_terminal_reloads(server: Server, tokens: Tokens) -> None:
    tokens.write(root="admin", carol=USER)
    os.kill(server.pid, signal.SIGHUP)
    wait_until(lambda: lines_about(server, "reloaded: "), 10.0, "the reload")
    assert api_of(server, "carol").get("/v1/envs/").status == 200
    tokens.write_text("?")
    os.kill(server.pid, signal.SIGHUP)
    wait_until(lambda: lines_about(server, "cannot reload: "), 10.0, "the refusal")
    assert api_of(server, "carol").get("/v1/envs/").status == 200
    assert server.returncode is None


@pytest.mark.parametrize("how", ["file", "variable", "auto"])
def test_a_single_token(
    how: str, make_server: Callable[..., Server], tmp_path: Path
) -> None:
    """That of a file can change; the others stay as they were."""
    first, second = "first-token-of-the-server", "second-token-of-the-server"
    path = tmp_path / "token"
    path.write_text(first)
    if how == "file":
        server = make_server("--token-file", str(path))
    elif how == "variable":
        server = make_server(env={"GHS_TOKEN": first})
    else:
        server = make_server("--token", "auto")
        (first,) = re.findall(r"The token is (\S+)", server.stdout)

    def statuses() -> tuple[int, ...]:
        """Return the answers to the first and to the second token."""
        clients = (
            Api(server, {"Authorization": f"Bearer {each}"}) for each in (first, second)
        )
        return tuple(each.get("/v1/").status for each in clients)

    path.write_text(second)
    assert statuses() == (200, 401)
    said = reloaded(server)
    if how != "file":
        assert said == "nothing has changed\n"
        assert statuses() == (200, 401)
        return
    assert said == "a new token\n"
    assert statuses() == (401, 200)
    path.write_text("short")
    done = reload(server)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "the token has 5 characters" in done.stderr
    assert statuses() == (401, 200)


def test_a_server_that_starts_reloads_when_it_serves(own_tokens: Tokens) -> None:
    """What has changed since it read the file is not lost."""
    server = Server("--tokens", str(own_tokens.path), token=token_of("root"))
    server.launch()
    try:
        wait_until(lambda: list(server.run_dir.glob("*/control.sock")), 20.0)
        own_tokens.write(root="admin", ada=USER, carol=USER)
        os.kill(server.pid, signal.SIGHUP)
        said = reloaded(server)
        server.wait_listening()
        wait_until(lambda: len(lines_about(server, "reloaded: ")) == 2, 10.0)
        server.wait_complete()
        assert said in (
            "new tokens: carol; removed tokens: bob\n",
            "nothing has changed\n",
        )
        assert api_of(server, "carol").get("/v1/envs/").status == 200
        assert api_of(server, "bob").get("/v1/envs/").status == 401
    finally:
        assert not server.end()


#: Gives the command that follows a controlling terminal, as it begins a session.
ON_TERMINAL = (
    "import os, sys; os.open(sys.argv[1], os.O_RDWR); "
    "os.execv(sys.argv[2], sys.argv[2:])"
)


def test_a_closed_terminal_stops_the_server(make_server: Callable[..., Server]) -> None:
    ours, theirs = pty.openpty()
    prefix = (sys.executable, "-c", ON_TERMINAL, os.ttyname(theirs))
    server = make_server(prefix=prefix)
    os.close(theirs)
    os.close(ours)
    assert server.wait_exit() == 0
    assert list(server.run_dir.iterdir()) == []
    assert not lines_about(server, "reload")


def test_the_command_names_the_servers_that_it_finds(
    server: Server, make_server: Callable[..., Server], tmp_path: Path
) -> None:
    none = reload(server, "--run-dir", str(tmp_path))
    assert (none.exit_code, none.stdout) == (1, "")
    assert f"no server of this user has its run directory in {tmp_path}" in none.stderr
    (first,) = server.run_dir.iterdir()
    assert reloaded(server, "--run-dir", str(first)) == "nothing has changed\n"
    second = make_server("--run-dir", str(server.run_dir))
    several = reload(server)
    assert (several.exit_code, several.stdout) == (1, "")
    for each in (server, second):
        assert f"(PID {each.pid})" in several.stderr
    assert str(first) in several.stderr


def info_lines(server: Server) -> int:
    """Have supervisor and web workers log at level info; return the number of lines.

    gunicorn logs nothing at this level unless that of the server is debug.
    """
    before = len(lines_about(server, " INFO "))
    api = Api(server)
    no_content(api.create().close())
    for _ in range(8):
        with socket.create_connection(("127.0.0.1", server.port)) as sock:
            sock.sendall(b"GARBAGE\r\n\r\n")
            while sock.recv(4096):
                pass
    # Written before the answers.
    return len(lines_about(server, " INFO ")) - before


def test_the_log_level_is_that_of_the_command_or_of_the_start(
    make_server: Callable[..., Server],
) -> None:
    server = make_server("--log-level", "warning", "--workers", "2")
    assert info_lines(server) == 0
    assert reloaded(server, "--log-level", "debug") == "log level debug\n"
    # Made, ended, and the malformed requests.
    assert info_lines(server) == 10
    assert reloaded(server, "--log-level", "info") == "log level info\n"
    assert info_lines(server) == 2
    bad = reload(server, "--log-level", "loud")
    assert (bad.exit_code, bad.stdout) == (1, "")
    words = "--log-level is 'loud': expected debug, info, warning or error"
    assert words in bad.stderr
    assert len(lines_about(server, words)) == 1
    assert info_lines(server) == 2
    assert reloaded(server) == "log level warning\n"
    assert info_lines(server) == 0
    # Each of them is logged, also the one after which such lines are not.
    assert [line.partition(": ")[2] for line in lines_about(server, "reloaded")] == [
        f"reloaded: log level {level}" for level in ("debug", "info", "warning")
    ]


def test_a_web_worker_that_hangs_is_named(server: Server, tokens: Tokens) -> None:
    (worker, _) = processes.gunicorn(server.pid)[1]
    worker.suspend()
    tokens.write(root="admin", ada=USER, carol=USER)
    said = reloaded(server)
    worker.resume()
    assert said.endswith(f"; not yet in web worker {worker.pid}, busy at the moment\n")
    kept = [KeptAlive(server, "carol") for _ in range(8)]
    assert [each.get("/v1/envs/") for each in kept] == [200] * 8
    for each in kept:
        each.close()


def test_two_reloads_at_once(server: Server, tokens: Tokens) -> None:
    tokens.write(root="admin", ada=USER, carol=USER)
    with ThreadPoolExecutor(4) as threads:
        said = list(threads.map(lambda _: reload_apart(server), range(4)))
    assert sorted(said) == [
        "new tokens: carol; removed tokens: bob\n",
        *["nothing has changed\n"] * 3,
    ]


def test_a_server_that_stops_reloads_nothing(
    own_tokens: Tokens, make_server: Callable[..., Server]
) -> None:
    flags = ("--tokens", str(own_tokens.path), "--drain-delay", "5")
    server = make_server(*flags, token=token_of("root"))
    os.kill(server.pid, signal.SIGTERM)
    wait_until(lambda: Api(server).get("/readyz").status == 503, 10.0, "draining")
    own_tokens.write(root="admin", carol=USER)
    done = reload(server)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "the server is stopping" in done.stderr
    error(api_of(server, "carol").get("/v1/envs/"), 401, "unauthorized")
    os.kill(server.pid, signal.SIGTERM)
    assert server.wait_exit(5.0) == 0
