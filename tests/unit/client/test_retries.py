"""Which requests are retried, and after which pauses."""

import itertools
import pickle
import random
from dataclasses import dataclass, field

import pytest

from gym_http_client.errors import Failure, FailureKind
from gym_http_client.http.error_mapping import unanswered_error
from gym_http_client.http.http1 import Reply
from gym_http_client.http.processes import PerProcess
from gym_http_client.http.retries import Retries, Tries, keys, wait_of

ABSENT = Failure(FailureKind.ABSENT, "nobody")
LOST = Failure(FailureKind.LOST, "gone")
STALE = Failure(FailureKind.STALE, "gone")


@dataclass
class Time:
    """A clock that only pauses move."""

    now: float = 1000.0
    pauses: list[float] = field(default_factory=list)

    def sleep(self, pause: float) -> None:
        self.pauses.append(pause)
        self.now += pause

    def retries(self, draw: float = 1.0, **options: float) -> Retries:
        return Retries(
            clock=lambda: self.now, sleep=self.sleep, random=lambda: draw, **options
        )

    def tries(self, draw: float = 1.0, **options: float) -> Tries:
        return Tries(self.retries(draw, **options), self.now)


def busy(retry_after: str | None = None, status: int = 503) -> Reply:
    return Reply(
        status, {} if retry_after is None else {"retry-after": retry_after}, b""
    )


def test_pauses_double_up_to_a_bound_and_a_total() -> None:
    time = Time()
    tries = time.tries()
    while tries.again(LOST):
        pass
    bounds = [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2]
    assert time.pauses[:7] == pytest.approx(bounds)
    assert set(time.pauses[7:]) == {5.0}
    assert 115.0 < sum(time.pauses) < 120.0
    assert tries.count == len(time.pauses) + 1


def test_pauses_are_uniform_below_their_bound() -> None:
    time = Time()
    tries = time.tries(draw=0.25)
    for _ in range(3):
        assert tries.again(LOST)
    assert time.pauses == pytest.approx([0.0125, 0.025, 0.05])


def test_bounds_can_be_chosen() -> None:
    time = Time()
    tries = time.tries(total=10.0, first=1.0, longest=2.0)
    while tries.again(LOST):
        pass
    assert time.pauses == [1.0, 2.0, 2.0, 2.0, 2.0]


@pytest.mark.parametrize("draw", [0.0, 1.0])
def test_many_tries_do_not_overflow(draw: float) -> None:
    tries = Time().tries(draw, longest=0.001)
    for _ in range(5000):
        assert tries.again(LOST)


def test_only_the_first_stale_connection_is_replaced_at_once() -> None:
    time = Time()
    tries = time.tries()
    assert tries.again(STALE)
    assert time.pauses == []
    assert tries.again(STALE)
    assert time.pauses == [0.1]


def test_retry_after_is_honoured_with_jitter_on_top() -> None:
    time = Time()
    tries = time.tries(draw=0.5)
    assert tries.again(busy("7"))
    assert tries.again(busy("0"))
    assert time.pauses == pytest.approx([7.025, 0.05])


@pytest.mark.parametrize("retry_after", ["120", "3600", "9" * 400])
def test_a_retry_after_beyond_the_deadline_ends_the_retries(retry_after: str) -> None:
    time = Time()
    assert not time.tries().again(busy(retry_after))
    assert time.pauses == []


@pytest.mark.parametrize(
    "retry_after", ["", "-1", "1.5", "soon", "²", "Wed, 21 Oct 2026 07:28:00 GMT"]
)
def test_an_invalid_retry_after_is_ignored(retry_after: str) -> None:
    time = Time()
    assert time.tries().again(busy(retry_after))
    assert time.pauses == [0.05]


@pytest.mark.parametrize(
    ("kind", "again"),
    [
        (FailureKind.ABSENT, True),
        (FailureKind.LOST, True),
        (FailureKind.STALE, True),
        (FailureKind.TIMEOUT, True),
        (FailureKind.UNTRUSTED, False),
        (FailureKind.MALFORMED, False),
        (FailureKind.MISTAKEN, False),
    ],
)
def test_which_failures_are_tried_again(kind: FailureKind, again: bool) -> None:
    assert Time().tries().again(Failure(kind, "")) is again


def test_a_server_never_reached_is_soon_given_up() -> None:
    time = Time()
    tries = Tries(time.retries(), time.now, met=False)
    while tries.again(ABSENT):
        pass
    assert time.pauses == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.6])
    assert not tries.met
    assert tries.left() == pytest.approx(120.0 - sum(time.pauses))


