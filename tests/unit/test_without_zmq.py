"""The errors of ZeroMQ features when pyzmq is missing or broken."""

import functools
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from gym_http_client import RemoteEnv, serve_env

URL = "tcp://127.0.0.1:5556"
LIBRARY = "libzmq.so.5: cannot open shared object file: No such file or directory"
USES = [
    functools.partial(RemoteEnv, URL, "CartPole-v1"),
    functools.partial(
        gymnasium.make, "gym_http/ZeroMQ-v0", url=URL, env_id="CartPole-v1"
    ),
    functools.partial(
        serve_env, gymnasium.Env, f"zmq+{URL}", name="x", stop=threading.Event()
    ),
]


@pytest.fixture
def no_zmq(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no pyzmq."""
    monkeypatch.setitem(sys.modules, "zmq", None)


@pytest.fixture
def broken_zmq(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Install a pyzmq whose library is missing."""
    package = tmp_path / "zmq"
    package.mkdir()
    (package / "__init__.py").write_text(f"raise ImportError({LIBRARY!r})\n")
    monkeypatch.delitem(sys.modules, "zmq", raising=False)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("no_zmq")
@pytest.mark.parametrize("use", USES)
def test_the_client_names_the_missing_extra(use: Callable[[], Any]) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"gymnasium-http-client\[zmq\]"):
        use()


def test_the_server_names_the_missing_extra() -> None:
    message = _serve("import sys; sys.modules['zmq'] = None")
    assert "pip install 'gymnasium-http-server[zmq]'" in message


@pytest.mark.usefixtures("broken_zmq")
@pytest.mark.parametrize("use", USES)
def test_the_client_reports_a_broken_install(use: Callable[[], Any]) -> None:
    with pytest.raises(ImportError, match=r"cannot be loaded: libzmq\.so\.5") as caught:
        use()
    assert "pip install --force-reinstall pyzmq" in str(caught.value)


@pytest.mark.usefixtures("broken_zmq")
def test_the_server_reports_a_broken_install(tmp_path: Path) -> None:
    output = _serve(f"import sys; sys.path.insert(0, {str(tmp_path)!r})")
    assert f"cannot be loaded: {LIBRARY}" in output
    assert "pip install --force-reinstall pyzmq" in output


def _serve(before: str) -> str:
    """Start the server after a line of Python; return its error."""
    program = f"{before}\nfrom gym_http_server.commands.cli import main\nmain()"
    ended = subprocess.run(
        [sys.executable, "-c", program, "serve", "--zmq", URL],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    return ended.stderr
