"""Requests to an environment with a clock, as its handlers read them."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gym_http_server.host import plain_json
from gym_http_server.host.realtime.handlers import ClockedHandlers, UpdatesRequest
from gym_http_server.operations.clocks import UPDATES
from gym_http_wire.frames import Frame
from gym_http_wire.messages import Form, Op
from gym_http_wire.problems import BadJSON, BadParameter
from gym_http_wire.values import binary
from tests.support.realtime import BOX, MS, Run, handlers_of


@pytest.fixture
def run() -> Run:
    run = Run({"mode": "free_running", "period_s": 0.01})
    run.reset()
    return run


@pytest.fixture
def handlers(run: Run) -> Iterator[ClockedHandlers]:
    with handlers_of(run, SimpleNamespace(action_space=BOX)) as handlers:
        yield handlers


def plain(op: Op, given: Any) -> Frame:
    return Frame(op, 1, 0, Form.PLAIN | Form.PLAIN << 4, body=plain_json.dumps(given))


def lossless(op: Op, given: Any) -> Frame:
    return Frame(op, 1, 0, Form.BINARY | Form.PLAIN << 4, body=binary.encode(given))


def test_a_request_for_updates(handlers: ClockedHandlers) -> None:
    seconds = UPDATES["wait_s"].default * 10**9
    default = UpdatesRequest(None, UPDATES["deliver"].default, None, seconds)
    assert handlers.read_updates(Frame(Op.UPDATES)) == default
    nothing = dict.fromkeys(UPDATES)
    assert handlers.read_updates(plain(Op.UPDATES, nothing)) == default
    given = {"after": 3.0, "wait_s": 0.25, "deliver": "all", "max": 1e1}
    wanted = UpdatesRequest(3, "all", 10, 250 * MS)
    for frame in (plain(Op.UPDATES, given), lossless(Op.UPDATES, given)):
        assert handlers.read_updates(frame) == wanted


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"after": -1}, "after is -1: expected an integer from 0"),
        ({"after": "1"}, "after is '1'"),
        ({"deliver": "newest"}, "deliver is 'newest': expected 'latest' or 'all'"),
        ({"max": 0}, "max is 0: expected an integer from 1"),
        ({"wait_s": 50.5}, "wait_s is 50.5: expected seconds from 0 to 50"),
        ({"aftr": 1}, "did you mean 'after'"),
    ],
)
def test_wrong_requests_for_updates(
    handlers: ClockedHandlers, given: Any, words: str
) -> None:
    with pytest.raises(BadParameter, match=words):
        handlers.read_updates(plain(Op.UPDATES, given))


def test_a_request_is_an_object(handlers: ClockedHandlers) -> None:
    with pytest.raises(BadJSON):
        handlers.read_updates(plain(Op.UPDATES, [1]))
    assert handlers.perform(plain(Op.ACT, 1), False).status == 400


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"last": 0}, "last is 0: expected an integer from 1"),
        ({"format": "xml"}, "format is 'xml': expected 'chrome' or 'json'"),
    ],
)
def test_wrong_requests_for_a_trace(
    handlers: ClockedHandlers, given: Any, words: str
) -> None:
    answer = handlers.perform(plain(Op.TRACE, given), False)
    assert answer.status == 400
    assert words in bytes(answer.body).decode()


def test_a_chunk_may_be_one_array(run: Run, handlers: ClockedHandlers) -> None:
    for size, status in ((2, 200), (1025, 400)):
        chunk = {"actions": np.arange(1.0, size + 1).reshape(size, 1)}
        answer = handlers.perform(lossless(Op.ACT, chunk), False)
        assert answer.status == status
    run.sleep(20 * MS)
    assert [value for _, value in run.world.named("send")[-2:]] == [1, 2]
    counts = run.mode.statistics()["actions"]
    assert (counts["applied"], counts["rejected"]) == (2, 1025)


def test_null_is_no_chunk_but_an_action(run: Run, handlers: ClockedHandlers) -> None:
    answer = handlers.perform(plain(Op.ACT, {"actions": None, "at": None}), False)
    assert answer.status == 200
    refused = handlers.perform(plain(Op.ACT, {"action": None}), False)
    assert refused.status == 400
    assert b"invalid-action" in refused.body
