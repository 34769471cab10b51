"""Senders handle refusals, proxies and long waits, as a spool needs it."""

import json
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gym_http_client import Retries, ServerError
from gym_http_client.relay import RelayCalls, Spool
from gym_http_client.relay.segments import Piece
from gym_http_client.relay.sender import Sender
from gym_http_wire.bundles import split
from tests.support.peers.scripted_server import ScriptedServer, http_answer, silence
from tests.support.wait import wait_until

Answer = tuple[int, dict[str, Any]]


class ScriptedCalls:
    """Answers the calls of a sender by a script, and else as a relay does."""

    def __init__(self, *script: Answer | None) -> None:
        self.script = list(script)
        self.next = 1
        self.posts: list[list[int]] = []
        self.ahead: list[list[int]] = []
        self.dropped: list[int] = []
        self.records_next = 1
        self.records: list[dict[str, Any]] = []

    def session(self, session: str) -> dict[str, Any]:
        return {"next": self.next, "records_next": self.records_next}

    def put_bundle(self, data: bytes, meanwhile: Callable[[], None]) -> dict[str, Any]:
        meanwhile()
        heads = [place.head for place in split(data)]
        self.posts.append([head.number for head in heads])
        scripted = self.script.pop(0) if self.script else None
        if scripted is not None:
            status, body = scripted
            self.next = body.get("next", self.next)
            raise ServerError("no", status, code=body.get("code"), body=body)
        for head in heads:
            if head.number >= self.next:
                assert head.number == self.next + head.dropped
                self.dropped.append(head.dropped)
                self.next = head.number + 1
        return {"next": self.next, "version": 3}

    def send_bundle_ahead(self, data: bytes) -> None:
        self.ahead.append([place.head.number for place in split(data)])

    def put_records(
        self, records: list[dict[str, Any]], *, session: str, number: int
    ) -> dict[str, Any]:
        assert number == self.records_next
        self.records_next += 1
        self.records += records
        return {}

    def abandon(self) -> None:
        pass

    def close(self) -> None:
        pass


Begin = Callable[..., tuple[Spool, Sender]]


@pytest.fixture
def begin(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Begin]:
    """Return a function that starts a sender of a new spool with some batches."""
    caplog.set_level(logging.CRITICAL + 1, "gym_http_client")
    made: list[tuple[Spool, Sender]] = []

    def begin(calls: Any, count: int, **options: Any) -> tuple[Spool, Sender]:
        spool = Spool(tmp_path, run="r", worker="w")
        spool.begin("s")
        for number in range(1, count + 1):
            add(spool, b"%d" % number)
        sender = Sender(spool, lambda retries: calls, **options)
        sender._sleep = lambda seconds: None  # type: ignore[method-assign]
        made.append((spool, sender))
        sender.start()
        return spool, sender

    yield begin
    for spool, sender in made:
        sender.close()
        spool.close()


def add(spool: Spool, body: bytes) -> None:
    spool.append(body, policy=0, count=1, content_type="text/plain")


def test_batches_go_together_and_the_version_comes_back(begin: Begin) -> None:
    calls = ScriptedCalls()
    spool, sender = begin(calls, 5)
    assert sender.flush(20.0)
    assert calls.posts == [[1, 2, 3, 4, 5]]
    assert sender.version == 3
    spool.add_records([{"a": 1}], {})
    assert sender.flush(20.0)
    assert calls.records == [{"a": 1}]


def test_a_batch_that_is_refused_among_others_is_left_out(begin: Begin) -> None:
    calls = ScriptedCalls((422, {"code": "bad-columns", "next": 3, "stored": 2}))
    spool, sender = begin(calls, 5)
    assert sender.flush(20.0)
    assert calls.posts == [[1, 2, 3, 4, 5], [4, 5]]
    assert calls.dropped == [1, 0]
    assert (spool.refused, spool.dropped) == (1, 1)


