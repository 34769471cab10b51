"""What a reload reads, says and refuses, without a server."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gym_http_server.commands import reload
from gym_http_server.commands.reload import ControlSocket, describe, read_anew
from gym_http_server.config.inherited_settings import Inherited
from gym_http_server.config.settings import Settings
from gym_http_server.processes.frame_socket import FrameSocket
from gym_http_server.rundir.directory import RunDir
from gym_http_wire.messages import Op, RequestHead, request
from tests.support.token_file import line

EVERYBODY: Any = SimpleNamespace(permits=lambda sock: True)


def with_tokens(*names: str, scopes: str = "read") -> Inherited:
    """Return settings with tokens of these names."""
    text = "".join(line(name, scopes) for name in names)
    return Inherited(Settings(tokens=text), "/run")


def test_names_are_listed_in_their_order_and_not_all_of_very_many() -> None:
    few, many = with_tokens("ada", "bob"), with_tokens(*(f"t{n:02}" for n in range(30)))
    words = describe(few, many)
    assert words.startswith("new tokens: t00, t01, t02, ")
    assert words.endswith("t18, t19 and 10 more; removed tokens: ada, bob")
    changed = with_tokens("ada", "bob", scopes="admin")
    assert describe(few, changed) == "changed tokens: ada, bob"
    assert describe(few, few) == "nothing has changed"


def test_the_level_is_that_of_the_command_or_of_the_start(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(line("ada", "read"))
    path.chmod(0o600)
    given = Settings(tokens=str(path), log_level="warning", port=7)
    current = Inherited(Settings(tokens="?", log_level="debug", port=8), "/run")
    for level, expected in (("", "warning"), ("error", "error")):
        new = read_anew(given, current, level)
        assert new.settings.log_level == expected
        assert new.settings.tokens == path.read_text()
        # All else stays as it is.
        assert (new.settings.port, new.run_path) == (8, "/run")


@pytest.fixture
def control(tmp_path: Path) -> Iterator[ControlSocket]:
    """The launcher's socket."""
    made = ControlSocket(RunDir(str(tmp_path)), EVERYBODY)
    yield made
    made._listener.close()


def ask(control: ControlSocket, tmp_path: Path, op: Op = Op.RELOAD) -> list[str]:
    """Connect and send a request; return the levels that the launcher reads."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(RunDir(str(tmp_path)).control_socket)
        FrameSocket(sock).send(request(op, head=RequestHead(value="debug")))
        commands = control.receive()
        for command in commands:
            command.answer("done")
        return [command.log_level for command in commands]


@pytest.mark.parametrize(
    ("user", "allowed"), [(os.geteuid(), True), (0, True), (os.geteuid() + 1, False)]
)
def test_only_the_servers_user_and_root_may_reload(
    control: ControlSocket,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    user: int,
    allowed: bool,
) -> None:
    """Whatever the permissions of the socket are, which an environment can change."""
    monkeypatch.setattr(reload, "_peer", lambda sock: (1, user))
    assert ask(control, tmp_path) == (["debug"] if allowed else [])


def test_other_requests_are_refused(control: ControlSocket, tmp_path: Path) -> None:
    assert ask(control, tmp_path, Op.SHUTDOWN) == []
    assert ask(control, tmp_path) == ["debug"]
