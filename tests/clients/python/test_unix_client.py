"""The Python client on Unix sockets, with and without a server behind them."""

import gc
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from gym_http_client import Client, ServerError, ServerTimeout, ServerUnreachable
from gym_http_client.http.retries import Retries
from tests.support.server import Server

pytestmark = pytest.mark.usefixtures("transport")

TOKEN = "sixteen/or@more:characters"
ONCE = Retries(total=0.0)


@pytest.fixture(autouse=True)
def errors_are_collected(nothing_left_behind: None) -> Iterator[None]:
    """Free the errors: they hold their answers, which hold their connections."""
    yield
    gc.collect()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a b.sock"


@pytest.fixture
def url(path: Path) -> str:
    return f"http+unix://{quote(str(path), safe='')}"


def test_a_client_on_a_unix_socket(
    url: str,
    path: Path,
    make_server: Callable[..., Server],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Proxies are for networks; this one is not even there.
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    make_server("--unix", str(path), "--token", TOKEN, token=TOKEN)
    with Client(url, token=TOKEN) as client:
        assert client.remote_base == url
        cartpole = client.env_create("CartPole-v1", render_mode="rgb_array")
        observation, info = client.reset(cartpole, seed=42)
        # From Gymnasium itself, with this seed.
        assert observation[0] == pytest.approx(0.0273956, abs=1e-6)
        assert info == {}
        first = client.env_render(cartpole)
        assert first.startswith(b"\x89PNG")
        client.close()
        assert client.env_list_all() == {cartpole: "CartPole-v1"}
        client.env_close(cartpole)
    with Client(url.replace("//", f"//:{quote(TOKEN, safe='')}@")) as client:
        assert client.remote_base == url
        assert client.env_list_all() == {}
    with Client(url) as client, pytest.raises(ServerError) as refused:
        client.env_list_all()
    assert refused.value.status_code == 401
    assert refused.value.url == f"{url}/v1/envs/"


@pytest.mark.parametrize("kind", ["nothing", "left behind", "a file"])
def test_no_server(kind: str, url: str, path: Path) -> None:
    if kind == "left behind":
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))
    elif kind == "a file":
        path.touch()
    reason = "No such file" if kind == "nothing" else "refused"
    with Client(url, retries=ONCE) as client:
        with pytest.raises(ServerUnreachable, match=reason) as caught:
            client.env_list_all()
        assert url in str(caught.value)


def test_a_silent_server(url: str, path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen()
        with (
            Client(url, timeout=0.2, retries=ONCE) as client,
            pytest.raises(ServerTimeout, match=r"nothing within 0\.2 s"),
        ):
            client.env_list_all()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("http+unix://secret.sock", "http\\+unix:///path/to.sock"),
        ("http+unix://", "http\\+unix:///path/to.sock"),
        ("http+unix:///" + "x" * 107, "has 108 bytes, and 107 are possible"),
    ],
)
def test_invalid_addresses(wrong: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        Client(wrong)
    assert "secret" not in str(caught.value)
