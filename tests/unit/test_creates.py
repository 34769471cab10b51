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
from gym_http_server.host.create_request import CreateRequest, ResumeRequest
from gym_http_server.rundir.directory import RunDir
from gym_http_server.supervisor.creates import REPEAT_SECONDS, Creates
from gym_http_wire.messages import NODE_KEY, Op, RequestHead, answer, request
from gym_http_wire.problems import BadParameter


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

    find = get
    kill = close

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
        issued_ids=SimpleNamespace(add=lambda name: None),  # type: ignore[arg-type]
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


def test_only_a_web_worker_can_resume_a_recording(tmp_path: Path) -> None:
    made: list[Any] = []

    def start(request: CreateRequest, memory: int | None) -> Any:
        made.append(request.resume)
        return SimpleNamespace(creators=[], create_key="")

    creates = queue(tmp_path, start)
    body = b'{"env_id": "Acrobot-v1", "resume": "cart", "verify": false}'
    sender: Any = SimpleNamespace(instance=None, closed=False)
    with pytest.raises(BadParameter, match="resumed over HTTP"):
        creates.add(sender, request(Op.CREATE, body, RequestHead(creator="ada")))
    head = RequestHead(creator="ada", resumed=True)
    creates.add(sender, request(Op.CREATE, body, head))
    while creates.serve():
        pass
    assert made == [ResumeRequest("cart", None, False)]


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


class Forwarded:
    """Creates under the key of a node, and the instances that they make.

    Args:
        folder: Of the run directory.
        monkeypatch: Sets the clock.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[Any] = []
        self.creates = queue(folder, self._start)
        self._hosts: Any = self.creates._hosts
        self._now = 0.0
        monkeypatch.setattr(
            "gym_http_server.supervisor.creates.time.monotonic", lambda: self._now
        )

    def _start(self, request: CreateRequest, memory: int | None) -> Any:
        instance = SimpleNamespace(
            instance_id=f"{len(self.made):08x}",
            creators=[],
            create_key="",
            reason="",
            live=False,
        )
        self.made.append(instance)
        self._hosts.append(instance)
        return instance

    def send(self, key: str = NODE_KEY + "1") -> Any:
        """Send a create, whose host is started; return its connection."""
        answers: list[Any] = []
        sender: Any = SimpleNamespace(
            instance=None,
            held=False,
            left_unread=False,
            answers=answers,
            answer=answers.append,
            memory=None,
            close_descriptors=lambda: None,
        )
        body = b'{"env_id": "CartPole-v1"}'
        head = RequestHead(creator="ada", key=key)
        self.creates.add(sender, request(Op.CREATE, body, head))
        self.creates.serve()
        return sender

    def make(self) -> None:
        """Have the newest instance be made."""
        self.made[-1].live = True
        self.creates.on_made(self.made[-1], answer(200, b"made"))

    def lose(self, connection: Any, *, unread: bool = False) -> None:
        """Lose a connection, with an answer that was not read."""
        connection.left_unread = unread
        self.creates.on_left(connection)

    def pass_time(self) -> None:
        """Let the time pass in which a node repeats a create."""
        self._now += REPEAT_SECONDS + 0.1
        self.creates.tick()

    @property
    def reasons(self) -> list[str]:
        """Why each instance ends."""
        return [each.reason for each in self.made]


@pytest.fixture
def forwarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Forwarded:
    return Forwarded(tmp_path, monkeypatch)


@pytest.mark.parametrize("is_made", [False, True])
def test_what_a_node_does_not_ask_for_again_ends(
    forwarded: Forwarded, is_made: bool
) -> None:
    first = forwarded.send()
    if is_made:
        forwarded.make()
    forwarded.lose(first, unread=is_made)
    forwarded.creates.tick()
    assert forwarded.reasons == [""]
    forwarded.pass_time()
    assert forwarded.reasons == ["abandoned"]
    # A late repeat makes an instance, since the other one ends.
    late = forwarded.send()
    forwarded.make()
    assert forwarded.reasons == ["abandoned", ""]
    assert [each.body for each in late.answers] == [b"made"]
    forwarded.lose(late)
    forwarded.pass_time()
    assert forwarded.reasons == ["abandoned", ""]


@pytest.mark.parametrize("is_made", [False, True])
@pytest.mark.parametrize("lost_before", [False, True])
def test_a_repeated_create_of_a_node_gets_the_instance(
    forwarded: Forwarded, is_made: bool, lost_before: bool
) -> None:
    first = forwarded.send()
    if is_made:
        forwarded.make()
    if lost_before:
        forwarded.lose(first, unread=is_made)
    again = forwarded.send()
    if not lost_before:
        forwarded.lose(first, unread=is_made)
    if not is_made:
        forwarded.make()
    forwarded.pass_time()
    assert [each.body for each in again.answers] == [b"made"]
    assert forwarded.reasons == [""]
    # If the node is gone at last, nobody has it.
    forwarded.lose(again, unread=True)
    forwarded.pass_time()
    assert forwarded.reasons == ["abandoned"]


def test_a_create_of_a_node_that_was_answered_stays(forwarded: Forwarded) -> None:
    first = forwarded.send()
    forwarded.make()
    forwarded.lose(first)
    again = forwarded.send()
    forwarded.lose(again, unread=True)
    forwarded.pass_time()
    assert forwarded.reasons == [""]


@pytest.mark.parametrize("key", ["mine", "node.1"])
def test_what_a_client_asks_for_with_a_key_stays(
    forwarded: Forwarded, key: str
) -> None:
    first = forwarded.send(key)
    forwarded.lose(first)
    forwarded.make()
    forwarded.lose(forwarded.send(key), unread=True)
    forwarded.pass_time()
    assert forwarded.reasons == [""]


def memory_of(size: int) -> IO[bytes]:
    """Return memory without content."""
    file = os.fdopen(os.memfd_create("arguments"), "wb")
    os.ftruncate(file.fileno(), size)
    return file
