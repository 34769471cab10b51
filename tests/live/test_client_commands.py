"""``gym-http-server ls``, ``close``, ``envs``, ``watch`` and ``logs``."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gym_http_server.commands import cli
from tests.support.api import Api, Instance, no_content, ok
from tests.support.server import ROOT, Server
from tests.support.tls import certificate_and_key
from tests.support.token_file import api_of, token_of, write_file
from tests.support.wait import wait_until

pytestmark = pytest.mark.live

MakeServer = Callable[..., Server]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with several tokens, and environments that print and misbehave."""
    path = write_file(tmp_path_factory.mktemp("tokens"))
    modules = (
        "--import",
        "tests.support.envs.printing",
        "--import",
        "tests.support.envs.hostile",
    )
    with Server("--tokens", path, *modules, token=token_of("root")) as server:
        yield server


@pytest.fixture
def api(shared: Server) -> Iterator[Api]:
    """The admin's client; its instances are closed after the test."""
    client = Api(shared)
    yield client
    for instance_id in client.instances():
        Instance(client, instance_id).close()


def environment(**more: str) -> dict[str, str]:
    """Return the variables that a command runs with."""
    own = {k: v for k, v in os.environ.items() if not k.startswith("GHS_")}
    for name in ("CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
        own.pop(name, None)
    paths = os.pathsep.join([str(ROOT), str(ROOT / "clients" / "python")])
    return {**own, "PYTHONPATH": paths, "COLUMNS": "80", **more}


def words_of(*args: str) -> list[str]:
    """Return the command line."""
    return [sys.executable, "-m", "gym_http_server", *args]


def run(*args: str, status: int = 0, **more: str) -> Result:
    """Run a command to its end, in this process, which saves its start."""
    variables = environment(**more)
    others = dict.fromkeys(os.environ.keys() - variables.keys())
    done = CliRunner().invoke(
        cli.main, args, env={**others, **variables}, prog_name="gym-http-server"
    )
    assert isinstance(done.exception, SystemExit | None), done.exception
    assert done.exit_code == status, (args, done, done.output)
    return done


def run_apart(*args: str, **more: str) -> str:
    """Run a command to its end, as users do; return its output."""
    done = subprocess.run(
        words_of(*args),
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    assert not done.stderr
    return done.stdout


def admin(*args: str, **more: Any) -> Result:
    """Run a command with the admin's token."""
    return run(*args, GHS_TOKEN=token_of("root"), **more)


class Running:
    """A command that runs until it receives a signal."""

    def __init__(self, *args: str) -> None:
        self._process = subprocess.Popen(
            words_of(*args),
            env=environment(GHS_TOKEN=token_of("root"), PYTHONUNBUFFERED="1"),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert self._process.stdout
        os.set_blocking(self._process.stdout.fileno(), False)
        self.output = b""

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout
        self._process.stdout.close()

    def wait_for(self, words: str) -> str:
        """Wait until it has printed some words, and return all of its output."""

        def printed() -> bool:
            assert self._process.stdout
            self.output += self._process.stdout.read() or b""
            return words.encode() in self.output

        wait_until(printed, 20, words)
        return self.output.decode()

    def end(self, number: int = 0) -> int:
        """Wait for its end, after a signal if there is one."""
        if number:
            self._process.send_signal(number)
        status = self._process.wait(20)
        assert self._process.stdout
        self.output += self._process.stdout.read() or b""
        return status


def test_an_empty_list_says_so(shared: Server, api: Api) -> None:
    made = api.create()
    no_content(made.close())
    printed = run_apart("ls", shared.url, GHS_TOKEN=token_of("root"))
    assert printed.startswith(f"There are no instances at {shared.url}.")
    assert "--ended" in printed


def test_the_list_is_a_table(shared: Server, api: Api) -> None:
    ada = api_of(shared, "ada").create("FrozenLake-v1", label="first")
    label = "a label of sixty-four characters" + "." * 32
    api.create("printing/Actions-v0", label=label)
    Instance(api, ada.id).reset()
    steps = [Instance(api, ada.id).step(0) for _ in range(3)]
    narrow = admin("ls", shared.url, COLUMNS="80").stdout.splitlines()
    assert max(map(len, narrow)) == 80
    head, *rows = admin("ls", shared.url, COLUMNS="").stdout.splitlines()
    titles = ["ID", "ENV", "LABEL", "OWNER", "STATE", "FOR", "AGE", "STEPS", "EPIS"]
    assert head.split() == [*titles, "MEM"]
    assert len(rows) == 2
    cells = rows[0].split()
    assert cells[:5] == [ada.id, "FrozenLake-v1", "first", "ada", "running"]
    assert cells[6:8] == [str(len(steps)), str(sum(each["done"] for each in steps))]
    assert label in rows[1]
    for title in ("ENV", "LABEL", "OWNER", "STATE"):
        place = head.index(title)
        assert {row[place - 1] for row in rows} == {" "}
        assert " " not in {row[place] for row in rows}
    (one,) = run("ls", shared.url, GHS_TOKEN=token_of("ada")).stdout.splitlines()[1:]
    assert ada.id in one


def test_the_list_of_the_ended(shared: Server, api: Api) -> None:
    crashed = api.create("hostile/Segfault-v0", label="brittle")
    crashed.reset()
    crashed.post("step/", {"action": 1})
    closed = api.create()
    no_content(closed.close())
    printed = admin("ls", shared.url, "--ended").stdout
    head, first, second, *_ = printed.splitlines()
    assert head.split()[0] == "ID"
    assert first.split()[0] == closed.id
    assert first.endswith(" closed")
    assert second.split()[0] == crashed.id
    assert second.split()[2].startswith("brit")
    assert second.endswith("crashed (SIGSEGV)")
    assert max(map(len, printed.splitlines())) <= 80


def test_json_is_the_answer_of_the_server(shared: Server, api: Api) -> None:
    made = api.create(label="in JSON")
    printed = json.loads(admin("ls", shared.url, "--json").stdout)
    assert printed.keys() == {"ended", "instances", "slots"}
    (row,) = printed["instances"]
    assert (row["instance_id"], row["label"]) == (made.id, "in JSON")


def test_close(shared: Server, api: Api) -> None:
    first, second, third = (api.create() for _ in range(3))
    done = admin("close", shared.url, first.id, "0badc0de", third.id, status=1)
    assert done.stdout == f"closed {first.id}\nclosed {third.id}\n"
    assert "Instance_id 0badc0de unknown" in done.stderr
    assert set(api.instances()) == {second.id}
    done = admin("close", shared.url, "--idle", "1h")
    assert done.stdout == "There is nothing to close.\n"
    assert set(api.instances()) == {second.id}
    bob = {"GHS_TOKEN": token_of("bob")}
    assert run("close", shared.url, "--all", **bob).stdout.startswith(
        "There is nothing"
    )
    done = admin("close", shared.url, "--idle", "0s", "--json")
    assert json.loads(done.stdout) == {"closed": [second.id], "failed": {}}
    assert api.instances() == {}


def test_close_all_closes_busy_ones_and_idle_spares_them(
    shared: Server, api: Api
) -> None:
    made = api.create("hostile/Slow-v0", kwargs={"seconds": 30})
    made.reset()
    with Running("watch", shared.url, made.id) as watching:
        watching.wait_for("Watching")
        process = subprocess.Popen(
            [sys.executable, "-c", STEP, shared.url, made.id, token_of("root")],
            env=environment(),
        )
        try:

            def busy() -> bool:
                rows = ok(api.get("/v1/instances/"))["instances"]
                return rows[0]["busy_s"] is not None

            wait_until(busy, 20)
            assert "nothing" in admin("close", shared.url, "--idle", "0s").stdout
            assert admin("close", shared.url, "--all").stdout == f"closed {made.id}\n"
        finally:
            process.kill()
            process.wait()


STEP = """
import sys
from gym_http_client import Client
Client(sys.argv[1], token=sys.argv[3]).env_step(sys.argv[2], 1)
"""


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "name the instances to close"),
        (("--all", "--idle", "5m"), "name the instances to close"),
        (("--idle", "soon"), "'soon': expected a time, as 90, 90s or 10m"),
    ],
)
def test_close_wants_to_know_which(
    shared: Server, args: tuple[str, ...], words: str
) -> None:
    assert words in admin("close", shared.url, *args, status=2).stderr