@pytest.mark.parametrize("sign", [LOST, Failure(FailureKind.TIMEOUT, ""), busy()])
def test_any_sign_of_a_server_is_worth_the_whole_time(sign: Reply | Failure) -> None:
    time = Time()
    tries = Tries(time.retries(), time.now, met=False)
    assert tries.again(ABSENT)
    assert tries.again(sign)
    while tries.again(ABSENT):
        pass
    assert tries.met
    assert sum(time.pauses) > 110.0


def test_the_first_contact_has_no_more_than_the_whole_time() -> None:
    time = Time()
    tries = Tries(time.retries(total=1.0), time.now, met=False)
    while tries.again(ABSENT):
        pass
    assert sum(time.pauses) < 1.0


def test_which_answers_are_tried_again() -> None:
    repeated = [s for s in range(200, 600) if Time().tries().again(busy(status=s))]
    assert repeated == [408, 429, 503]


def problem_reply(code: str, status: int = 503) -> Reply:
    return Reply(status, {}, b'{"code": "%s", "message": "not now"}' % code.encode())


def test_a_create_without_an_external_environment_is_not_retried() -> None:
    time = Time()
    creation = time.retries().of_creation(0.0)
    assert not Tries(creation, time.now).again(problem_reply("external-away"))
    for outcome in (
        problem_reply("draining"),
        problem_reply("too-many-instances", 429),
        busy(),
        LOST,
    ):
        assert Tries(creation, time.now).again(outcome)
    assert time.tries().again(problem_reply("external-away"))
    # Errors of other programs have no code.
    for body in (b"<html>", b"[]", b'{"code": []}', b'{"code": {}}'):
        assert Tries(creation, time.now).again(Reply(503, {}, body))


def test_the_wait_of_the_server_is_added_to_deadlines() -> None:
    assert Retries(total=10.0).of_creation(2.5).total == 12.5
    assert Retries(total=0.0).of_creation(2.5).total == 0.0


@pytest.mark.parametrize(
    ("wait_s", "seconds"),
    [
        (None, 0.0),
        (0, 0.0),
        (10, 10.0),
        (2.5, 2.5),
        (-1, 0.0),
        ("10", 0.0),
        (float("nan"), 0.0),
        (float("inf"), 1e6),
        (10**400, 1e6),
    ],
)
def test_the_wait_of_a_creation(wait_s: object, seconds: float) -> None:
    assert wait_of({"wait_s": wait_s}) == seconds
    assert wait_of({}) == 0.0


def test_the_last_answer_is_named_when_time_is_up() -> None:
    late = Failure(FailureKind.TIMEOUT, "nothing within 1 s")
    tries = Time().tries()
    assert tries.again(late)
    assert tries.last_reason == ""
    for outcome, words in (
        (problem_reply("draining"), "not now (503)"),
        (busy(), "status 503"),
        (LOST, "gone"),
    ):
        assert tries.again(outcome)
        assert tries.again(late)
        assert tries.last_reason == words
    error = unanswered_error(late, "POST", "http://host/", "k", 3, tries.last_reason)
    assert "nothing within 1 s; before that: gone (after 3 attempts" in str(error)
    error = unanswered_error(LOST, "POST", "http://host/", "k", 3, "not now (503)")
    assert "not now" not in str(error)


def test_without_time_there_is_one_try() -> None:
    for outcome in (LOST, STALE, busy("0")):
        assert not Time().tries(total=0.0).again(outcome)


def test_jitter_leaves_the_global_generator_alone() -> None:
    random.seed(1)
    state = random.getstate()
    draws = [Retries().random() for _ in range(1000)]
    assert random.getstate() == state
    assert all(0.0 <= draw < 1.0 for draw in draws)
    assert len(set(draws)) == 1000


def test_retries_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(Retries(total=1.0))) == Retries(total=1.0)


def test_keys_are_unlike_each_other() -> None:
    taken = [key for source in (keys(), keys()) for key in itertools.islice(source, 99)]
    assert len(set(taken)) == 198
    assert all(key.isascii() and key.isprintable() for key in taken)
    assert max(map(len, taken)) < 40


def test_each_process_makes_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[object] = []
    own = PerProcess(object, left.append)
    first = own.get()
    assert own.get() is first
    monkeypatch.setattr("os.getpid", lambda: -1)
    second = own.get()
    assert second is not first
    assert left == [first]
    assert own.get() is second
    assert left == [first]


def test_a_close_is_sent_again_for_its_seconds_and_not_after_a_refusal() -> None:
    time = Time()
    closing = time.retries().within(3.0)
    tries = Tries(closing, time.now)
    assert not tries.again(ABSENT)
    while tries.again(LOST):
        pass
    assert 1.0 < sum(time.pauses) < 3.0
    assert not tries.again(ABSENT)
    assert not Tries(time.retries(total=0.0).within(3.0), time.now).again(LOST)
