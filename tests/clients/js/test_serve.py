"""Environments that JavaScript programs provide, driven from Python."""

import os
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest

from gym_http_client import RemoteEnv, ServerError
from tests.clients.local_toy import LocalToy
from tests.clients.provider_tests import Provided, ProviderTests
from tests.support.api import Api, Instance, error, ok
from tests.support.drivers import CLIENTS, needs
from tests.support.faults.disconnecting_proxy import DisconnectingProxy
from tests.support.peers.external_env import ExternalEnv
from tests.support.peers.js_provider import JsProvider
from tests.support.server import Server
from tests.support.wait import wait_until

TOKEN = "a-token-for-far-sides-only"

pytestmark = [pytest.mark.live, pytest.mark.toolchain, pytest.mark.timeout(120)]
MakeServer = Callable[..., Server]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server whose broker runs from the beginning."""
    with Server() as server:
        ExternalEnv.to(Api(server)).drop()
        yield server


def assert_same(observation: Any, given: Any) -> None:
    """Compare an observation with the handler's report of it."""
    if isinstance(observation, dict):
        assert isinstance(observation["place"], np.int64)
        assert observation["place"] == given["place"]
        assert observation["seen"].tolist() == given["seen"]
    elif isinstance(observation, np.ndarray):
        assert observation.ravel().tolist() == given
    else:
        assert isinstance(observation, np.int64)
        assert observation == given


@pytest.fixture
def provided() -> Provided:
    """The environment for the tests of all clients."""

    def start(url: str, dialect: str = "json", token: str | None = None) -> JsProvider:
        return JsProvider(url, "discrete", dialect, token)

    return Provided(start, "toy", partial(LocalToy, "discrete"), slow={"slow": 500})


class TestProvider(ProviderTests):
    """The tests of all clients."""


