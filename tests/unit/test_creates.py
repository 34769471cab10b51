"""The queue of create requests: its order, and what fails in it."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest

from gym_http_server.config.settings import Settings
from gym_http_server.errors import ShareUsedUp, UnknownInstance
from gym_http_server.host.create_request import CreateRequest
from gym_http_server.rundir.directory import RunDir
from gym_http_server.supervisor.creates import Creates
from gym_http_wire.messages import Op, RequestHead, request


class Hosts(list[Any]):
    """The instances, of which there are none at first."""

    def __init__(self, start: Callable[..., Any]) -> None:
        self.start = start

    def get(self, instance_id: str) -> Any:
        """Return an instance."""
        return next((e for e in self if e.instance_id == instance_id), None)

    def close(self, instance: Any, reason: str) -> None:
        """Begin to end an instance."""
        instance.reason = reason

    def full(self) -> None:
        """Return no problem: a slot is free."""

    def making(self, since: float) -> int:
        """Return that no host makes its environment."""
        return 0


def queue(folder: Path, start: Callable[..., Any], *instances: Any) -> Creates:
    """Return a queue in which a function starts the hosts."""
    hosts = Hosts(start)
    hosts += instances
    return Creates(
        RunDir(str(folder)),
        Settings(),
        hosts=hosts,  # type: ignore[arg-type]
        owners=SimpleNamespace(  # type: ignore[arg-type]
            choose=lambda named, head: head.creator, quota_reached=lambda owner: None
        ),
        issued_ids=SimpleNamespace(),  # type: ignore[arg-type]
        fork_server=SimpleNamespace(keep=lambda count: None),  # type: ignore[arg-type]
        start_broker=lambda: None,
        start_fork_server=lambda: None,
        watch=lambda instance: None,
    )


def add(creates: Creates, label: str, replaces: str = "", **connection: Any) -> None:
    """Add a request of the token that its label begins with."""
    body = json.dumps({"env_id": "CartPole-v1", "label": label}).encode()
    sender: Any = SimpleNamespace(**{"instance": None, "closed": False, **connection})
    head = RequestHead(creator=label[:-1], instance_id=replaces)
    creates.add(sender, request(Op.CREATE, body, head))


def test_tokens_take_turns(tmp_path: Path) -> None:
    made: list[str | None] = []

    def start(request: CreateRequest, memory: int | None) -> Any:
        made.append(request.label)
        return SimpleNamespace(creators=[], create_key="")

    creates = queue(tmp_path, start)
    for label in ("ada1", "ada2", "ada3", "ada4", "bob1", "bob2", "cy1"):
        add(creates, label)
    while creates.serve():
        pass
    assert made == ["ada1", "bob1", "cy1", "ada2", "bob2", "ada3", "ada4"]


def test_the_slot_of_a_replaced_instance_is_for_one_request(tmp_path: Path) -> None:
    made: list[str | None] = []

    def start(request: CreateRequest, memory: int | None) -> Any:
        made.append(request.label)
        return SimpleNamespace(creators=[], create_key="")

    old = SimpleNamespace(
        instance_id="3c657dbc", reason="", end_request_id="", successors=[], live=True
    )
    creates = queue(tmp_path, start, old)
    add(creates, "ada1", replaces="3c657dbc", closed=True)
    assert old.reason == "closed"
    old.reason = ""
    add(creates, "ada2", replaces="3c657dbc")
    with pytest.raises(UnknownInstance):
        add(creates, "ada3", replaces="3c657dbc")
    with pytest.raises(UnknownInstance):
        add(creates, "ada4", replaces="00000000")
    add(creates, "bob1")
    # It does not begin before the other one has ended.
    assert creates.serve()
    assert not creates.serve()
    add(creates, "bob2")
    creates.on_end(old, None)  # type: ignore[arg-type]
    while creates.serve():
        pass
    assert made == ["bob1", "ada2", "bob2"]


def test_an_unexpected_failure_is_answered_and_the_next_has_its_turn(
    tmp_path: Path,
) -> None:
    failed: list[Exception] = []
    made: list[str | None] = []

    def start(request: CreateRequest, memory: int | None) -> Any:
        if request.label == "ada1":
            raise MemoryError
        made.append(request.label)
        return SimpleNamespace(creators=[], create_key="")

    creates = queue(tmp_path, start)
    add(creates, "ada1", fail=failed.append)
    add(creates, "ada2")
    while creates.serve():
        pass
    assert [type(each) for each in failed] == [MemoryError]
    assert made == ["ada2"]


def test_waiting_arguments_of_a_token_leave_room_for_others(tmp_path: Path) -> None:
    creates = queue(tmp_path, lambda request, memory: None)
    # 8 times --max-body, which is 8 MiB, is the room for all.
    mib = 2**20

    def refused(token: str, size: int) -> str:
        with memory_of(size) as memory:
            sender: Any = SimpleNamespace(instance=None, memory=memory.fileno())
            head = RequestHead(creator=token, digest="0" * 64)
            body = b'{"env_id": "CartPole-v1"}'
            try:
                creates.add(sender, request(Op.CREATE, body, head))
            except ShareUsedUp as problem:
                return problem.message
        return ""

    assert not refused("ada", 24 * mib)
    assert not refused("ada", 24 * mib)
    assert "the token 'ada' holds 50331648 of 67108864 bytes" in refused("ada", 1)
    assert "8 times --max-body" in refused("bob", 24 * mib)
    assert not refused("bob", 16 * mib)


def memory_of(size: int) -> IO[bytes]:
    """Return memory without content."""
    file = os.fdopen(os.memfd_create("arguments"), "wb")
    os.ftruncate(file.fileno(), size)
    return file
