"""Settings that restrict which environments are created and modules imported."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.api import Api, error, no_content
from tests.support.server import Server

pytestmark = pytest.mark.live

CANARY = """
import os, pathlib
pathlib.Path(__file__).with_name("touched").write_text(str(os.getpid()))
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


def test_allowed_envs(make_server: Callable[..., Server]) -> None:
    api = Api(make_server("--allow-env", "CartPole-*", "--allow-env", "FrozenLake-v1"))
    for env_id in ("CartPole-v0", "CartPole-v1", "FrozenLake-v1"):
        no_content(api.create(env_id).close())
    for env_id in ("Pendulum-v1", "xCartPole-v1", "FrozenLake-v11", "this:CartPole-v1"):
        error(api.post("/v1/envs/", {"env_id": env_id}), 403, "env-refused")
