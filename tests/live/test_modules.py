"""Where environments come from: modules at start, the working directory, threads."""

from collections.abc import Callable

import psutil
import pytest

from tests.support import api as calls
from tests.support.api import Api
from tests.support.server import Server
from tests.support.wait import wait_until

MINE = """
import gymnasium
from tests.support.hostile import Hostile
gymnasium.register("Mine-v0", Hostile)
"""


def test_a_module_with_threads_gets_interpreters_of_its_own(
    make_server: Callable[..., Server],
) -> None:
    server = make_server("--import", "tests.support.threaded")
    api = Api(server)
    (supervisor,) = (
        child
        for child in psutil.Process(server.pid).children()
        if "gym_http_server.supervisor" in child.cmdline()
    )
    assert supervisor.num_threads() == 1
    apart = api.create("hostile/Threaded-v0")
    apart.reset()
    told = apart.step(1)["info"]
    assert "gym_http_server.envhost" in told["command"]
    forked = api.create("CartPole-v1")
    assert forked.reset(seed=0)
    assert supervisor.num_threads() == 1
    found = calls.ok(api.get("/v1/registry/?search=threaded"))["envs"]
    assert [env["env_id"] for env in found] == ["hostile/Threaded-v0"]
    calls.no_content(apart.close())
    wait_until(lambda: not psutil.pid_exists(told["pid"]), 3.0, "the host to be gone")


def test_a_module_that_cannot_be_imported_is_said_in_a_line(
    launch_server: Callable[..., Server],
) -> None:
    server = launch_server("--import", "my_module")
    assert server.wait_exit(30.0) == 1
    assert "cannot import the module 'my_module': Module" in server.stderr
    assert "Traceback" not in server.stderr


@pytest.mark.parametrize("how", ["import", "colon"])
def test_ones_own_environments_in_the_working_directory(how: str) -> None:
    flag = "--import" if how == "import" else "--allow-module"
    env_id = "Mine-v0" if how == "import" else "my_envs:Mine-v0"
    server = Server(flag, "my_envs")
    (server.base / "my_envs.py").write_text(MINE)
    with server:
        api = Api(server)
        assert api.create(env_id).reset()["observation"] == 0
        assert list(api.instances().values()) == [env_id]


def test_the_registry_tells_what_can_be_made(server: Server) -> None:
    api = Api(server)
    everything = calls.ok(api.get("/v1/registry"))
    rows = {row["env_id"]: row for row in everything["envs"]}
    assert everything["count"] == len(rows) > 300
    assert rows["CartPole-v1"] == {
        "available": True,
        "entry_point": "gymnasium.envs.classic_control.cartpole:CartPoleEnv",
        "env_id": "CartPole-v1",
        "max_episode_steps": 500,
        "reason": None,
    }
    for missing in ("phys2d/CartPole-v1", "HalfCheetah-v2"):
        assert rows[missing]["available"] is False
        assert rows[missing]["reason"]
        answer = api.post("/v1/envs/", {"env_id": missing})
        calls.error(answer, 501, "dependency-missing")
    found = calls.ok(api.get("/v1/registry/?search=CARTPOLE&available=true"))["envs"]
    assert [row["env_id"] for row in found] == ["CartPole-v0", "CartPole-v1"]
    calls.error(api.get("/v1/registry/?available=perhaps"), 400, "bad-parameter")
