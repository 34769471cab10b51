"""ps and top show the role of each server process, but no settings."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.api import Api, no_content
from tests.support.intruder_calls import INTRUDER, attempt
from tests.support.server import Server
from tests.support.wait import wait_until

pytestmark = pytest.mark.live

TOKEN = "a-token-of-the-tests"


def titles(server: Server) -> list[str]:
    """Return the titles that ps shows for a server's processes, sorted."""
    pids = [server.pid, *(each.pid for each in processes.descendants(server.pid))]
    command = ["ps", "-o", "args=", "-p", ",".join(map(str, pids))]
    shown = subprocess.run(command, capture_output=True, text=True).stdout
    found = [line.strip() for line in shown.splitlines()]
    # One or more spare hosts wait; what is forked has its parent's title for a moment.
    several = {"gym: spare host", "gym: fork server", "gym: supervisor"}
    once = several & set(found)
    return sorted([*once, *(each for each in found if each not in several)])


def test_ps_and_top_show_titles(make_server: Callable[..., Server]) -> None:
    server = make_server(
        *("--external-tcp", "127.0.0.1:0", "--zmq", "tcp://127.0.0.1:0"),
        *("--token", TOKEN, "--import", "tests.support.envs.threaded"),
        *("--workers", "2"),
        token=TOKEN,
    )
    api = Api(server)
    forked = api.create("CartPole-v1")
    fresh = api.create("hostile/Threaded-v0")
    vector = api.create("CartPole-v1", num_envs=4, hosts=2, vectorization_mode="sync")
    expected = [
        "gym: broker",
        "gym: fork server",
        "gym: gateway",
        "gym: gunicorn",
        f"gym: launcher {server.url}",
        "gym: remover",
        "gym: spare host",
        "gym: supervisor",
        "gym: web worker",
        "gym: web worker",
        f"gym: {forked.id} CartPole-v1",
        f"gym: {fresh.id} hostile/Threaded-v0",
        f"gym: {vector.id} CartPole-v1",
        f"gym: {vector.id} CartPole-v1 [2-3]",
    ]
    wait_until(lambda: titles(server) == sorted(expected), message=f"{expected}")
    host = server.host(forked.id)
    # The name that top shows; the kernel keeps 15 characters of it.
    assert Path(f"/proc/{host.pid}/comm").read_text() == f"gym: {forked.id} C\n"


def test_an_invalid_id_forges_no_title(server: Server) -> None:
    Api(server).post("/v1/envs/", {"env_id": "Cart\nPole\x1b[31m-v1"})
    made = Api(server).create("CartPole-v1")
    assert f"gym: {made.id} CartPole-v1" in titles(server)
    # A process that ends has no title for a moment.
    wait_until(lambda: all(line.startswith("gym: ") for line in titles(server)))
    no_content(made.close())


def test_settings_are_in_no_command_line_and_no_environment(
    make_server: Callable[..., Server],
) -> None:
    server = make_server(
        *("--token", TOKEN, "--import", "tests.support.envs.threaded"),
        *("--external-tcp", "127.0.0.1:0", "--allow-host", "a-host-of-the-tests"),
        env={"GHS_TANGO_NAME": "a-name-of-the-tests"},
        token=TOKEN,
    )
    api = Api(server)
    for env_id in ("hostile/Threaded-v0", "CartPole-v1"):
        api.create(env_id)
    seen = b""
    for member in server.members():
        for name in ("cmdline", "environ"):
            seen += Path(f"/proc/{member.pid}/{name}").read_bytes()
    seen += Path(f"/proc/{server.pid}/cmdline").read_bytes()
    # The harness's own variable shows that these are the environments.
    assert b"TEST_SERVER_BASE" in seen
    for secret in (TOKEN, "a-host-of-the-tests", "a-name-of-the-tests", "{"):
        assert secret.encode() not in seen


def test_environments_see_a_bare_argv(make_server: Callable[..., Server]) -> None:
    """Some environments parse argv, and would read the server's arguments."""
    server = make_server("--import", "tests.support.envs.threaded")
    for env_id in ("intruder/Apart-v0", INTRUDER):
        argv, command = attempt(Api(server).create(env_id), "command")
        assert [Path(each).name for each in argv] == ["__main__.py"]
        # Nothing but the numbers of descriptors.
        assert all(each.isdigit() for each in command[4:])
        assert not json.dumps(command).count("{")