def test_its_own_tests_pass(server: Server) -> None:
    needs("node")
    done = subprocess.run(
        ["node", "--test", "--test-reporter=tap", "tests/serving.mjs"],
        cwd=CLIENTS / "js",
        env={**os.environ, "GYM_HTTP_TEST_URL": server.url},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    assert "\n# fail 0\n" in done.stdout
    assert "\n# skipped 0\n" in done.stdout


@pytest.mark.parametrize("dialect", ["json", "binary"])
@pytest.mark.parametrize("kind", ["discrete", "box", "dict"])
def test_agents_get_the_values_of_handlers(
    server: Server, kind: str, dialect: str
) -> None:
    with JsProvider(server.url, kind, dialect) as provider:
        with RemoteEnv(
            server.url, "external/toy", wait_s=20, render_mode="ansi", slow=0
        ) as env:
            env.action_space.seed(1)
            observation, info = env.reset(seed=2**63 - 1, options={"level": 3})
            (begun,) = provider.done("reset")
            assert (begun["seed"], begun["options"]) == (str(2**63 - 1), {"level": 3})
            assert info == {"options": {"level": 3}}
            assert env.observation_space.contains(observation)
            assert_same(observation, begun["observation"])
            actions, steps = [], []
            for number in range(1, 51):
                actions.append(env.action_space.sample())
                steps.append(env.step(actions[-1]))
                assert env.render() == f"step {number}"
            for action, step, given in zip(
                actions, steps, provider.done("step"), strict=True
            ):
                assert np.asarray(action).tolist() == given["action"]
                assert env.observation_space.contains(step[0])
                assert_same(step[0], given["observation"])
                assert step[1:] == tuple(
                    given[name]
                    for name in ("reward", "terminated", "truncated", "info")
                )
                assert type(step[1]) is float
            with pytest.raises(ServerError, match="the crate is stuck") as caught:
                env.step(actions[0])
            assert caught.value.code == "env-error"
            with pytest.raises(ServerError, match="no such option") as caught:
                env.reset(options={"impossible": True})
            assert caught.value.code == "bad-parameter"
        wait_until(lambda: {"agent": False} in provider.reports)
        (made,) = provider.done("init")
        assert (made["kwargs"], made["renderMode"]) == ({"slow": 0}, "ansi")


def test_with_other_spaces_it_resumes_over_cut_connections(server: Server) -> None:
    with (
        DisconnectingProxy(server.port) as cutter,
        JsProvider(f"http://127.0.0.1:{cutter.port}", "discrete", "json") as provider,
        RemoteEnv(server.url, "external/toy", wait_s=20, actions=9) as env,
    ):
        assert env.action_space == gymnasium.spaces.Discrete(9)
        env.reset(seed=1)
        cutter.cut_after(1)
        assert env.step(8)[4] == {"steps": 1}
        provider.wait_for("resumed")


@pytest.mark.parametrize("dialect", ["json", "binary"])
def test_agents_reach_exported_attributes(server: Server, dialect: str) -> None:
    with (
        JsProvider(server.url, "open", dialect) as provider,
        RemoteEnv(server.url, "external/toy", wait_s=20) as env,
    ):
        assert env.spec is None
        assert env.metadata["render_modes"] == ["ansi"]
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(1)
        env.reset(seed=7, options={"level": 3})
        assert env.get_wrapper_attr("gravity") == 9.8
        env.set_wrapper_attr("gravity", 1.62)
        assert env.get_wrapper_attr("gravity") == 1.62
        assert list(env.get_wrapper_attr("field")) == [1, 2]
        assert env.get_wrapper_attr("add")(1, 2) == 3
        assert env.get_wrapper_attr("add")(1, 2, twice=True) == 6
        assert env.set_wrapper_attr("weather", 1, force=False) is False
        for name in ("weather", "_secret", "constructor", "__proto__", "toString"):
            with pytest.raises(AttributeError):
                env.get_wrapper_attr(name)
        with pytest.raises(ServerError, match="that is broken") as caught:
            env.get_wrapper_attr("fail")()
        assert caught.value.code == "env-error"
        env.reset(seed=7)
        assert len(provider.done("reset")) == 2


def test_its_generator_is_kept_and_set(server: Server) -> None:
    api = Api(server)
    with (
        JsProvider(server.url, "open", "binary") as provider,
        RemoteEnv(server.url, "external/toy", wait_s=20) as env,
    ):
        env.reset(seed=7)
        (made,) = [k for k, v in api.instances().items() if v == "external/toy"]
        instance = Instance(api, made)
        kept = ok(instance.get("generator/"))
        first = env.reset()[0]
        assert env.reset()[0] != first
        assert ok(instance.post("generator/", kept)) == {}
        assert env.reset()[0] == first
        assert provider.done("reset")[1]["observation"] == first


def test_an_environment_without_a_generator_says_so(server: Server) -> None:
    api = Api(server)
    with (
        JsProvider(server.url, "discrete", "json") as provider,
        RemoteEnv(server.url, "external/toy", wait_s=20),
    ):
        provider.wait_for("an agent arrived")
        (made,) = [k for k, v in api.instances().items() if v == "external/toy"]
        error(Instance(api, made).get("generator/"), 501, "unsupported")


@pytest.mark.parametrize("dialect", ["json", "binary"])
def test_it_falls_back_to_http_long_polling(
    dialect: str, make_server: MakeServer
) -> None:
    server = make_server("--external-heartbeat", "1", "--token", TOKEN, token=TOKEN)
    url = server.url.replace("://", f"://:{TOKEN}@")
    with JsProvider(server.url, "dict", dialect, TOKEN, "http") as provider:
        with RemoteEnv(url, "external/toy", wait_s=20, slow=300) as env:
            observation, _ = env.reset(seed=1)
            assert_same(observation, provider.done("reset")[0]["observation"])
            for number in range(1, 4):
                observation, *_, info = env.step(1)
                assert_same(observation, provider.done("step")[-1]["observation"])
                assert info == {"steps": number}
            assert len(provider.done("step")) == 3
        wait_until(lambda: {"agent": False} in provider.reports)
        # Meanwhile it is silent for longer than it may be, but for its calls.
        nobody = {"env_id": "external/nobody", "wait_s": 4.5}
        error(Api(server).post("/v1/envs/", nobody), 503, "external-away")
        logged = [each.get("log", "") for each in provider.reports]
        assert not any("connecting again" in line for line in logged)
        with RemoteEnv(url, "external/toy", wait_s=20) as env:
            env.reset(seed=2)


def test_over_http_it_learns_of_faults_and_reconnects(
    make_server: MakeServer,
) -> None:
    server = make_server("--external-grace", "1")
    with JsProvider(server.url, "discrete", "json", transport="http") as provider:
        provider.wait_for("connected")
        server.stop()
        provider.reports.clear()
        again = make_server("--port", str(server.port))
        provider.wait_for("connected")
        with RemoteEnv(again.url, "external/toy", wait_s=20) as env:
            env.reset(seed=1)
