"""Samples out: positions, readers, trimming and leases, on a clock of the test."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gym_http_server.errors import PositionPassed, SamplesGone, UnknownReader
from gym_http_server.services.relay.calls import Request
from gym_http_server.services.relay.messages import RelayHead
from gym_http_wire.messages import Op
from gym_http_wire.problems import BadParameter, MissingParameter
from tests.support.relay_logic import RelayBench

Make = Callable[..., RelayBench]
DAY = 86400.0


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Return a function that makes a relay whose run has six batches of 100 bytes."""
    with contextlib.ExitStack() as stack:

        def made(**limits: Any) -> RelayBench:
            bench = RelayBench(tmp_path / "relay", limits=limits)
            stack.enter_context(contextlib.closing(bench))
            session = bench.session()
            for number in range(1, 7):
                bench.put(session, number, bytes([number]) * 100)
            return bench

        yield made


def positions(found: list[Any]) -> list[int]:
    return [head.position for head, _ in found]


def test_batches_are_read_by_position_and_reading_changes_nothing(make: Make) -> None:
    bench = make()
    assert positions(bench.samples()) == [1, 2, 3, 4, 5, 6]
    assert positions(bench.samples(4)) == [5, 6]
    assert positions(bench.samples(0, max_bytes=250)) == [1, 2]
    # At least one, however large.
    assert positions(bench.samples(2, max_bytes=1)) == [3]
    assert bench.samples(6) == []
    assert bench.call(Op.SAMPLES_GET, after=6, final=False) is None
    reply = bench.call(Op.SAMPLES_GET, after=3)
    assert reply is not None
    assert (reply.headers["Gym-First"], reply.headers["Gym-Last"]) == ("4", "6")
    with pytest.raises(BadParameter, match="beyond the last position"):
        bench.call(Op.SAMPLES_GET, after=7)
    assert bench.status()["samples"]["waiting"] == 6


def test_batches_that_all_readers_are_past_are_removed(make: Make) -> None:
    bench = make()
    bench.json(Op.READER_PUT, {"after": 0}, value="slow")
    bench.json(Op.READER_PUT, {"after": 4}, value="fast")
    assert bench.status()["samples"]["consumed"] == 0
    answer = bench.json(Op.READER_PUT, {"after": 2, "draws": 9}, value="slow")
    assert answer == {"reader": "slow", "after": 2, "draws": 9}
    assert bench.status()["samples"]["first"] == 3
    gone = bench.problem(Op.SAMPLES_GET, after=1)
    assert isinstance(gone, SamplesGone)
    assert gone.extras == {"first": 3}
    assert positions(bench.samples(2)) == [3, 4, 5, 6]
    # A reader's own position is the default.
    reply = bench.call(Op.SAMPLES_GET, reader="fast")
    assert positions(bench.batches(reply)) == [5, 6]


def test_consumed_batches_stay_within_keep_bytes(make: Make) -> None:
    bench = make(keep_bytes=250)
    bench.json(Op.READER_PUT, {"after": 5}, value="t")
    assert bench.status()["samples"]["first"] == 4
    assert bench.status()["samples"]["consumed"] == 5


def test_a_reader_moves_forwards_only(make: Make) -> None:
    bench = make()
    bench.json(Op.READER_PUT, {"after": 4}, value="t")
    assert bench.json(Op.READER_PUT, {"after": 4}, value="t")["after"] == 4
    back = bench.problem(Op.READER_PUT, {"after": 3}, value="t")
    assert isinstance(back, PositionPassed)
    assert back.extras == {"after": 4}
    assert isinstance(
        bench.problem(Op.READER_PUT, {"after": 7}, value="t"), BadParameter
    )
    assert isinstance(
        bench.problem(Op.READER_PUT, {"after": 1}, value="/"), BadParameter
    )
    assert isinstance(bench.problem(Op.READER_PUT, {}, value="t"), MissingParameter)
    assert bench.json(Op.READER_GET, value="t") == {
        "reader": "t",
        "after": 4,
        "draws": 0,
    }
    bench.call(Op.READER_DELETE, value="t")
    assert isinstance(bench.problem(Op.READER_GET, value="t"), UnknownReader)


