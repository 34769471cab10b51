"""No token uses up what all tokens share."""

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gevent
import pytest
from gevent.event import Event

from gym_http_server.access.identities import STEP, Identity
from gym_http_server.access.shares import Shares
from gym_http_server.datadir.recording_files import OWNER_FILE
from gym_http_server.errors import ShareUsedUp, TooManyPeers
from gym_http_server.host.monitor_files import _check_disk
from gym_http_server.services.gateway.server import Gateway
from gym_http_server.supervisor.creates import CreateKeys
from gym_http_server.supervisor.output import MAX_KEPT_LOGS, KeptLogs, Output
from gym_http_server.web.api import batches
from gym_http_server.web.api.exchange import CALLER
from gym_http_wire.frames import Frame
from gym_http_wire.messages import Op, answer
from gym_http_wire.problems import DiskFull


def held(shares: Shares, token: str) -> int:
    """Take until it is refused, and return how often."""
    for count in range(100):
        try:
            shares.take(token, token)
        except ShareUsedUp:
            return count
    return 100


def test_a_token_holds_as_many_as_are_left() -> None:
    shares = Shares("places", 12)
    # A half, then a third of the rest, and so on: each leaves something.
    assert [held(shares, name) for name in ("ada", "bob", "cy", "di")] == [6, 3, 2, 1]
    for _ in range(3):
        shares.release("bob")
    # ada has more than the three that are free.
    assert held(shares, "ada") == 0
    assert held(shares, "bob") == 2


def test_a_refusal_names_the_token_and_says_when_to_come_again() -> None:
    shares = Shares("places", 2)
    shares.take("ada", "ada")
    with pytest.raises(ShareUsedUp) as refused:
        shares.take("ada", "ada")
    assert str(refused.value) == (
        "the token 'ada' holds 1 of 2 places, and others hold 0: a token may hold as "
        "many as are left"
    )
    assert refused.value.headers == {"Retry-After": "1"}


def test_a_server_that_distinguishes_no_tokens_refuses_nothing() -> None:
    assert held(Shares("places", 2), "") == 100


def create(key: str) -> Frame:
    """Return a create request, whose instance is of that name."""
    return Frame(Op.CREATE, 1, 0, 0x11, b"", key.encode())


def test_creates_of_one_token_leave_the_keys_of_others() -> None:
    keys = CreateKeys()
    answered: list[Frame] = []
    connection: Any = SimpleNamespace(answer=answered.append)

    def made(key: str) -> None:
        instance: Any = SimpleNamespace(create_key="")
        keys.begin(key, create(key), instance)
        keys.keep(instance, answer(200, key.encode()))

    made("bob once")
    for number in range(2100):
        made(f"ada {number}")
    assert keys.join("bob once", create("bob once"), connection)
    assert [each.body for each in answered] == [b"bob once"]
    assert not keys.join("ada 0", create("ada 0"), connection)


def test_ends_of_one_token_leave_the_logs_of_others(tmp_path: Path) -> None:
    kept = KeptLogs()
    for number in range(2 * MAX_KEPT_LOGS):
        output = Output(str(tmp_path / str(number)))
        os.write(output.writer, b"%d" % number)
        output.finish()
        output.close_pipe()
        kept.add(str(number), output, "bob" if number < 2 else "ada")
    found = [each for each in range(2 * MAX_KEPT_LOGS) if str(each) in kept]
    assert found == [0, 1, *range(MAX_KEPT_LOGS + 2, 2 * MAX_KEPT_LOGS)]
    kept.clear()


def test_peers_of_one_token_leave_places_for_others() -> None:
    def gateway(ada: int, bob: int, nobody: int = 0) -> Any:
        names = [*["ada"] * ada, *["bob"] * bob, *[""] * nobody]
        entries = {
            number: SimpleNamespace(owner=name) for number, name in enumerate(names)
        }
        settings = SimpleNamespace(max_peers=8)
        return SimpleNamespace(
            _entries=entries, _context=SimpleNamespace(settings=settings)
        )

    check = Gateway._check_room
    for found, name in ((gateway(3, 0), "ada"), (gateway(4, 1), "bob")):
        check(found, name)
    check(gateway(0, 0, nobody=7), "")
    with pytest.raises(TooManyPeers, match="the token 'ada' holds 4 of 8 ZeroMQ peers"):
        check(gateway(4, 0), "ada")
    with pytest.raises(TooManyPeers, match="8 others"):
        check(gateway(4, 4), "cy")


def batch_of(name: str, count: int) -> dict[str, Any]:
    """Return the WSGI environment of a batch of steps."""
    steps = [{"instance_id": f"{number:08x}", "action": 0} for number in range(count)]
    body = json.dumps({"steps": steps}).encode()
    return {
        "CONTENT_LENGTH": str(len(body)),
        "CONTENT_TYPE": "application/json",
        "REQUEST_METHOD": "POST",
        "wsgi.input": io.BytesIO(body),
        CALLER: Identity(name, frozenset({STEP})),
    }


@pytest.fixture
def hub() -> Iterator[None]:
    """Close gevent's loop after the test."""
    yield
    gevent.get_hub().destroy(destroy_loop=True)


@pytest.mark.usefixtures("hub")
def test_batches_of_one_token_delay_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MAX_UNDER_WAY", 4)
    monkeypatch.setattr(batches, "_MOST_OF_TOKEN", 2)
    free = Event()

    def call(instance_id: str, frame: Frame, owner: str) -> Frame:
        if owner == "ada":
            free.wait()
        return answer(200, b"{}")

    budget = SimpleNamespace(hold=lambda body, owner: body)
    web: Any = SimpleNamespace(
        hosts=SimpleNamespace(call=call, budget=budget),
        settings=SimpleNamespace(max_body=2**20, max_answer=2**20),
    )
    step = batches._Batches(web).step
    slow = [gevent.spawn(step, batch_of("ada", 2)) for _ in range(3)]
    gevent.sleep(0)
    bob = gevent.spawn(step, batch_of("bob", 2))
    bob.join(5.0)
    assert bob.value is not None
    assert not any(each.ready() for each in slow)
    free.set()
    gevent.joinall(slow, timeout=5.0)
    assert [each.value.status for each in (bob, *slow)] == [200] * 4


def test_recordings_of_one_token_leave_room_for_others(tmp_path: Path) -> None:
    def record(name: str, owner: str, size: int) -> None:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "steps.gym").write_bytes(bytes(size))
        if owner:
            (folder / OWNER_FILE).write_text(owner)

    record("ada", "ada", 300)
    record("ada/below", "", 299)
    record("nobody", "", 100)
    path = str(tmp_path)
    for name in ("ada", "bob", ""):
        _check_disk(path, 1300, name)
    with pytest.raises(DiskFull, match="the token 'ada' holds 599 of 1298 bytes of"):
        _check_disk(path, 1298, "ada")
    for name in ("bob", ""):
        _check_disk(path, 1298, name)
        with pytest.raises(DiskFull, match="recordings take 699 bytes"):
            _check_disk(path, 699, name)
