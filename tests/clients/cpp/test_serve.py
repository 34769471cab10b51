"""Environments that C++ programs provide, driven from Python."""

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from gym_http_client import RemoteEnv, ServerError
from tests.clients.command_tests import Command, CommandTests
from tests.clients.cpp.local_env import STEPS, LocalGame
from tests.clients.local_toy import assert_same
from tests.clients.provider_tests import Provided, ProviderTests
from tests.support import cpp_programs
from tests.support.api import Api, error
from tests.support.drivers import CLIENTS, needs
from tests.support.peers.external_env import ExternalEnv
from tests.support.peers.reporting_process import ReportingProcess
from tests.support.peers.stdio_host import StdioHost
from tests.support.server import Server
from tests.support.wait import wait_until

TOKEN = "a-token-for-far-sides-only"

pytestmark = [pytest.mark.live, pytest.mark.toolchain, pytest.mark.timeout(180)]
MakeServer = Callable[..., Server]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the provider, which needs no Boost."""
    needs("clang++")
    program = tmp_path_factory.mktemp("lending") / "lending"
    source = CLIENTS / "cpp/tests/providing.cpp"
    cpp_programs.build(source, program, "-Wshadow", *cpp_programs.STRICT)
    return program


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server whose broker runs from the beginning."""
    with Server() as server:
        ExternalEnv.to(Api(server)).drop()
        yield server


class ProviderProcess(ReportingProcess):
    """A C++ program that provides an environment and reports its handlers' calls."""

    def __init__(self, program: Path, *words: str, token: str | None = None) -> None:
        super().__init__((program, *words), token=token)


@pytest.fixture
def provided(program: Path) -> Provided:
    """The environment for the tests of all clients."""

    def start(
        url: str, dialect: str = "json", token: str | None = None
    ) -> ProviderProcess:
        return ProviderProcess(program, "run", url, "twin", dialect, token=token)

    return Provided(start, "twin", LocalGame, slow_options={"mood": "slow"})


class TestProvider(ProviderTests):
    """The tests of all clients."""


@pytest.fixture(scope="module", params=["run", "poll"])
def command(program: Path, request: pytest.FixtureRequest) -> Command:
    """The environment for the tests of all clients that serve as commands."""
    return Command(
        lambda dialect: (program, request.param, "stdio:", "twin", dialect),
        LocalGame,
        [1, [0, 0]],
        ("said by printf", "said by a child", '"request":"step"'),
        slow_options={"mood": "slow"},
    )


class TestCommand(CommandTests):
    """The tests of all clients."""

    def test_it_ends_with_its_input_in_the_middle_of_a_step(
        self, command: Command
    ) -> None:
        with StdioHost(command.words("json")) as host:
            host.welcome()
            host.request("init", kwargs={})
            host.request("reset", seed=1, options={"mood": "asleep"})
            host.begin("step", action=command.action)
            host.wait_for_line("falls asleep")
            host.end_input()
            status, output, _ = host.wait_exit()
        assert (status, output) == (0, b"")


@pytest.mark.parametrize("dialect", ["json", "binary"])
@pytest.mark.parametrize("how", ["run", "poll"])
def test_it_equals_the_local_environment(
    server: Server, program: Path, how: str, dialect: str
) -> None:
    reference = LocalGame()
    with (
        ProviderProcess(program, how, server.url, "twin", dialect) as provider,
        RemoteEnv(server.url, "external/twin", wait_s=20, render_mode="ansi") as env,
    ):
        assert env.observation_space == reference.observation_space
        assert env.action_space == reference.action_space
        (made,) = provider.done("init")
        assert (made["kwargs"], made["mode"]) == ({}, "ansi")
        env.action_space.seed(1)
        for seed in (2**63 - 1, None, 7):
            given, info = env.reset(seed=seed)
            expected, expected_info = reference.reset(seed=seed)
            assert_same(given, expected)
            assert info == expected_info
            assert env.observation_space.contains(given)
            for number in range(1, STEPS + 1):
                action = env.action_space.sample()
                given_step, expected_step = env.step(action), reference.step(action)
                assert_same(given_step[0], expected_step[0])
                assert given_step[1:] == expected_step[1:]
                assert type(given_step[1]) is float
                assert env.render() == f"step {number}"
            assert given_step[2]
    agents = [each["agent"] for each in provider.reports if "agent" in each]
    assert agents == [True, False]


@pytest.mark.parametrize("dialect", ["json", "binary"])
def test_errors_are_reported(server: Server, program: Path, dialect: str) -> None:
    action = (1, np.zeros(2, np.float32))
    unsaid = ("bad-answer", "reward")
    if dialect == "json":
        unsaid = ("env-error", "cannot be encoded: JSON has no NaN")
    with (
        ProviderProcess(program, "run", server.url, "twin", dialect) as provider,
        RemoteEnv(server.url, "external/twin", wait_s=20) as env,
    ):
        for mood, code, words in [
            ("stuck", "env-error", "step failed: the crate is stuck"),
            ("silent", "env-error", "step failed: the environment does not answer"),
            ("mad", "bad-answer", "observation"),
            ("nan", *unsaid),
        ]:
            env.reset(options={"mood": mood})
            with pytest.raises(ServerError, match=words) as caught:
                env.step(action)
            assert caught.value.code == code, mood
        with pytest.raises(ServerError, match="no such option") as caught:
            env.reset(options={"impossible": True})
        assert caught.value.code == "bad-parameter"
        env.reset(options={"mood": "tired"})
        with pytest.raises(gymnasium.error.InvalidAction, match="not now"):
            env.step(action)
        provider.wait_for("the server found a fault in observation")
        # Answers of another thread do not wait for the next message.
        env.reset(seed=1, options={"mood": "slow"})
        began = time.monotonic()
        assert [env.step(action)[4]["steps"] for _ in range(3)] == [1, 2, 3]
        assert time.monotonic() - began < 10


