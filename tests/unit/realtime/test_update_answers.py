"""Answers to requests for updates: requests that want the same share one."""

from collections.abc import Iterator

import gymnasium
import pytest

from gym_http_server.host import env_warnings
from gym_http_server.host.realtime.handlers import ClockedHandlers, UpdatesRequest
from gym_http_wire.frames import Frame
from gym_http_wire.messages import Form, Op
from tests.support.realtime import MS, Run, handlers_of


@pytest.fixture
def run() -> Run:
    run = Run({"mode": "free_running", "period_s": 0.01})
    run.reset()
    run.sleep(30 * MS)
    return run


@pytest.fixture
def handlers(run: Run) -> Iterator[ClockedHandlers]:
    with handlers_of(run, gymnasium.make("Pendulum-v1")) as handlers:
        yield handlers


def request(number: int, form: Form = Form.PLAIN) -> Frame:
    return Frame(Op.UPDATES, number, 0, form | form << 4)


def test_waiting_requests_for_the_same_update_share_an_answer(
    run: Run, handlers: ClockedHandlers
) -> None:
    wanted = UpdatesRequest(2, "latest", None, 0)
    shared: dict[object, Frame] = {}
    answers = [
        handlers.answer_updates(request(number), wanted, shared, last=False)
        for number in (5, 6, 7)
    ]
    assert [each and each.number for each in answers] == [5, 6, 7]
    first, second, _ = answers
    assert first
    assert second
    assert first.body is second.body
    # Others have their own.
    typed = request(8, Form.TYPED)
    for frame, other in (
        (typed, wanted),
        (request(9), wanted._replace(deliver="all")),
        (request(10), wanted._replace(after=3)),
    ):
        answer = handlers.answer_updates(frame, other, shared, last=False)
        assert answer
        assert answer.body not in (b"", first.body)
    # All of them count, with their ages.
    statistics = run.mode.statistics()
    assert statistics["updates"]["given"] == 3 + 1 + 2 + 1
    assert statistics["age_ns"]["count"] == 1 + 7


def test_an_answer_with_a_warning_is_not_shared(
    run: Run, handlers: ClockedHandlers
) -> None:
    wanted = UpdatesRequest(2, "latest", None, 0)
    shared: dict[object, Frame] = {}
    env_warnings.add("UserWarning", "only once")
    try:
        first = handlers.answer_updates(request(1), wanted, shared, last=False)
    finally:
        env_warnings.pending.clear()
    second = handlers.answer_updates(request(2), wanted, shared, last=False)
    assert first
    assert second
    assert b"only once" in first.body + first.head
    assert b"only once" not in second.body + second.head


def test_requests_without_updates_or_refused_share_nothing(
    run: Run, handlers: ClockedHandlers
) -> None:
    shared: dict[object, Frame] = {}
    newest = UpdatesRequest(4, "latest", None, 0)
    assert handlers.answer_updates(request(1), newest, shared, last=False) is None
    empty = handlers.answer_updates(request(1), newest, shared, last=True)
    assert empty
    assert (empty.status, b'"updates":[]' in empty.body) == (200, True)
    wrong = newest._replace(after=99)
    refused = handlers.answer_updates(request(2), wrong, shared, last=False)
    assert refused
    assert refused.status == 400
    assert not shared
