"""The thermostat example: a real-time device in Lua."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from gym_http_client import RemoteEnv, ServerError
from tests.support.api import Api, ok
from tests.support.drivers import needs
from tests.support.server import ROOT, Server
from tests.support.wait import wait_until

FOLDER = ROOT / "examples/thermostat"
FLAGS = re.MULTILINE | re.DOTALL
HZ = 20
DAY = 288

pytestmark = [pytest.mark.live, pytest.mark.toolchain, pytest.mark.timeout(120)]


@pytest.fixture(scope="module", params=["lua5.1", "lua5.4"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server to which the device is connected."""
    needs(request.param)
    with (
        Server() as server,
        subprocess.Popen(
            ["bash", "-c", started(request.param, server.url, str(HZ))],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
        ) as device,
    ):
        try:
            wait_until(lambda: listings(server), 20.0, "the device to connect")
            yield server
        finally:
            device.kill()


def started(interpreter: str, *arguments: str) -> str:
    """Return the lines of the README that start the device."""
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"^```sh\n(cd .* lua thermostat\.lua)\n```$", readme, FLAGS)
    words = " ".join([interpreter, "thermostat.lua", *arguments])
    # The shell becomes the device, which can be ended then.
    return str(lines).replace("lua thermostat.lua", f"exec {words}")


def listings(server: Server) -> list[dict[str, Any]]:
    """Return the server's entries of the device."""
    path = "/v1/registry/?search=external/thermostat"
    return list(ok(Api(server).get(path))["envs"])


def made(server: Server, **kwargs: Any) -> RemoteEnv:
    return RemoteEnv(server.url, "external/thermostat", wait_s=20, **kwargs)


def test_a_day_follows_its_seed(server: Server) -> None:
    days = []
    with made(server, fast=True) as env:
        assert env.action_space == gymnasium.spaces.Discrete(3)
        for seed in (5, 5, 6):
            observation, _ = env.reset(seed=seed)
            day = [observation.tolist()]
            truncated = False
            while not truncated:
                observation, reward, terminated, truncated, info = env.step(
                    len(day) % 3
                )
                assert env.observation_space.contains(observation)
                assert not terminated
                assert float(reward) <= 0
                assert info == {"ticks": 1}
                day.append(observation.tolist())
            assert len(day) == DAY + 1
            days.append(day)
    assert days[0] == days[1] != days[2]


def test_heat_warms_and_costs(server: Server) -> None:
    with made(server, fast=True) as env:
        rooms, costs = [], []
        for action in (0, 1, 2):
            env.reset(seed=3)
            steps = [env.step(action) for _ in range(60)]
            rooms.append(float(steps[-1][0][0]))
            # By night, and not too cold: nothing but heat costs.
            costs.append(-float(steps[0][1]))
    assert rooms == sorted(rooms)
    assert rooms[2] - rooms[0] > 5
    # 5 kW for 5 minutes at 0.10 a kilowatt hour, by hand.
    assert costs == pytest.approx([0, 0.5 * 5 / 12 * 0.10, 5 / 12 * 0.10])


def test_it_does_not_wait_for_agents(server: Server) -> None:
    with made(server) as env:
        env.reset(seed=1)
        env.step(0)
        began = time.monotonic()
        hours = [float(env.step(2)[0][3]) for _ in range(20)]
        took = time.monotonic() - began
        # No faster than its clock.
        assert took > 18 / HZ
        assert np.diff(hours) == pytest.approx(np.full(19, 5 / 60), abs=0.3)
        before = float(env.step(2)[0][3])
        time.sleep(10 / HZ)
        observation, _, _, _, info = env.step(2)
        assert info["ticks"] >= 9
        assert float(observation[3]) - before == pytest.approx(info["ticks"] * 5 / 60)


def test_it_serves_one_agent_and_refuses_unknown_options(
    server: Server,
) -> None:
    with made(server, fast=True):
        (listed,) = listings(server)
        assert listed["reason"] == "all 1 are taken"
    with pytest.raises(ServerError, match="takes fast") as caught:
        made(server, speed=3)
    assert caught.value.code == "bad-parameter"


@pytest.mark.slow
@pytest.mark.parametrize("server", ["lua5.4"], indirect=True)
def test_a_tuned_agent_beats_a_naive_one(server: Server) -> None:
    done = subprocess.run(
        [sys.executable, str(FOLDER / "agent.py"), server.url, "--rounds", "1"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = dict(re.findall(r"^(naive|tuned) (-\d+\.\d\d)$", done.stdout, FLAGS))
    # Both are costs: the latter is less by a twentieth at least.
    assert float(found["tuned"]) > 0.95 * float(found["naive"])