def test_envs(shared: Server) -> None:
    printed = run_apart("envs", shared.url, "frozenlake", GHS_TOKEN=token_of("root"))
    head, first, *_ = printed.splitlines()
    assert head.split() == ["ENV", "STEPS"]
    assert first.split() == ["FrozenLake-v1", "100"]
    nothing = admin("envs", shared.url, "no such thing").stdout
    assert nothing == (
        "No environment with 'no such thing' in its name is registered on the server.\n"
    )
    every = admin("envs", shared.url).stdout.splitlines()
    assert max(map(len, every)) <= 80
    jax = next(line for line in every if line.startswith("phys2d/CartPole-v1"))
    assert "not available: No module named 'ja" in jax
    found = json.loads(admin("envs", shared.url, "--available", "--json").stdout)
    assert {"CartPole-v1", "printing/Actions-v0"} <= {each["env_id"] for each in found}
    assert all(each["available"] for each in found)


def test_watch_prints_steps(shared: Server, api: Api) -> None:
    made = api.create("FrozenLake-v1", kwargs={"is_slippery": False})
    with Running("watch", shared.url, made.id) as watching:
        watching.wait_for(f"Watching {made.id}; Ctrl-C stops.\n")
        made.reset(seed=1)
        # Down, down, right, down, right, right: around the holes to the goal.
        for action in (1, 1, 2, 1, 2, 2):
            made.step(action)
        output = watching.wait_for("episode over")
        assert "     1  reset   observation 0\n" in output
        assert "     2  step    reward 0  observation 4\n" in output
        assert "     7  step    reward 1  terminated observation 15\n" in output
        assert output.endswith("        episode over after 6 steps, return 1\n")
        assert watching.end(signal.SIGINT) == 130
        assert b"Traceback" not in watching.output
        assert b"Aborted" not in watching.output


