"""Which entries a full store forgets: the oldest of the owner that has most."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_http_server.datadir.retention import Retention
from gym_http_server.supervisor import instance
from gym_http_server.supervisor.instance import Tombstone, Tombstones

ENTRIES = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4)), max_size=60)


@given(ENTRIES)
def test_only_the_owner_that_has_most_loses_its_oldest(
    entries: list[tuple[str, int]],
) -> None:
    kept, sizes = Retention[int](12), dict[int, tuple[str, int]]()
    for key, (owner, size) in enumerate(entries):
        sizes[key] = owner, size
        for forgotten in kept.add(key, owner, size):
            sums = {
                name: sum(n for o, n in sizes.values() if o == name) for name in "abc"
            }
            loser = sizes[forgotten][0]
            assert sums[loser] == max(sums.values())
            assert forgotten == min(k for k, (o, _) in sizes.items() if o == loser)
            del sizes[forgotten]
        assert sum(size for _, size in sizes.values()) <= 12


def test_an_owner_alone_has_all_of_it() -> None:
    kept = Retention[str](3)
    assert [kept.add(key, "") for key in "abcad"] == [[], [], [], [], ["b"]]
    kept.discard("none")


def test_ended_instances_of_another_owner_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance, "MAX_TOMBSTONES", 10)
    ended = Tombstones()
    for number in range(30):
        owner = "ada" if number < 3 else "bob"
        grave = Tombstone("CartPole-v1", "closed", 0, "", 0.0, owner=owner)
        ended.add(f"{number:08x}", grave)
    numbers = [int(key, 16) for key, _ in ended.newest_first()]
    assert numbers == [29, 28, 27, 26, 25, 24, 23, 2, 1, 0]
