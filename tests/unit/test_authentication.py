"""Counts of wrong tokens: the limit, the address, and the size of the memory."""

import hashlib
import logging
import os

import pytest

from gym_http_server.access.authentication import (
    SLOTS,
    Authenticator,
    WrongTokens,
    source_of,
)
from gym_http_server.access.identities import EVERYONE, Identity, Keys
from gym_http_server.errors import TooManyWrongTokens, Unauthorized

SECOND = 10**9
ADA = Identity("ada", frozenset({"read"}))
KEYS = Keys([(hashlib.sha256(b"right").digest(), ADA)])


class Clock:
    """A clock that only the test advances."""

    def __init__(self) -> None:
        self.now_ns = 5 * SECOND

    def __call__(self) -> int:
        return self.now_ns


def test_ten_a_second_are_within_the_limit() -> None:
    clock = Clock()
    wrong = WrongTokens(clock)
    assert [wrong.count("a") for _ in range(30)] == [True] * 10 + [False] * 20
    clock.now_ns += SECOND // 2
    assert [wrong.count("a") for _ in range(30)] == [True] * 5 + [False] * 25
    clock.now_ns += 3600 * SECOND
    assert [wrong.count("a") for _ in range(30)] == [True] * 10 + [False] * 20


def test_forks_count_together() -> None:
    wrong = WrongTokens(Clock())
    for _ in range(9):
        assert wrong.count("a")
    pid = os.fork()
    if not pid:
        os._exit(0 if wrong.count("a") else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert not wrong.count("a")


def test_many_addresses_take_no_more_memory() -> None:
    wrong = WrongTokens(Clock())
    assert wrong._times.nbytes == SLOTS * 8
    for i in range(1000):
        wrong.count(f"10.0.{i // 250}.{i % 250}")
    assert wrong._times.nbytes == SLOTS * 8


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", "a local socket"),
        ("no address", "a local socket"),
    ],
)
def test_addresses_are_grouped_by_prefix(address: str, source: str) -> None:
    assert source_of(address) == source


def test_the_right_token_is_accepted_at_any_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    authenticator = Authenticator(KEYS, WrongTokens(Clock()), "send it", {"A": "b"})
    refused = []
    with caplog.at_level(logging.WARNING):
        for i in range(10_000):
            with pytest.raises((Unauthorized, TooManyWrongTokens)) as caught:
                authenticator.identify(f"wrong-{i}".encode(), "10.1.1.1")
            refused.append(caught.value.status)
            assert authenticator.identify(b"right", "10.1.1.1") == ADA
    assert refused == [401] * 10 + [429] * 9990
    with pytest.raises(Unauthorized) as caught:
        authenticator.identify(b"wrong", "10.1.1.2")
    assert caught.value.headers == {"A": "b"}
    assert 1 <= len(caplog.records) < 100
    assert all("wrong-" not in each.getMessage() for each in caplog.records)
    assert "10.1.1.1" in caplog.records[0].getMessage()


def test_a_missing_token_is_no_wrong_one() -> None:
    authenticator = Authenticator(KEYS, WrongTokens(Clock()), "send it")
    for _ in range(30):
        with pytest.raises(Unauthorized):
            authenticator.identify(b"", "10.1.1.1")


def test_the_token_of_a_run_is_held_against_its_caller() -> None:
    open_to_all = Authenticator(None, WrongTokens(Clock()), "send it")
    for shown in (b"", b"anything"):
        assert open_to_all.identify(shown, "10.1.1.1") == EVERYONE
    for authenticator in (
        open_to_all,
        Authenticator(KEYS, WrongTokens(Clock()), "send it"),
    ):
        with pytest.raises(Unauthorized):
            authenticator.identify(b"ghr_" + b"x" * 43, "10.1.1.1")
