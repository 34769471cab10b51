"""The number of spare hosts follows the demand."""

from hypothesis import given
from hypothesis import strategies as st

from gym_http_server.supervisor.fork_server import DEMAND_SECONDS, Demand


def test_as_many_are_kept_as_were_taken_lately() -> None:
    demand = Demand(most=4)
    assert demand.spares(0.0) == 1
    demand.add(0.0)
    assert demand.spares(0.0) == 1
    demand.add(1.0)
    demand.add(1.0)
    assert demand.spares(1.0) == 3
    assert demand.spares(DEMAND_SECONDS) == 2
    assert demand.spares(DEMAND_SECONDS + 1.0) == 1
    for _ in range(9):
        demand.add(100.0)
    assert demand.spares(100.0) == 4


@given(st.lists(st.floats(0.0, 20.0)).map(sorted), st.floats(0.0, 30.0))
def test_it_is_the_number_of_the_last_seconds_within_limits(
    taken: list[float], later: float
) -> None:
    demand = Demand(most=8)
    for each in taken:
        demand.add(each)
    now = (taken[-1] if taken else 0.0) + later
    recent = sum(now - each < DEMAND_SECONDS for each in taken)
    assert demand.spares(now) == min(8, max(1, recent))
