"""The URL that a server prints with its token, in every client and in curl."""

import re
import subprocess
from collections.abc import Callable, Iterator

import gymnasium
import pytest

from gym_http_client import Client, RemoteEnv
from tests.support.drivers import Program
from tests.support.server import Server
from tests.support.wait import wait_until

_PRINTED = re.compile(r"^With the token: (http://:(\S+)@127\.0\.0\.1:\d+/v1/)$", re.M)

pytestmark = [
    pytest.mark.live,
    pytest.mark.toolchain,
    # The C++ driver is built within the first test that needs it.
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def printed() -> Iterator[str]:
    """The URL, of a server that made its token itself."""
    server = Server("--token", "auto")
    server.launch()
    try:
        server.wait_listening()
        match = wait_until(lambda: _PRINTED.search(server.stdout))
        server.token = match[2]
        yield match[1]
    finally:
        assert not server.end()


@pytest.mark.parametrize("name", ["python", "lua5.1", "lua5.4", "cpp", "js"])
@pytest.mark.parametrize("transport", ["rest", "stream"])
def test_clients_take_it_as_it_is(
    name: str, transport: str, printed: str, driver: Callable[[str], Program]
) -> None:
    program = driver(name)
    for url in (printed, printed.rstrip("/")):
        done = program.run("probe", url, transport, "20")
        assert done.stdout.strip() == "ok", done.stdout + done.stderr


def test_python_takes_it_as_it_is(
    printed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GHS_TOKEN", raising=False)
    env = RemoteEnv(printed, "CartPole-v1")
    env.reset(seed=1)
    env.close()
    with Client(printed) as client:
        assert client.env_list_all() == {}
    # Nor does gymnasium.make read a path of this kind as a token.
    token = printed.partition("://:")[2].partition("@")[0]
    monkeypatch.setenv("GHS_TOKEN", token)
    plain = printed.replace(f":{token}@", "")
    env = gymnasium.make("gym_http/Remote-v0", url=plain, env_id="CartPole-v1")
    env.reset(seed=1)
    env.close()


def test_curl_takes_it_as_it_is(printed: str) -> None:
    done = subprocess.run(
        ["curl", "-sS", "--fail", printed],
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    assert '"name":"gym_http_server"' in done.stdout