def test_the_next_batches_are_read_while_the_relay_stores_some(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read again if the relay refuses those before them."""
    calls = ScriptedCalls(None, None, (422, {"code": "bad-columns", "next": 3}))
    reads: list[int] = []
    piece = Spool.piece

    def counted(spool: Spool, max_bytes: int) -> Piece | None:
        found = piece(spool, max_bytes)
        if found is not None:
            reads.append(found.first)
        return found

    monkeypatch.setattr(Spool, "piece", counted)
    spool, sender = begin(calls, 6, max_post=1)
    assert sender.flush(20.0)
    assert calls.posts == [[1], [2], [3], [4], [5], [6]]
    assert calls.dropped == [0, 0, 1, 0, 0]
    assert reads == [1, 4]
    assert spool.dropped == 1


def test_large_batches_are_sent_ahead_while_the_relay_lets_nobody_wait(
    begin: Begin,
) -> None:
    calls = ScriptedCalls()
    large = bytes(20_000)
    spool, sender = begin(calls, 0, max_post=1)
    answer = calls.put_bundle

    def put_bundle(data: bytes, meanwhile: Callable[[], None]) -> dict[str, Any]:
        if next(split(data)).head.number == 6:
            # The relay was full, and the calls waited.
            sender._smooth = -1
        return answer(data, meanwhile)

    calls.put_bundle = put_bundle  # type: ignore[method-assign]
    with spool._changed:
        for _ in range(10):
            add(spool, large)
        add(spool, b"small")
    assert sender.flush(20.0)
    assert calls.posts == [[number] for number in range(1, 12)]
    assert calls.ahead == [[4], [5], [6], [10]]


def test_a_refusal_without_a_number_finds_the_batch(begin: Begin) -> None:
    refusal = (400, {"code": "bad-parameter"})
    calls = ScriptedCalls(refusal, None, refusal)
    spool, sender = begin(calls, 3)
    assert sender.flush(20.0)
    assert calls.posts == [[1, 2, 3], [1], [2], [3]]
    assert (spool.refused, spool.dropped) == (1, 1)
    assert calls.dropped == [0, 1]


def test_a_proxy_that_refuses_large_requests_gets_small_ones(begin: Begin) -> None:
    calls = ScriptedCalls((413, {}), None, None, None)
    spool, sender = begin(calls, 3, max_post=4096)
    assert sender.flush(20.0)
    assert calls.posts == [[1, 2, 3], [1], [2], [3]]
    assert spool.refused == 0
    assert sender._max_post == 2048


def test_a_body_that_was_damaged_on_its_way_is_sent_again(begin: Begin) -> None:
    damaged = (400, {"code": "digest-mismatch", "next": 1, "stored": 0})
    calls = ScriptedCalls(damaged, damaged)
    spool, sender = begin(calls, 2)
    assert sender.flush(20.0)
    assert calls.posts == [[1, 2]] * 3
    assert spool.refused == 0


def test_a_body_that_is_damaged_on_disk_is_refused(begin: Begin) -> None:
    damaged = (400, {"code": "digest-mismatch", "next": 1, "stored": 0})
    calls = ScriptedCalls(*[damaged] * 4)
    spool, sender = begin(calls, 2)
    assert sender.flush(20.0)
    assert calls.posts == [[1, 2]] * 4 + [[2]]
    assert (spool.refused, calls.dropped) == (1, [1])


def test_a_gap_is_explained_by_what_was_dropped(begin: Begin) -> None:
    calls = ScriptedCalls((409, {"code": "gap", "next": 1}))
    calls.next = 3
    spool, sender = begin(calls, 4)
    # The relay was restored from a copy: batches 1 and 2 are gone.
    assert sender.flush(20.0)
    assert calls.posts == [[3, 4], [3, 4]]
    assert calls.dropped == [2, 0]
    assert spool.dropped == 2


def test_a_gap_that_stays_ends_the_sender(begin: Begin) -> None:
    calls = ScriptedCalls(*[(409, {"code": "gap", "next": 1})] * 9)
    _, sender = begin(calls, 1)
    with pytest.raises(ServerError):
        sender.flush(20.0)
    assert sender.error is not None
    assert len(calls.posts) == 4


def test_stale_batches_count(begin: Begin) -> None:
    calls = ScriptedCalls((409, {"code": "stale", "next": 3, "stored": 1}))
    spool, sender = begin(calls, 4)
    assert sender.flush(20.0)
    assert calls.posts == [[1, 2, 3, 4], [3, 4]]
    assert (spool.stale, spool.dropped, calls.dropped) == (1, 0, [0, 0])


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_what_no_batch_can_change_ends_the_sender(status: int, begin: Begin) -> None:
    calls = ScriptedCalls((status, {"code": "x"}))
    spool, sender = begin(calls, 3)
    with pytest.raises(ServerError) as caught:
        sender.flush(20.0)
    assert caught.value.status_code == status
    assert spool.waiting == 3


def answer(status: int, *headers: str, **body: Any) -> bytes:
    return http_answer(json.dumps(body).encode(), *headers, status=status)


SESSION = answer(200, next=1, records_next=1)


def connected(url: str) -> Callable[[Retries], RelayCalls]:
    return lambda retries: RelayCalls(url, "r", token="", retries=retries)


@pytest.fixture
def over_http(tmp_path: Path) -> Iterator[Begin]:
    """As `begin`, with a scripted server and the pauses of the sender."""
    made: list[tuple[Spool, Sender]] = []

    def begin(url: str, pauses: list[float]) -> tuple[Spool, Sender]:
        spool = Spool(tmp_path, run="r", worker="w")
        spool.begin("s")
        add(spool, b"1")
        sender = Sender(spool, connected(url), retries=Retries(longest=1e-3))
        sleep = sender._sleep

        def note(seconds: float) -> None:
            pauses.append(seconds)
            sleep(0.0)

        sender._calls._requester._retries = _with_sleep(sender, note)
        made.append((spool, sender))
        sender.start()
        return spool, sender

    yield begin
    for spool, sender in made:
        sender.close()
        spool.close()


def _with_sleep(sender: Sender, sleep: Callable[[float], None]) -> Retries:
    return replace(sender._calls._requester._retries, sleep=sleep)


def test_it_waits_as_long_as_the_relay_wants(over_http: Begin) -> None:
    full = [answer(status, "Retry-After: 7", code="c") for status in (429, 503, 507)]
    proxy = [http_answer(b"<html>", status=502)]
    stored = answer(201, next=2, version=0)
    pauses: list[float] = []
    with ScriptedServer.of(SESSION, *full, *proxy, stored) as server:
        _, sender = over_http(server.url, pauses)
        assert sender.flush(20.0)
        assert len(server.seen) == 6
    assert pauses == pytest.approx([7.0, 7.0, 7.0, 0.0], abs=0.01)


def test_close_ends_a_sender_that_waits_for_an_answer(
    over_http: Begin, tmp_path: Path
) -> None:
    with ScriptedServer.of(SESSION, silence) as server:
        spool, sender = over_http(server.url, [])
        wait_until(lambda: len(server.seen) == 2, 20.0)
        closing = threading.Thread(target=sender.close)
        closing.start()
        closing.join(20.0)
        assert not closing.is_alive()
        assert not sender._thread.is_alive()
        assert spool.waiting == 1


def test_close_ends_a_sender_without_a_server(over_http: Begin) -> None:
    with ScriptedServer.of(SESSION) as server:
        url = server.url
    spool, sender = over_http(url, [])
    assert not sender.flush(0.1)
    sender.close()
    assert not sender._thread.is_alive()
    assert (spool.waiting, sender.error) == (1, None)
