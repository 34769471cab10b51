"""Environments that Lua programs provide, driven from Python."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pytest

from gym_http_client import RemoteEnv, ServerError
from tests.clients.command_tests import Command, CommandTests
from tests.clients.local_toy import LocalToy, assert_same
from tests.clients.lua.test_lua import HERE, INTERPRETERS, interpreters, run
from tests.clients.provider_tests import Provided, ProviderTests
from tests.support.api import Api
from tests.support.drivers import needs
from tests.support.peers.external_env import ExternalEnv
from tests.support.peers.reporting_process import ReportingProcess
from tests.support.server import Server

TOKEN = "a-token-for-far-sides-only"
FRAME = 1 / 60
ONE = "lua5.1"

pytestmark = [pytest.mark.live, pytest.mark.toolchain, pytest.mark.timeout(120)]
MakeServer = Callable[..., Server]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server whose broker runs from the beginning."""
    with Server() as server:
        ExternalEnv.to(Api(server)).drop()
        yield server


class ProviderProcess(ReportingProcess):
    """A Lua game that provides an environment and reports its handlers' calls.

    Args:
        url: The server's address.
        folder: Where a file requests its stop: a game does not wait for input.
        kind: The kind of observations.
        dialect: The dialect of its connections.
        interpreter: The Lua interpreter.
        token: The value of ``GHS_TOKEN``.
    """

    def __init__(
        self,
        url: str,
        folder: Path,
        kind: str = "discrete",
        dialect: str = "json",
        interpreter: str = ONE,
        token: str | None = None,
    ) -> None:
        needs(interpreter)
        self._stop = folder / "stop"
        words = [interpreter, "tests/providing.lua", url, "toy", kind, dialect]
        super().__init__([*words, str(self._stop)], cwd=HERE, token=token)

    def ask_to_stop(self) -> None:
        """Request it to stop."""
        self._stop.touch()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        self._stop.unlink(missing_ok=True)
        if error is None and self._process.returncode != -signal.SIGKILL:
            assert self._process.returncode == 0
            self._check_frames(self.reports[-1])

    def _check_frames(self, answer: dict[str, Any]) -> None:
        """Check that no frame waited for the network.

        Others use this machine, too: a few may have come late.
        """
        assert answer["long"] <= 5 + answer["frames"] / 20, answer
        assert answer["longest"] < 0.5, answer
        # Each of these took the time of some others.
        late = 25 * answer["long"]
        assert answer["frames"] + 15 + late > answer["seconds"] * 50, answer


@pytest.fixture
def provided(tmp_path: Path) -> Provided:
    """The environment for the tests of all clients."""

    def start(
        url: str, dialect: str = "json", token: str | None = None
    ) -> ProviderProcess:
        return ProviderProcess(url, tmp_path, dialect=dialect, token=token)

    return Provided(start, "toy", partial(LocalToy, "discrete"), slow={"later": 30})


class TestProvider(ProviderTests):
    """The tests of all clients."""


@pytest.fixture(scope="module", params=INTERPRETERS)
def command(request: pytest.FixtureRequest) -> Command:
    """The environment for the tests of all clients that serve as commands."""
    needs(request.param)
    path = f"LUA_PATH={HERE}/?.lua;{HERE}/?/init.lua;;"
    program = ("env", path, request.param, HERE / "tests/providing.lua")
    return Command(
        lambda dialect: (*program, "stdio:", "toy", "discrete", dialect, "/never"),
        partial(LocalToy, "discrete"),
        1,
        ("said by print\tnil", "said by io.write", "said by io.stdout"),
        slow={"later": 20},
    )


class TestCommand(CommandTests):
    """The tests of all clients."""


@interpreters
@pytest.mark.parametrize("units", ["serving", "lost_session"])
def test_units(interpreter: str, units: str) -> None:
    assert ", 0 failed" in run(interpreter, f"tests/{units}.lua")


# Every interpreter with every kind, and both of them in every dialect.
@pytest.mark.parametrize(
    ("interpreter", "kind", "dialect"),
    [
        (interpreter, kind, ("json", "binary")[(i + j) % 2])
        for i, interpreter in enumerate(INTERPRETERS)
        for j, kind in enumerate(LocalToy.SPACES)
    ],
)
def test_it_equals_the_local_environment(
    server: Server, tmp_path: Path, interpreter: str, kind: str, dialect: str
) -> None:
    reference = LocalToy(kind)
    with (
        ProviderProcess(server.url, tmp_path, kind, dialect, interpreter) as provider,
        RemoteEnv(
            server.url, "external/toy", wait_s=20, render_mode="ansi", later=0
        ) as env,
    ):
        assert env.observation_space == reference.observation_space
        assert env.action_space == reference.action_space
        env.action_space.seed(1)
        options = {"level": 3}
        ours = env.reset(seed=2**53 - 1, options=options)
        theirs = reference.reset(seed=2**53 - 1, options=options)
        assert_same(ours[0], theirs[0])
        assert ours[1] == theirs[1]
        actions = []
        for number in range(1, 51):
            actions.append(env.action_space.sample())
            step, expected = env.step(actions[-1]), reference.step(actions[-1])
            assert_same(step[0], expected[0])
            assert step[1:] == expected[1:]
            assert type(step[1]) is float
            if number % 10 == 0:
                assert env.render() == f"step {number}"
        for action, given in zip(actions, provider.done("step"), strict=True):
            assert np.asarray(action).tolist() == given["action"]
        with pytest.raises(ServerError, match="the crate is stuck") as caught:
            env.step(actions[0])
        assert caught.value.code == "env-error"
        with pytest.raises(ServerError, match="no such option") as caught:
            env.reset(options={"impossible": True})
        assert caught.value.code == "bad-parameter"
    (made,) = provider.done("init")
    assert (made["kwargs"], made["render_mode"]) == ({"later": 0}, "ansi")
    assert {"agent": True} in provider.reports


