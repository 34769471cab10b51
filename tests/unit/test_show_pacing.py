"""The pacer of watchers keeps to rate and share, whatever happens when."""

import itertools
import math

from hypothesis import given
from hypothesis import strategies as st

from gym_http_server.host.show.pacing import DrawingTimes, Pacer, Turn

MS = 1_000_000
SECOND = 1_000_000_000


class Run:
    """A host that offers each moment to its watchers, in simulated time."""

    def __init__(self, watchers: list[tuple[float, float]], draw_ns: int) -> None:
        self.pacers = [Pacer(*each) for each in watchers]
        self.draw_ns = draw_ns
        self.now = self.state = self.busy_ns = 0
        self.draws: list[tuple[int, int]] = []
        self.updates: list[list[tuple[int, Turn, int]]] = [[] for _ in watchers]

    def attend(self, *, draws: bool = True) -> bool:
        """Serve those whose turn it is; return whether there were any."""
        turns = [each.choose(self.now, self.state, draws=draws) for each in self.pacers]
        best = max(turns)
        if best is Turn.NOTHING:
            return False
        began = self.now
        for pacer, turn, seen in zip(self.pacers, turns, self.updates, strict=True):
            if turn is not Turn.NOTHING:
                pacer.sent(began, self.state, turn)
                seen.append((began, turn, self.state))
        self.now += self.draw_ns if best is Turn.PICTURE else MS // 20
        if best is Turn.PICTURE:
            self.draws.append((began, self.now))
        self.busy_ns += self.now - began
        for pacer in self.pacers:
            pacer.spent(began, self.now, best)
        return True

    def settle(self) -> None:
        """Let time pass until nothing is due any more."""
        while True:
            due = [each.due_ns(self.state, draws=True) for each in self.pacers]
            times = [each for each in due if each is not None]
            if not times:
                return
            self.now = max(self.now, min(times))
            assert self.attend(), "it was due"


watchers = st.lists(
    st.tuples(st.floats(1, 60), st.floats(0.01, 1)), min_size=1, max_size=3
)


@given(
    watchers,
    st.integers(10_000, 400 * MS),
    st.lists(st.integers(1, 80 * MS), min_size=1, max_size=150),
)
def test_rate_and_share_hold_and_the_last_state_arrives(
    wanted: list[tuple[float, float]], draw_ns: int, pauses: list[int]
) -> None:
    run = Run(wanted, draw_ns)
    for pause in pauses:
        run.now += pause
        run.state += 1
        run.attend()
    ended, busy_ns = run.now, run.busy_ns
    share = max(each[1] for each in wanted)
    # The last picture is paid for by the time after it.
    last_ns = max((end - began for began, end in run.draws), default=0)
    assert busy_ns - last_ns <= share * ended + 2 * MS
    for (_, own), seen in zip(wanted, run.updates, strict=True):
        drawn = [began for began, turn, _ in seen if turn is Turn.PICTURE]
        gaps = [later - first for first, later in itertools.pairwise(drawn)]
        assert all(gap >= math.floor(draw_ns / own) - 1 for gap in gaps)
    run.settle()
    for (fps, _), seen in zip(wanted, run.updates, strict=True):
        assert max(state for _, turn, state in seen if turn is Turn.PICTURE) == (
            run.state
        )
        states = [state for _, _, state in seen]
        assert states == sorted(states)
        # On a grid: in each interval of it there is one update at most.
        cells = [began // int(SECOND / fps) for began, _, _ in seen]
        assert len(cells) == len(set(cells))
    assert not run.attend()


def test_after_150_ms_nothing_is_drawn_for_1350_ms() -> None:
    run = Run([(10, 0.1)], 150 * MS)
    while run.now < 6 * SECOND:
        run.now += MS
        run.state += 1
        run.attend()
    assert len(run.draws) == 4
    pauses = [later - end for (_, end), (later, _) in itertools.pairwise(run.draws)]
    assert all(1350 * MS <= pause < 1480 * MS for pause in pauses)
    # Text goes on meanwhile.
    assert 45 <= len(run.updates[0]) <= 60


def test_watchers_of_one_rate_share_their_pictures() -> None:
    run = Run([(10, 0.1), (10, 0.1), (5, 0.1)], 3 * MS)
    while run.now < 2 * SECOND:
        run.now += MS
        run.state += 1
        run.attend()
    pictures = [
        sum(turn is Turn.PICTURE for _, turn, _ in seen) for seen in run.updates
    ]
    assert pictures[0] == pictures[1] >= 18
    assert pictures[2] >= 9
    assert len(run.draws) <= 21


def test_one_who_does_not_read_waits_for_the_next_turn() -> None:
    pacer = Pacer(10, 1)
    pacer.postpone(0)
    assert pacer.choose(99 * MS, 1, draws=True) is Turn.NOTHING
    assert pacer.choose(100 * MS, 1, draws=True) is Turn.PICTURE
    assert pacer.choose(100 * MS, 1, draws=False) is Turn.TEXT


def test_a_frame_fits_before_the_next_tick_or_is_not_drawn() -> None:
    times = DrawingTimes()
    assert times.fits(0, 1)
    times.add(300 * MS)
    # The first one includes the start of a renderer.
    assert times.fits(0, 1)
    times.add(5 * MS)
    assert times.fits(0, 5 * MS)
    assert not times.fits(1, 5 * MS)
    assert times.fits(0, None)
    times.add(30 * MS)
    times.add(40 * MS)
    assert not times.fits(0, 29 * MS)
    times.clear()
    assert times.fits(0, 1)
