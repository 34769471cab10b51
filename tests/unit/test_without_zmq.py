"""What those are told who want ZeroMQ and have no pyzmq."""

import functools
import importlib.util
import threading
from collections.abc import Callable
from typing import Any

import gymnasium
import pytest
from click.testing import CliRunner

from gym_http_client import RemoteEnv, serve_env
from gym_http_server import cli

URL = "tcp://127.0.0.1:5556"


@pytest.fixture(autouse=True)
def no_zmq(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def without(name: str, *args: Any) -> Any:
        return None if name == "zmq" else find(name, *args)

    monkeypatch.setattr(importlib.util, "find_spec", without)


@pytest.mark.parametrize(
    "use",
    [
        functools.partial(RemoteEnv, URL, "CartPole-v1"),
        functools.partial(
            gymnasium.make, "gym_http/ZeroMQ-v0", url=URL, env_id="CartPole-v1"
        ),
        functools.partial(
            serve_env, gymnasium.Env, f"zmq+{URL}", name="x", stop=threading.Event()
        ),
    ],
)
def test_the_client_says_what_to_install(use: Callable[[], Any]) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"gymnasium-http-client\[zmq\]"):
        use()


def test_the_server_says_what_to_install() -> None:
    result = CliRunner().invoke(cli.main, ["serve", "--zmq", URL])
    assert result.exit_code == 1
    assert "pip install 'gymnasium-http-server[zmq]'" in result.output
