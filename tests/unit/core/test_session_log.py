"""A session executes each request once, in the order of numbers."""

import numpy as np
import pytest

from gym_http_core import session_log
from gym_http_core.idempotency import (
    AnswerGone,
    IdempotencyStore,
    KeyReused,
    request_fingerprint,
)
from gym_http_core.session_log import SessionLog
from gym_http_wire.frames import Frame, Pieces
from gym_http_wire.messages import Form, Op, answer
from gym_http_wire.values import binary


def step_request(number: int, body: bytes = b"x") -> Frame:
    """Make a request."""
    return Frame(Op.STEP, number, 0, 0x33, b"", body)


def pieces(array: np.ndarray) -> Frame:
    """Answer with an array that stays the environment's."""
    signature, leaves = binary.split(array)
    body = Pieces(signature, leaves, 8 + len(signature) + array.nbytes, lasting=False)
    return answer(200, body, form=Form.BINARY)  # type: ignore[arg-type]


def done(
    ours: SessionLog, session: str, number: int, reply: Frame | None = None
) -> None:
    """Execute a request."""
    request = step_request(number)
    assert ours.replay_or_begin(session, number, request) is None
    ours.keep(session, number, request, reply or answer(200, b"%d" % number))


def test_a_repeated_request_gets_its_answer() -> None:
    ours = SessionLog(IdempotencyStore())
    for number in range(1, 5):
        done(ours, "s", number)
        done(ours, "t", number)
    for number in range(1, 5):
        reply = ours.replay_or_begin("s", number, step_request(number))
        assert reply is not None
        assert reply.body == b"%d" % number


def test_the_last_answers_are_kept() -> None:
    ours = SessionLog(IdempotencyStore())
    for number in range(1, 20):
        done(ours, "s", number)
    assert ours.replay_or_begin("s", 4, step_request(4)) is not None
    with pytest.raises(AnswerGone, match="request 3 of session s comes after"):
        ours.replay_or_begin("s", 3, step_request(3))


def test_another_request_of_a_number_is_refused() -> None:
    ours = SessionLog(IdempotencyStore())
    done(ours, "s", 1)
    with pytest.raises(KeyReused, match="s-1"):
        ours.replay_or_begin("s", 1, step_request(1, b"y"))


def test_the_same_value_is_the_same_request_in_pieces_and_in_one() -> None:
    ours = SessionLog(IdempotencyStore())
    signature, leaves = binary.split({"action": 1})
    joined = binary.encode({"action": 1})
    apart = step_request(1)._replace(body=Pieces(signature, leaves, len(joined)))
    assert ours.replay_or_begin("s", 1, apart) is None
    ours.keep("s", 1, apart, answer(200, b"."))
    assert ours.replay_or_begin("s", 1, step_request(1, joined)) is not None


@pytest.mark.parametrize(
    ("session", "acknowledged"), [("", 0), ("s", 0), ("s", 7), ("t", 8), ("s", 6)]
)
def test_a_large_answer_lasts_until_a_later_request_of_its_session_acknowledges_it(
    session: str, acknowledged: int
) -> None:
    ours, array = SessionLog(IdempotencyStore()), np.arange(1000)
    done(ours, "s", 7, pieces(array))
    ours.copy_last(session, acknowledged)
    array[:] = 0
    kept = ours.replay_or_begin("s", 7, step_request(7))
    assert kept is not None
    value = binary.decode(kept.body)
    assert isinstance(value, np.ndarray)
    assert value.tolist() == list(range(1000))


def test_an_acknowledged_large_answer_is_not_copied() -> None:
    ours = SessionLog(IdempotencyStore())
    done(ours, "s", 7, pieces(np.arange(1000)))
    ours.copy_last("s", 8)
    with pytest.raises(AnswerGone):
        ours.replay_or_begin("s", 7, step_request(7))


def test_an_answer_over_the_limit_is_not_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_log, "MAX_ANSWER_BYTES", 100)
    ours = SessionLog(IdempotencyStore())
    done(ours, "s", 1, answer(200, bytes(200)))
    with pytest.raises(AnswerGone):
        ours.replay_or_begin("s", 1, step_request(1))


def test_a_session_goes_forwards_only() -> None:
    ours = SessionLog(IdempotencyStore())
    for number in (1, 2, 5):
        done(ours, "s", number)
    for number in (0, 3, 4):
        with pytest.raises(AnswerGone, match="comes after request 5"):
            ours.replay_or_begin("s", number, step_request(number))
    done(ours, "s", 6)


def test_requests_before_the_first_stream_are_known_by_their_keys() -> None:
    replays = IdempotencyStore()
    ours = SessionLog(replays)
    request = step_request(1)
    assert ours.parse_key("s-1") is None
    replays.keep(
        "s-1", request_fingerprint(request, session_log.request_head(request)), request
    )
    assert ours.replay_or_begin("s", 1, request) is request
    done(ours, "s", 2)
    assert ours.parse_key("s-1") == ("s", 1)
    assert ours.replay_or_begin("s", 1, request) is request


def test_keys_that_look_like_a_sessions_are_not() -> None:
    ours = SessionLog(IdempotencyStore())
    done(ours, "s", 5)
    assert ours.parse_key("s-6") == ("s", 6)
    for key in ("r-2", "s", "s-", "s-x", "-1", "5", "s-1-1", "s-\N{SUPERSCRIPT TWO}"):
        assert ours.parse_key(key) is None


def test_of_many_sessions_the_oldest_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_log, "MAX_SESSIONS", 2)
    ours = SessionLog(IdempotencyStore())
    for session in "abc":
        done(ours, session, 5)
    assert ours.parse_key("a-1") is None
    with pytest.raises(AnswerGone):
        ours.replay_or_begin("b", 1, step_request(1))