def test_a_reader_that_is_silent_for_a_week_holds_nothing_back(make: Make) -> None:
    bench = make()
    bench.json(Op.READER_PUT, {"after": 0}, value="lost")
    bench.json(Op.READER_PUT, {"after": 6}, value="t")
    bench.now += 6 * DAY
    bench.relay.maintain(bench.now)
    assert bench.status()["samples"]["consumed"] == 0
    # A read is a sign of life.
    bench.call(Op.SAMPLES_GET, after=0, reader="lost")
    bench.json(Op.READER_PUT, {"after": 6}, value="t")
    bench.now += 2 * DAY
    bench.relay.maintain(bench.now)
    assert bench.status()["samples"]["consumed"] == 0
    bench.now += 4 * DAY
    bench.json(Op.READER_GET, value="t")
    bench.json(Op.READER_PUT, {"after": 6}, value="t")
    bench.now += 1 * DAY
    bench.relay.maintain(bench.now)
    assert bench.status()["samples"]["consumed"] == 6


def test_a_deleted_reader_holds_nothing_back(make: Make) -> None:
    bench = make()
    bench.json(Op.READER_PUT, {"after": 1}, value="slow")
    bench.json(Op.READER_PUT, {"after": 5}, value="fast")
    bench.call(Op.READER_DELETE, value="slow")
    assert bench.status()["samples"]["first"] == 6


def test_leased_batches_come_again_unless_acknowledged(make: Make) -> None:
    bench = make(lease_s=30)
    first = bench.batches(bench.call(Op.LEASE, {"max_batches": 2}))
    assert [(h.position, h.delivery) for h, _ in first] == [(1, 1), (2, 1)]
    second = bench.batches(bench.call(Op.LEASE, {"max_batches": 2}))
    assert positions(second) == [3, 4]
    leases = [head.lease for head, _ in first]
    answer = bench.json(Op.ACK, {"leases": [leases[0], "nonsense"]})
    assert answer == {"acked": 1, "unknown": ["nonsense"]}
    counts = bench.status()["samples"]
    assert (counts["leased"], counts["consumed"], counts["waiting"]) == (3, 1, 2)
    bench.reopen()
    bench.now += 31
    again = bench.batches(bench.call(Op.LEASE, {"max_batches": 9}))
    assert [(h.position, h.delivery) for h, _ in again] == [(2, 2), (3, 2), (4, 2)]
    # The lease of the first delivery is over.
    assert bench.json(Op.ACK, {"leases": [leases[1]]})["unknown"] == [leases[1]]


def test_a_returned_batch_wakes_those_that_wait(make: Make) -> None:
    bench = make(lease_s=30)
    taken = bench.batches(bench.call(Op.LEASE, {}))
    assert bench.call(Op.LEASE, {"wait_s": 5}, final=False) is None
    bench.relay.take_touched()
    assert bench.json(Op.NACK, {"leases": [taken[0][0].lease]})["nacked"] == 1
    assert bench.relay.take_touched() == {("pendulum", "samples")}
    assert positions(bench.batches(bench.call(Op.LEASE, {}))) == [1]
    waiting = Request(Op.LEASE, RelayHead("pendulum", args={"wait_s": 5}))
    assert waiting.wait_s == 5
    assert not bench.relay.lease_ended(waiting, bench.now + 29)
    assert bench.relay.lease_ended(waiting, bench.now + 31)


def test_a_batch_is_set_aside_after_its_last_delivery(make: Make) -> None:
    bench = make(lease_s=30, deliveries=2)
    for _ in range(2):
        bench.call(Op.LEASE, {"max_batches": 1})
        bench.now += 31
    assert positions(bench.batches(bench.call(Op.LEASE, {"max_batches": 1}))) == [2]
    assert positions(bench.batches(bench.call(Op.ASIDE, after=0))) == [1]
    assert bench.status()["samples"]["aside"] == 1
    for body in ({"max_batches": 0}, {"max_bytes": "x"}, {"wait_s": 51}, {"most": 1}):
        assert isinstance(bench.problem(Op.LEASE, body), BadParameter)
    assert isinstance(bench.problem(Op.ACK, {}), MissingParameter)