@pytest.mark.parametrize("interpreter", ["lua5.1", "luajit"])
def test_steps_are_answered_some_frames_later(
    server: Server, tmp_path: Path, interpreter: str
) -> None:
    reference = LocalToy("discrete")
    with (
        ProviderProcess(server.url, tmp_path, interpreter=interpreter),
        RemoteEnv(server.url, "external/toy", wait_s=20, later=3) as env,
    ):
        assert_same(env.reset(seed=4)[0], reference.reset(seed=4)[0])
        for action in (0, 1, 2, 3):
            assert_same(env.step(action)[0], reference.step(action)[0])


def test_frames_go_on_while_an_agent_thinks(server: Server, tmp_path: Path) -> None:
    with (
        ProviderProcess(server.url, tmp_path) as provider,
        RemoteEnv(server.url, "external/toy", wait_s=20) as env,
    ):
        env.reset(seed=1)
        for _ in range(2):
            time.sleep(0.5)
            env.step(1)
        # From here on it sends nothing.
        time.sleep(1)
        assert len(provider.done("step")) == 2


def test_an_environment_without_an_answer_may_be_reset(
    make_server: MakeServer, tmp_path: Path
) -> None:
    server = make_server("--step-deadline", "1")
    with (
        ProviderProcess(server.url, tmp_path) as provider,
        RemoteEnv(server.url, "external/toy", wait_s=20, later=-1) as env,
    ):
        for _ in range(2):
            env.reset(seed=1)
            with pytest.raises(ServerError) as caught:
                env.step(1)
            assert caught.value.code == "external-deadline"
        assert provider.done("step") == []


@pytest.mark.slow
def test_frames_go_on_while_no_server_accepts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        port = listener.getsockname()[1]
        # A later connection would wait for these forever.
        with contextlib.ExitStack() as stack:
            for _ in range(3):
                each = stack.enter_context(socket.socket())
                each.setblocking(False)
                each.connect_ex(("127.0.0.1", port))
            provider = stack.enter_context(
                ProviderProcess(f"http://127.0.0.1:{port}", tmp_path)
            )
            provider.wait_for("there is no server at")


def test_plain_tcp(make_server: MakeServer, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    flags = ("--external-tcp", str(port), "--external-heartbeat", "1")
    server = make_server(*flags, "--token", TOKEN, token=TOKEN)
    url = server.url.replace("://", f"://:{TOKEN}@")
    address = f"tcp://127.0.0.1:{port}"
    for dialect in ("json", "binary"):
        reference = LocalToy("dict")
        with (
            ProviderProcess(
                address, tmp_path, "dict", dialect, token=TOKEN
            ) as provider,
            RemoteEnv(url, "external/toy", wait_s=20) as env,
        ):
            assert_same(env.reset(seed=3)[0], reference.reset(seed=3)[0])
            assert_same(env.step(2)[0], reference.step(2)[0])
            provider.wait_for("connected")


BAD = {
    "nothing": ("nil", "env-error", "returned no observation"),
    "outside": ("{observation = 5, reward = 1}", "bad-answer", "observation"),
    "no reward": ("{observation = 1}", "bad-answer", "reward"),
    "no flag": (
        "{observation = 1, reward = 1, terminated = 1}",
        "bad-answer",
        "terminated",
    ),
    "words": ("{observation = 'far', reward = 1}", "bad-answer", "observation"),
    "NaN": ("{observation = 1, reward = 0 / 0}", "", "reward|cannot be encoded"),
    "function": ("{observation = print, reward = 1}", "env-error", "cannot be encoded"),
}
LEND = """
local serve = require("gym_http_client.serve")
local lending = serve.env({
  url = arg[1], name = arg[2], dialect = arg[3],
  observation_space = { type = "Discrete", n = 5 },
  action_space = { type = "Discrete", n = 2 },
  reset = function() return { observation = 0 } end,
  step = function() return VALUE end,
})
local ok, failed = lending:run()
print(ok, failed and failed.code, failed)
"""


@pytest.mark.parametrize("dialect", ["json", "binary"])
def test_an_invalid_answer_is_reported_to_the_agent(
    server: Server, tmp_path: Path, dialect: str
) -> None:
    needs(ONE)
    for number, (value, code, words) in enumerate(BAD.values()):
        program = tmp_path / f"{number}.lua"
        program.write_text(LEND.replace("VALUE", value))
        name = f"bad-{dialect}-{number}"
        with subprocess.Popen(
            [ONE, str(program), server.url, name, dialect],
            cwd=HERE,
            env={**os.environ, "LUA_PATH": f"{HERE}/?.lua;{HERE}/?/init.lua;;"},
            stdout=subprocess.PIPE,
        ) as provider:
            try:
                with RemoteEnv(server.url, f"external/{name}", wait_s=20) as env:
                    for _ in range(2):
                        env.reset()
                        with pytest.raises(ServerError, match=words) as caught:
                            env.step(1)
                        assert code in ("", caught.value.code)
            finally:
                provider.kill()


def test_a_hello_that_the_server_refuses_is_an_error(
    server: Server, tmp_path: Path
) -> None:
    program = tmp_path / "program.lua"
    program.write_text(LEND)
    output = run(ONE, str(program), server.url, "two words", "json")
    assert "external/two words: stopped: name is 'two words'" in output
    assert "nil\tbad-hello\tname is 'two words'" in output
