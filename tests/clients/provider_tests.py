"""Tests of the providers of environments that every client has."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import pytest

from gym_http_client import RemoteEnv, ServerError
from tests.clients.local_toy import assert_same
from tests.support.api import Api
from tests.support.faults.disconnecting_proxy import DisconnectingProxy
from tests.support.peers.reporting_process import ReportingProcess
from tests.support.server import Server

TOKEN = "a-token-for-far-sides-only"
MakeServer = Callable[..., Server]


@dataclass(frozen=True)
class Provided:
    """An environment that a test program provides with one client.

    Attributes:
        start: Starts the program with a URL, and optionally a dialect and a token.
        name: Name of the environment.
        local: Makes the same environment in Python.
        slow: Keyword arguments of a create with which steps take half a second.
        slow_options: Options of a reset after which they do.
    """

    start: Callable[..., ReportingProcess]
    name: str
    local: Callable[[], gymnasium.Env[Any, Any]]
    slow: dict[str, Any] = field(default_factory=dict)
    slow_options: dict[str, Any] | None = None

    def create(self, url: str, **kwargs: Any) -> RemoteEnv:
        """Create an instance of it, once it is connected."""
        return RemoteEnv(url, f"external/{self.name}", wait_s=20, **kwargs)

    def check_reset(self, env: RemoteEnv) -> None:
        """Check that an instance begins as the local environment."""
        assert_same(env.reset(seed=1)[0], self.local().reset(seed=1)[0])


class ProviderTests:
    """The tests, for a module that has the fixtures ``server`` and ``provided``."""

    @pytest.fixture(scope="class")
    @classmethod
    def impatient(cls) -> Iterator[Server]:
        """A server that waits for a second where others wait for longer."""
        flags = ("--external-grace", "1", "--external-heartbeat", "1")
        with Server(*flags) as server:
            # The broker starts when it is first needed, and stays.
            Api(server).post("/v1/external/")
            yield server

    @pytest.mark.parametrize("dialect", ["json", "binary"])
    def test_no_step_is_doubled_or_lost_over_cut_connections(
        self, server: Server, provided: Provided, dialect: str
    ) -> None:
        reference = provided.local()
        with (
            DisconnectingProxy(server.port) as cutter,
            provided.start(f"http://127.0.0.1:{cutter.port}", dialect) as provider,
            provided.create(server.url) as env,
        ):
            assert_same(env.reset(seed=1)[0], reference.reset(seed=1)[0])
            env.action_space.seed(1)
            for number in range(1, 9):
                cutter.cut_after(number % 2)
                action = env.action_space.sample()
                step, expected = env.step(action), reference.step(action)
                assert_same(step[0], expected[0])
                assert step[4] == {"steps": number}
            assert cutter.cuts == 8
            assert len(provider.done("step")) == 8
            provider.wait_for("resumed")
            assert {"agent": False} not in provider.reports

    def test_a_running_step_is_not_repeated(
        self, server: Server, provided: Provided
    ) -> None:
        with (
            DisconnectingProxy(server.port) as cutter,
            provided.start(f"http://127.0.0.1:{cutter.port}") as provider,
            provided.create(server.url, **provided.slow) as env,
        ):
            env.reset(seed=1, options=provided.slow_options)
            cutter.cut_after(1)
            assert env.step(env.action_space.sample())[4] == {"steps": 1}
            assert len(provider.done("step")) == 1

    def test_it_connects_to_a_restarted_server(
        self, make_server: MakeServer, provided: Provided
    ) -> None:
        server = make_server()
        with provided.start(server.url) as provider:
            with provided.create(server.url) as env:
                env.reset(seed=1)
                provider.wait_for("an agent arrived")
            server.stop()
            provider.wait_for("trying again")
            provider.reports.clear()
            again = make_server("--port", str(server.port))
            provider.wait_for("connected")
            with provided.create(again.url) as env:
                provided.check_reset(env)

    def test_a_killed_process_comes_back_as_a_new_connection(
        self, impatient: Server, provided: Provided
    ) -> None:
        server = impatient
        with provided.start(server.url) as provider:
            env = provided.create(server.url)
            provided.check_reset(env)
            action = env.action_space.sample()
            env.step(action)
            provider.kill()
        with provided.start(server.url) as provider:
            provider.wait_for("connected")
            with pytest.raises(ServerError) as caught:
                env.step(action)
            assert caught.value.code == "instance-ended"
            env.close()
            with provided.create(server.url) as env:
                provided.check_reset(env)

    def test_a_killed_process_takes_its_place_again_if_it_says_so(
        self, server: Server, provided: Provided, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PROVIDER_REPLACE", "1")
        with provided.start(server.url) as provider:
            env = provided.create(server.url)
            env.reset(seed=1)
            action = env.action_space.sample()
            observation = env.step(action)[0]
            provider.kill()
        with provided.start(server.url):
            step = env.step(action)
            assert_same(step[0], observation)
            assert step[1:] == (0.0, False, True, {"reconnected": True})
            provided.check_reset(env)
            env.close()

    @pytest.mark.parametrize("dialect", ["json", "binary"])
    def test_a_silent_server_is_given_up(
        self, impatient: Server, provided: Provided, dialect: str
    ) -> None:
        server = impatient
        with provided.start(server.url, dialect) as provider:
            provider.wait_for("connected")
            stopped = server.members()
            for process in stopped:
                process.suspend()
            try:
                provider.wait_for("the server sends nothing")
                provider.reports.clear()
            finally:
                for process in stopped:
                    process.resume()
            provider.wait_for("connected")
            with provided.create(server.url) as env:
                provided.check_reset(env)

    def test_a_token_is_sent_where_required(
        self, make_server: MakeServer, provided: Provided
    ) -> None:
        server = make_server("--token", TOKEN, token=TOKEN)
        with provided.start(server.url) as provider:
            provider.wait_for("the token is missing or wrong")
        url = server.url.replace("://", f"://:{TOKEN}@")
        with (
            provided.start(server.url, token=TOKEN),
            provided.create(url) as env,
        ):
            provided.check_reset(env)
