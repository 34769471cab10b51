"""An external environment in a container, which the command of an instance runs."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import gymnasium
import pytest

from gym_http_client import RemoteEnv
from gym_http_server.external.provider import PATH
from tests.support.api import Api, error
from tests.support.containers import Engine, engine
from tests.support.local_reference import assert_same_episodes
from tests.support.peers.agent_calls import in_background
from tests.support.server import Server
from tests.support.wait import wait_until

pytestmark = [pytest.mark.live, pytest.mark.toolchain, pytest.mark.timeout(180)]

MODULE = """
import time
import gymnasium

class Pole(gymnasium.Wrapper):
    def step(self, action):
        if self.sleeps:
            print("a step begins", flush=True)
            time.sleep(600)
        return super().step(action)

def make(sleeps=False):
    env = Pole(gymnasium.make("CartPole-v1"))
    env.sleeps = sleeps
    return env
"""


@pytest.fixture(scope="module", params=["podman", "docker"])
def containers(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Each engine that works here."""
    with engine(request.param) as found:
        yield found


@pytest.fixture
def command(containers: Engine, tmp_path: Path) -> tuple[str, str]:
    """The flag for a pole in a container, as ``external/pole``."""
    (tmp_path / "my_envs.py").write_text(MODULE)
    provider = "/app/gym_serve_stdio.py"
    places = {"/app/my_envs.py": tmp_path / "my_envs.py", provider: Path(PATH)}
    words = containers.command(places, provider, "my_envs:make")
    return "--env-command", f"pole={words}"


def test_it_is_equal_to_the_same_made_here(
    make_server: Callable[..., Server], containers: Engine, command: tuple[str, str]
) -> None:
    server = make_server(*command)
    local = gymnasium.make("CartPole-v1")
    with RemoteEnv(server.url, "external/pole") as env:
        assert len(containers.containers()) == 1
        assert_same_episodes(env, local)
    wait_until(lambda: not containers.containers())
    local.close()


@pytest.mark.parametrize("end", ["close", "host", "supervisor"])
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "in a step"])
def test_the_container_is_gone_with_its_instance(
    launch_server: Callable[..., Server],
    containers: Engine,
    command: tuple[str, str],
    end: str,
    busy: bool,
) -> None:
    server = launch_server(*command)
    server.wait_listening()
    instance = Api(server).create("external/pole", kwargs={"sleeps": busy})
    instance.reset()
    if busy:
        in_background(instance.post, "step/", {"action": 1})
        wait_until(lambda: b"a step begins" in instance.get("log/").body)
    if end == "close":
        instance.close()
    elif end == "host":
        os.kill(server.host(instance.id).pid, 9)
    else:
        server.supervisor.kill()
    wait_until(lambda: not containers.containers())
    if end == "supervisor":
        server.wait_exit()


@pytest.mark.parametrize("containers", ["podman"], indirect=True)
def test_in_the_sandbox_the_error_names_its_setting(
    make_server: Callable[..., Server], command: tuple[str, str]
) -> None:
    server = make_server(*command, "--sandbox", "on", parent="/var/tmp")
    answer = Api(server).post("/v1/envs/", {"env_id": "external/pole"})
    assert "--sandbox off" in error(answer, 503, "external-away")["message"]
