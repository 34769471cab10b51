"""A host that cannot create its environment on a full disk reports the error."""

import errno
import socket
from pathlib import Path
from typing import Any

import pytest

from gym_http_server.config.settings import Settings
from gym_http_server.host import process
from gym_http_server.host.create_request import read_request
from gym_http_server.host.external.leased_connection import ExternalSettings
from gym_http_server.rundir.status import StatusReader
from gym_http_wire.frames import FrameReader
from gym_http_wire.messages import problem_of


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_host_without_room_for_its_folders_refuses(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def isolate(*args: Any, **more: Any) -> None:
        raise OSError(number, "no room")

    monkeypatch.setattr(process, "isolate", isolate)
    (tmp_path / "3c657dbc").mkdir()
    start = process.HostStart(
        instance_id="3c657dbc",
        run_path=str(tmp_path),
        parent_pid=1,
        request=read_request(b'{"env_id": "CartPole-v1"}', Settings()),
        terms=ExternalSettings(1.0, 1.0, 1.0, 1024, 1024),
        max_body=1024,
        max_answer=1024,
        strict_actions=False,
    )
    ours, theirs = socket.socketpair()
    page = StatusReader()
    received = process.PAGE, [page.file]
    monkeypatch.setattr(process, "receive_with_descriptors", lambda *_: received)
    with ours, theirs, socket.socket(socket.AF_UNIX) as listener:
        assert process.run(start, theirs, listener) == 0
        (frame,) = FrameReader(1024).feed(ours.recv(4096))
    page.close()
    error = problem_of(frame)
    assert (error.status, error.code) == (507, "disk-full")