def test_watch_ends_with_the_instance(shared: Server, api: Api) -> None:
    closed = api.create(render_mode="rgb_array")
    with Running("watch", shared.url, closed.id) as watching:
        watching.wait_for("Watching")
        closed.reset(seed=1)
        # A watcher that falls behind receives the newest copy alone.
        watching.wait_for("reset ")
        ok(closed.get("render/", headers={"Accept": "application/json"}))
        output = watching.wait_for("uint8 array of 400x600x3")
        assert "reset   observation [0.001182 0.04505 -0.03558 0.04486]\n" in output
        no_content(closed.close())
        assert watching.end() == 0
        assert watching.output.decode().endswith(f"{closed.id} ended: closed\n")
    crashed = api.create("hostile/Segfault-v0")
    crashed.reset()
    with Running("watch", shared.url, crashed.id) as watching:
        watching.wait_for("Watching")
        crashed.post("step/", {"action": 1})
        assert watching.end() == 0
        assert b"ended: crashed (SIGSEGV)" in watching.output


def test_watch_prints_json(shared: Server, api: Api) -> None:
    made = api.create()
    with Running("watch", shared.url, made.id, "--json") as watching:
        first = made.reset(seed=1)
        while b"\n" not in watching.output:
            made.step(0)
            watching.wait_for("{")
        assert watching.end(signal.SIGINT) == 130
        one = json.loads(watching.output.splitlines()[0])
    assert one.keys() == {"op", "number", "dropped", "status", "value"}
    if one["op"] == "reset":
        assert one["value"] == first


def test_logs(shared: Server, api: Api) -> None:
    made = api.create("printing/Actions-v0")
    made.reset()
    made.step("x" + b"one\n\xff\n".hex())
    wait_until(lambda: b"one" in made.get("log/").body)
    done = subprocess.run(
        words_of("logs", shared.url, made.id),
        env=environment(GHS_TOKEN=token_of("root")),
        capture_output=True,
        timeout=50,
        check=True,
    )
    assert done.stdout == b"one\n\xff\n"
    with Running("logs", shared.url, made.id, "--follow") as following:
        wait_until(lambda: b"one" in made.get("log/").body)
        made.step("x" + b"two\n".hex())
        following_output = b"one\n\xff\ntwo\n"

        def printed() -> bool:
            assert following._process.stdout
            following.output += following._process.stdout.read() or b""
            return following.output == following_output

        wait_until(printed, 20)
        no_content(made.close())
        assert following.end() == 0
        assert following.output == b"one\n\xff\ntwo\nbye\n"
    # It is one of the last that ended.
    assert admin("ls", shared.url, "--ended").stdout.split()[11:]
    with Running("logs", shared.url, api.create().id, "-f") as following:
        wait_until(lambda: following._process.poll() is None)
        assert following.end(signal.SIGINT) in (130, -signal.SIGINT)


@pytest.mark.parametrize("command", ["watch", "logs"])
def test_an_unknown_instance(shared: Server, command: str) -> None:
    done = admin(command, shared.url, "0badc0de", status=1)
    assert done.stderr.startswith("gym-http-server: Instance_id 0badc0de unknown")
    assert done.stderr.endswith("; gym-http-server ls lists those that there are\n")


def test_no_server_is_reported() -> None:
    done = run("ls", "http://127.0.0.1:9", status=1)
    assert done.stderr.startswith("gym-http-server: ")
    assert "127.0.0.1:9" in done.stderr
    done = run("ls", "127.0.0.1:5000", status=1)
    assert "A server's address looks like http://127.0.0.1:5000" in done.stderr


def test_ways_to_show_a_token(shared: Server, tmp_path: Path) -> None:
    token = token_of("ada")
    file = tmp_path / "token"
    file.write_text(f"{token}\n")
    with_token = shared.url.replace("//", f"//:{token}@")
    run("ls", shared.url, "--token", token)
    run("ls", shared.url, "--token-file", str(file))
    assert token not in run("ls", with_token).stdout
    run("ls", with_token, GHS_TOKEN="wrong-in-the-variable")
    run("ls", shared.url, GHS_TOKEN_FILE=str(file))
    done = run("ls", shared.url, status=1)
    assert "401" in done.stderr


def test_a_certificate(make_server: MakeServer, tmp_path: Path) -> None:
    certificate, key = certificate_and_key(tmp_path)
    server = make_server("--certfile", str(certificate), "--keyfile", str(key))
    url = server.url.replace("127.0.0.1", "localhost")
    refused = run("ls", url, status=1)
    assert "CERTIFICATE_VERIFY" in refused.stderr
    assert (
        "There are no instances" in run("ls", url, "--cafile", str(certificate)).stdout
    )
    variable = {"SSL_CERT_FILE": str(certificate)}
    assert "There are no instances" in run("ls", url, **variable).stdout
    unknown = run("watch", url, "0badc0de", "--cafile", str(certificate), status=1)
    assert "unknown" in unknown.stderr
