"""The limiter against an oracle, and the settings that it refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_http_server.services.relay.limiter import Limiter, LimiterSettings
from gym_http_wire.problems import BadParameter


class Oracle:
    """Reverb's SampleToInsertRatio, as its documentation has it."""

    def __init__(self, ratio: float, size: int, lowest: float, highest: float) -> None:
        self.ratio, self.size = ratio, size
        self.lowest, self.highest = lowest, highest
        self.inserts = self.draws = 0

    def insert_allowed(self) -> bool:
        if self.inserts < self.size:
            return True
        return self.inserts * self.ratio - self.draws <= self.highest

    def draw_allowed(self) -> bool:
        if self.inserts < self.size:
            return False
        return self.inserts * self.ratio - self.draws >= self.lowest


@given(
    ratio=st.sampled_from([0.25, 0.5, 1.0, 4.0, 32.0]),
    size=st.integers(1, 50),
    width=st.integers(0, 100),
    calls=st.lists(st.tuples(st.booleans(), st.integers(1, 20)), max_size=100),
)
def test_it_decides_as_the_oracle_and_never_blocks_both(
    ratio: float, size: int, width: int, calls: list[tuple[bool, int]]
) -> None:
    buffer = max(1.0, ratio) + width
    limiter = Limiter(LimiterSettings(ratio, size, buffer))
    oracle = Oracle(ratio, size, ratio * size - buffer, ratio * size + buffer)
    assert (limiter.min_diff, limiter.max_diff) == (oracle.lowest, oracle.highest)
    for is_insert, count in calls:
        counts = oracle.inserts, oracle.draws
        assert limiter.inserts_wait(*counts) != oracle.insert_allowed()
        assert oracle.insert_allowed() or oracle.draw_allowed()
        if is_insert and oracle.insert_allowed():
            oracle.inserts += count
        elif not is_insert and oracle.draw_allowed():
            oracle.draws += count


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (LimiterSettings(1.0, 1, 0.9), "range of 2 or more"),
        (LimiterSettings(8.0, 1, 7.9), "range of 16 or more"),
        (LimiterSettings(1.0, 10, (0.0, 1.0)), "range of 2 or more"),
        (LimiterSettings(2.0, 10, (20.5, 40.0)), "draws could never begin"),
        (LimiterSettings(1.0, 10, (40.0, 0.0)), "range of 2 or more"),
        (LimiterSettings(1e308, 100, 1e308), "finite"),
    ],
)
def test_settings_that_block_for_ever_are_refused(
    settings: LimiterSettings, words: str
) -> None:
    with pytest.raises(BadParameter, match=words):
        Limiter(settings)


def test_a_queue_of_transitions() -> None:
    limiter = Limiter(LimiterSettings(1.0, 1, (0.0, 100.0)))
    assert not limiter.inserts_wait(100, 0)
    assert limiter.inserts_wait(101, 0)
    assert not limiter.inserts_wait(101, 1)