def test_an_instance_may_have_other_spaces(server: Server, program: Path) -> None:
    with (
        ProviderProcess(program, "poll", server.url, "twin", "binary"),
        RemoteEnv(server.url, "external/twin", wait_s=20, small=True) as env,
    ):
        assert env.observation_space == gymnasium.spaces.Discrete(1000)
        assert env.action_space == gymnasium.spaces.Discrete(5)
        observation = env.reset(seed=1)[0]
        assert isinstance(observation, np.int64)
        assert env.observation_space.contains(env.step(4)[0])


@pytest.mark.parametrize(("how", "kind"), [("run", "thrown"), ("poll", "refused")])
def test_a_refused_hello_ends_it(
    server: Server, program: Path, how: str, kind: str
) -> None:
    with ProviderProcess(program, how, server.url, "no name!", "json") as provider:
        wait_until(lambda: {kind: "bad-hello"} in provider.reports, 20.0)
        provider.wait_for("name is 'no name!'")


@pytest.mark.parametrize(("how", "dialect"), [("run", "json"), ("poll", "binary")])
def test_plain_tcp(
    make_server: MakeServer, program: Path, how: str, dialect: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    flags = ("--external-tcp", str(port), "--external-heartbeat", "1")
    server = make_server(*flags, "--token", TOKEN, token=TOKEN)
    url = server.url.replace("://", f"://:{TOKEN}@")
    words = (how, f"tcp://127.0.0.1:{port}", "twin", dialect)
    with ProviderProcess(program, *words) as provider:
        kind = "thrown" if how == "run" else "refused"
        wait_until(lambda: {kind: "unauthorized"} in provider.reports, 20.0)
    with ProviderProcess(program, *words, token=TOKEN) as provider:
        reference = LocalGame()
        with RemoteEnv(url, "external/twin", wait_s=20) as env:
            env.action_space.seed(1)
            assert_same(env.reset(seed=3)[0], reference.reset(seed=3)[0])
            # This call takes longer than the connection may be silent.
            nobody = {"env_id": "external/nobody", "wait_s": 2.5}
            error(Api(server).post("/v1/envs/", nobody), 503, "external-away")
            for _ in range(STEPS):
                action = env.action_space.sample()
                given, expected = env.step(action), reference.step(action)
                assert_same(given[0], expected[0])
                assert given[1:] == expected[1:]
        logged = [each["log"] for each in provider.reports if "log" in each]
        assert not any("anew" in line or "again" in line for line in logged), logged
        server.stop()
        provider.wait_for("trying again")
        provider.reports.clear()
        again = ("--port", str(server.port), *flags, "--token", TOKEN)
        server = make_server(*again, token=TOKEN)
        provider.wait_for("connected")
        with RemoteEnv(url, "external/twin", wait_s=20) as env:
            assert_same(env.reset(seed=3)[0], LocalGame().reset(seed=3)[0])


def test_a_game_keeps_its_frames(make_server: MakeServer, program: Path) -> None:
    """Whatever the server and the agent do, or do not do."""
    server = make_server()
    server.stop()
    # Its name takes longer to look up than a hundred frames.
    url = f"http://far.test:{server.port}"
    there = ("--port", str(server.port), "--allow-host", "far.test")
    with ProviderProcess(program, "game", url, "game", "3") as game:
        game.wait_for("trying again")
        server = make_server(*there)
        with RemoteEnv(server.url, "external/game", wait_s=20) as env:
            env.reset()
            for number in range(1, 16):
                # An agent that thinks, of a game that thinks as well.
                time.sleep(number % 3 * 0.1)
                assert env.step(0)[0] == number
            time.sleep(1.5)
        game.wait_for("the agent left")
        server.stop()
        game.wait_for("connecting again")
        game.reports.clear()
        again = make_server(*there)
        game.wait_for("connected")
        with RemoteEnv(again.url, "external/game", wait_s=20) as env:
            env.reset()
            assert env.step(0)[0] == 1
        game.end()
        (answer,) = (each for each in game.reports if "frames" in each)
    frames, alone = answer["frames"], answer["alone"]
    assert frames["count"] > 400
    assert frames["busy"] <= frames["count"] // 1000, answer
    # A machine that keeps a loop from its frames which does next to nothing keeps this
    # one from them, too. To wait for the name alone would miss ninety; to wait for an
    # answer in a frame would make one frame in ten slow.
    assert frames["slow"] <= frames["count"] // 100 + alone["slow"] + 1, answer
    assert frames["missed"] <= 3 * alone["missed"] + 3, answer
