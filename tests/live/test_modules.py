"""Modules with environments: imports at start, the working directory, and threads."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.support import api as calls
from tests.support.api import Api
from tests.support.server import Server
from tests.support.wait import wait_until

MINE = """
import gymnasium
from tests.support.envs.hostile import Hostile
gymnasium.register("Mine-v0", Hostile)
"""


def test_a_module_with_threads_gets_interpreters_of_its_own(
    make_server: Callable[..., Server],
) -> None:
    server = make_server("--import", "tests.support.envs.threaded")
    api = Api(server)
    supervisor = server.supervisor
    assert supervisor.num_threads() == 1
    apart = api.create("hostile/Threaded-v0")
    apart.reset()
    answer = apart.step(1)["info"]
    assert "gym_http_server.host" in answer["command"]
    assert len(answer["argv"]) == 1
    forked = api.create("CartPole-v1")
    assert forked.reset(seed=0)
    assert supervisor.num_threads() == 1
    found = calls.ok(api.get("/v1/registry/?search=threaded"))["envs"]
    assert "hostile/Threaded-v0" in [env["env_id"] for env in found]
    calls.no_content(apart.close())
    wait_until(lambda: not psutil.pid_exists(answer["pid"]), 3.0, "the host to be gone")


def test_a_module_that_cannot_be_imported_is_reported_in_a_line(
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


def test_the_registry_lists_creatable_environments(server: Server) -> None:
    api = Api(server)
    everything = calls.ok(api.get("/v1/registry"))
    rows = {row["env_id"]: row for row in everything["envs"]}
    assert everything["count"] == len(rows) > 300
    arguments = rows["CartPole-v1"].pop("arguments")
    assert arguments[0]["name"] == "sutton_barto_reward"
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


#: Modules that processes of the server import, or try to, at start or later.
PLANTED = ["flask", "msgspec", "yaml", "click", "numpy", "gunicorn", "jax", "mujoco"]


def plant(server: Server) -> Path:
    """Write modules to the working directory that record their imports."""
    marks = server.base / "marks"
    for name in PLANTED:
        words = f"import os\nopen({str(marks)!r}, 'a').write({name!r} + ' ')\n"
        (server.base / f"{name}.py").write_text(words)
    return marks


def test_modules_in_the_working_directory_are_not_imported() -> None:
    server = Server()
    marks = plant(server)
    with server:
        api = Api(server)
        assert api.get("/openapi.json").status == 200
        calls.ok(api.get("/v1/registry/"))
        instance = api.create()
        instance.reset()
        instance.close()
    assert not marks.exists(), "they were imported"


PATH_TELLER = """
import sys
import gymnasium
from {module} import {base}
class Mine({base}):
    def misbehave(self):
        return {{"path": sys.path}}
gymnasium.register("{env_id}", Mine)
"""


def test_fresh_interpreters_look_where_forks_look() -> None:
    server = Server("--import", "my_threads", "--import", "my_envs")
    marks = plant(server)
    for name, module, base, env_id in (
        ("my_threads", "tests.support.envs.threaded", "Threaded", "Fresh-v0"),
        ("my_envs", "tests.support.envs.hostile", "Hostile", "Forked-v0"),
    ):
        text = PATH_TELLER.format(module=module, base=base, env_id=env_id)
        (server.base / f"{name}.py").write_text(text)
    with server:
        api = Api(server)
        paths = []
        for env_id in ("Fresh-v0", "Forked-v0"):
            instance = api.create(env_id)
            instance.reset()
            paths.append(instance.step(1)["info"]["path"])
            instance.close()
        assert paths[0] == paths[1]
        assert paths[0][-1] == str(server.base)
    assert not marks.exists(), "they were imported"


@pytest.mark.parametrize(
    ("flag", "mode", "parent_mode", "words"),
    [
        ("--import", 0o777, 0o700, "can be written by every user,"),
        ("--allow-module", 0o1777, 0o700, "can be written by every user,"),
        ("--import", 0o770, 0o700, "can be written by group 4321,"),
        ("--import", 0o700, 0o777, "can be written by every user of "),
    ],
)
def test_a_working_directory_that_others_can_write_is_refused(
    flag: str, mode: int, parent_mode: int, words: str, tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    if mode == 0o770:
        if os.geteuid() and "CI" not in os.environ:
            pytest.skip("root may give a folder to a group")
        os.chown(folder, -1, 4321)
    folder.chmod(mode)
    tmp_path.chmod(parent_mode)
    (folder / "my_envs.py").write_text(MINE)
    command = [sys.executable, "-P", "-m", "gym_http_server", "serve", "--port", "0"]
    # Short: the path of a Unix socket holds 107 bytes.
    with tempfile.TemporaryDirectory(prefix="ghst-", dir="/tmp") as run_dir:
        ran = subprocess.run(
            [*command, "--run-dir", run_dir, flag, "my_envs"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert not os.listdir(run_dir), "the run directory is left"
    tmp_path.chmod(0o700)
    assert ran.returncode == 1, ran
    assert f"the working directory {folder} {words}" in ran.stderr
    assert "only you can write" in ran.stderr
    assert "Traceback" not in ran.stderr
