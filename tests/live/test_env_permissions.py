"""Settings that restrict which environments are created and modules imported."""

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.live.test_resume import read, write
from tests.support.api import Api, error, no_content, ok
from tests.support.peers.openenv import OpenEnvClient
from tests.support.peers.zmq_peers import ZmqPeer
from tests.support.server import Server

pytestmark = pytest.mark.live

CANARY = """
import os, pathlib
pathlib.Path(__file__).with_name("touched").write_text(str(os.getpid()))
"""
MARKING = "marks/Me-v0"
MARKS = f"""
from pathlib import Path
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

class Marking(CartPoleEnv):
    def __init__(self, **kwargs):
        Path(__file__).with_name("made").touch()
        super().__init__(**kwargs)

gymnasium.register("{MARKING}", Marking)
"""


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    (tmp_path / "canary_module.py").write_text(CANARY)
    return tmp_path


def test_modules_are_not_imported(
    canary: Path, make_server: Callable[..., Server]
) -> None:
    flags = ["--allow-module", "canary", "--allow-module", "canary_module.sub"]
    api = Api(make_server(*flags, python_path=(canary,)))
    for env_id in ("canary_module:CartPole-v1", "canary_module:x", "this:CartPole-v1"):
        error(api.post("/v1/envs/", {"env_id": env_id}), 403, "env-refused")
    for wrapper in ("canary_module:Wrapper", "canary_module.Wrapper"):
        body = {"env_id": "CartPole-v1", "wrappers": [wrapper]}
        error(api.post("/v1/envs/", body), (400, 403))
    assert not (canary / "touched").exists()


def test_allowed_modules_are_imported_by_the_host(
    canary: Path, make_server: Callable[..., Server]
) -> None:
    server = make_server("--allow-module", "canary_module", python_path=(canary,))
    instance = Api(server).create("canary_module:CartPole-v1")
    assert instance.reset()["observation"]
    assert int((canary / "touched").read_text()) == server.host(instance.id).pid
    no_content(instance.close())


def record_as(env_id: str, api: Api, data_dir: Path) -> str:
    """Return the directory of a recording of an environment that was never made."""
    no_content(api.create("CartPole-v1", record="allowed").close())
    header, *rest = read(data_dir / "allowed")
    request = {**header.value["request"], "env_id": env_id}
    written = header._replace(value={**header.value, "request": request})
    write(data_dir / "refused", [written, *rest])
    return "refused"


def test_allowed_envs(make_server: Callable[..., Server], tmp_path: Path) -> None:
    (tmp_path / "marks_here.py").write_text(MARKS)
    touch = [sys.executable, "-c", f"open({str(tmp_path / 'made')!r}, 'w')"]
    flags = ["--allow-env", "CartPole-*", "--allow-env", "FrozenLake-v1"]
    flags += ["--import", "marks_here", "--sandbox", "off"]
    flags += ["--zmq", "tcp://127.0.0.1:0", "--env-command", f"it={shlex.join(touch)}"]
    server = make_server(*flags, python_path=(tmp_path,))
    api = Api(server)
    for env_id in ("CartPole-v0", "CartPole-v1", "FrozenLake-v1"):
        no_content(api.create(env_id).close())
    assert api.get("/v1/registry/CartPole-v1/thumbnail/").status == 200
    refused = "Pendulum-v1", "xCartPole-v1", "FrozenLake-v11", "this:CartPole-v1"
    for env_id in (*refused, "pettingzoo/classic.rps_v2", "external/it", MARKING):
        is_refused_in_every_way(server, env_id)
    again = {"resume": record_as(MARKING, api, server.data_dir)}
    assert MARKING in error(api.post("/v1/envs/", again), 403, "env-refused")["message"]
    known = {each["env_id"] for each in ok(api.get("/v1/registry/"))["envs"]}
    assert MARKING in known
    assert not (tmp_path / "made").exists()


def is_refused_in_every_way(server: Server, env_id: str) -> None:
    """Check that no operation makes an environment, and that all say why."""
    api = Api(server)
    create: dict[str, Any] = {"env_id": env_id}
    words = error(api.post("/v1/envs/", create), 403, "env-refused")["message"]
    for answer in (
        api.post("/v1/envs/", {**create, "num_envs": 2}),
        api.get(f"/v1/registry/{env_id}/thumbnail/"),
        api.get(f"/openenv/{env_id}/schema"),
    ):
        assert error(answer, 403, "env-refused")["message"] == words
    with OpenEnvClient.connect(server, env_id) as client:
        refusal = client.error("reset")
        assert (refusal["problem"], refusal["message"]) == ("env-refused", words)
    with ZmqPeer(server) as peer:
        answer = peer.call(type="agent", protocol=1, create=create)
        assert (answer["code"], answer["message"]) == ("env-refused", words), answer
