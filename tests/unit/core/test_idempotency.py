"""Which stored answers are kept, and which are evicted."""

from collections.abc import Callable

import pytest

from gym_http_core import idempotency
from gym_http_core.idempotency import IdempotencyStore
from gym_http_wire.messages import answer
from gym_http_wire.problems import AnswerGone

LIMITS = {"MAX_KEYS": 8, "MAX_ANSWER_BYTES": 100}


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], IdempotencyStore]:
    """Return a function that stores an answer in a small store."""
    for name, value in LIMITS.items():
        monkeypatch.setattr(idempotency, name, value)
    ours = IdempotencyStore(max_answers=2)

    def keep(key: str, size: int = 1) -> IdempotencyStore:
        ours.keep(key, b"", answer(200, b"x" * size))
        return ours

    return keep


def test_the_last_answers_are_kept(kept: Callable[..., IdempotencyStore]) -> None:
    for number in range(3):
        ours = kept(f"key{number}")
    assert ours.recall("key2", b"").body == ours.recall("key1", b"").body == b"x"
    with pytest.raises(AnswerGone):
        ours.recall("key0", b"")


def test_an_answer_too_large_to_keep_throws_no_other_one_out(
    kept: Callable[..., IdempotencyStore],
) -> None:
    kept("small")
    ours = kept("large", 101)
    assert ours.recall("small", b"").body == b"x"
    with pytest.raises(AnswerGone):
        ours.recall("large", b"")


def test_keys_without_answers_are_forgotten_one_by_one(
    kept: Callable[..., IdempotencyStore],
) -> None:
    for number in range(LIMITS["MAX_KEYS"] + 3):
        ours = kept(f"key{number}", 10)
    assert "key0" not in ours
    for number in range(1, LIMITS["MAX_KEYS"] + 3):
        assert f"key{number}" in ours
    assert ours.recall("key9", b"").body == b"x" * 10


def test_room_of_evicted_answers_is_used_again(
    kept: Callable[..., IdempotencyStore],
) -> None:
    kept("first", 90)
    kept("second", 90)
    ours = kept("third", 10)
    with pytest.raises(AnswerGone):
        ours.recall("first", b"")
    assert ours.recall("second", b"").body == b"x" * 90
    assert ours.recall("third", b"").body == b"x" * 10


def test_a_forgotten_key_is_new_and_its_room_is_free(
    kept: Callable[..., IdempotencyStore],
) -> None:
    kept("first", 90)
    ours = kept("second", 90)
    # One has no answer any more, the other one has.
    ours.forget("first")
    ours.forget("second")
    ours.forget("third")
    assert "first" not in ours
    assert "second" not in ours
    kept("fourth", 90)
    assert ours.recall("fourth", b"").body == b"x" * 90
