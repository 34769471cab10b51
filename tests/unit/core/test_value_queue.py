"""Queues between processes: the methods of multiprocessing's, without pickle."""

import os
import queue
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from gym_http_core import value_queue
from gym_http_core.value_queue import ValueQueue
from gym_http_wire.values import UnsupportedValue
from tests.support.identity import assert_identical

Ends = tuple[ValueQueue, ValueQueue]


@pytest.fixture
def ends() -> Iterator[Ends]:
    pair = ValueQueue.pair()
    yield pair
    for end in pair:
        end.abandon()


def test_values_arrive_in_order_and_unchanged(ends: Ends) -> None:
    one, other = ends
    sent = [
        {"sensors": np.arange(3.0), "rewards": [1.0, None, float("inf")]},
        {"truncated": True},
        {"actions": np.zeros((2, 2), np.int8)},
    ]
    for each in sent:
        one.put(each)
    assert not other.empty()
    assert_identical([other.get() for _ in sent], sent)
    assert other.empty()
    assert not other.full()


def test_an_empty_queue_raises(ends: Ends) -> None:
    one, other = ends
    with pytest.raises(queue.Empty):
        other.get_nowait()
    with pytest.raises(queue.Empty):
        other.get(timeout=0.01)
    one.put_nowait(1)
    assert other.get(timeout=20) == 1


def test_what_cannot_be_encoded_is_refused(ends: Ends) -> None:
    with pytest.raises(UnsupportedValue):
        ends[0].put({"actions": object()})


def test_put_does_not_wait_for_the_reader(ends: Ends) -> None:
    one, other = ends
    large = np.arange(100_000.0)
    for number in range(20):
        one.put([number, large])
    received = []
    # Each call of the sender sends a part of what is left.
    reader = threading.Thread(
        target=lambda: received.extend(other.get(timeout=20) for _ in range(20))
    )
    reader.start()
    while reader.is_alive():
        assert one.empty()
    assert [number for number, _ in received] == list(range(20))
    assert_identical(received[-1][1], large)


def test_the_oldest_messages_are_dropped_and_counted(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_queue, "MAX_UNSENT", 3)
    one, other = ends
    large = b"x" * 200_000
    for number in range(10):
        one.put([number, large])
    assert one.dropped > 0
    received = []
    while not other.empty() or not one.empty():
        received.append(other.get(timeout=20)[0])
        one.empty()
    assert len(received) == 10 - one.dropped
    assert received[0] == 0
    assert received[-2:] == [8, 9]


def test_an_end_in_another_process(ends: Ends) -> None:
    one, other = ends
    child = os.fork()
    if not child:
        one.abandon()
        try:
            other.put(["got", other.get(timeout=20)])
            other.close()
        finally:
            os._exit(0)
    other.abandon()
    one.put({"a": 1})
    assert one.get(timeout=20) == ["got", {"a": 1}]
    with pytest.raises(EOFError, match="has closed the queue"):
        one.get(timeout=20)
    assert os.waitpid(child, 0)[1] == 0


def test_closing_sends_what_is_unsent(ends: Ends) -> None:
    one, other = ends
    for _ in range(5):
        one.put(b"x" * 200_000)
    received = []
    reader = threading.Thread(
        target=lambda: received.extend(other.get(timeout=20) for _ in range(5))
    )
    reader.start()
    one.close()
    reader.join()
    assert [len(each) for each in received] == [200_000] * 5
