"""What is kept of answers, and what is forgotten."""

from collections.abc import Callable

import numpy as np
import pytest

from gym_http_wire import replays
from gym_http_wire.frames import Frame, Pieces
from gym_http_wire.messages import Form, answer
from gym_http_wire.replays import AnswerGone, Replays
from gym_http_wire.values import binary

LIMITS = {"MAX_KEYS": 8, "MAX_ANSWER_BYTES": 100}


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], Replays]:
    """Give a way to keep an answer, with room for few."""
    for name, value in LIMITS.items():
        monkeypatch.setattr(replays, name, value)
    ours = Replays(max_answers=2)

    def keep(key: str, size: int = 1) -> Replays:
        ours.keep(key, b"", answer(200, b"x" * size))
        return ours

    return keep


def test_the_last_answers_are_kept(kept: Callable[..., Replays]) -> None:
    for number in range(3):
        ours = kept(f"key{number}")
    assert ours.recall("key2", b"").body == ours.recall("key1", b"").body == b"x"
    with pytest.raises(AnswerGone):
        ours.recall("key0", b"")


def test_an_answer_too_large_to_keep_throws_no_other_one_out(
    kept: Callable[..., Replays],
) -> None:
    kept("small")
    ours = kept("large", 101)
    assert ours.recall("small", b"").body == b"x"
    with pytest.raises(AnswerGone):
        ours.recall("large", b"")


def test_the_oldest_key_is_forgotten_and_its_answer_too(
    kept: Callable[..., Replays],
) -> None:
    kept("first", 90)
    for number in range(LIMITS["MAX_KEYS"]):
        kept(f"large{number}", 101)
    kept("second", 90)
    ours = kept("third", 1)
    assert "first" not in ours
    assert ours.recall("second", b"").body == b"x" * 90
    assert ours.recall("third", b"").body == b"x"


def pieces(array: np.ndarray) -> Frame:
    """Answer with an array that stays the environment's."""
    return answer(200, Pieces(*binary.split(array)), form=Form.BINARY)  # type: ignore[arg-type]


@pytest.mark.parametrize("acknowledging", ["", "s-7", "s-6", "t-8", "s-8-9", "s"])
def test_a_large_answer_lasts_until_a_later_request_of_its_session_acknowledges_it(
    acknowledging: str,
) -> None:
    ours, array = Replays(), np.arange(1000)
    ours.keep("s-7", b"", pieces(array))
    ours.settle(acknowledging)
    array[:] = 0
    kept = binary.decode(ours.recall("s-7", b"").body)
    assert isinstance(kept, np.ndarray)
    assert kept.tolist() == list(range(1000))


def test_an_acknowledged_large_answer_is_not_copied() -> None:
    ours = Replays()
    ours.keep("s-7", b"", pieces(np.arange(1000)))
    ours.settle("s-8")
    with pytest.raises(AnswerGone):
        ours.recall("s-7", b"")


def test_a_session_goes_forwards_only() -> None:
    ours = Replays()
    for number in (1, 2, 5):
        assert ours.count(f"s-{number}", numbered=True)
    assert ours.count("s-6", numbered=False)
    for number in (0, 3, 4, 6):
        for numbered in (False, True):
            with pytest.raises(AnswerGone, match="comes after request 6"):
                ours.count(f"s-{number}", numbered=numbered)
    assert ours.count("t-1", numbered=True)


def test_keys_that_look_like_a_sessions_may_go_backwards() -> None:
    ours = Replays()
    ours.count("s-5", numbered=True)
    for key in ("r-2", "r-1", "s", "s-", "s-x", "-1", "5", "s-1-1"):
        assert not ours.count(key, numbered=False)


def test_of_many_sessions_the_oldest_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replays, "MAX_SESSIONS", 2)
    ours = Replays()
    for session in "abc":
        ours.count(f"{session}-5", numbered=True)
    assert not ours.count("a-1", numbered=False)
    with pytest.raises(AnswerGone):
        ours.count("b-1", numbered=False)
