"""A world that keeps its own time: each of its messages is a tick, on a fake clock."""

from collections import deque
from typing import Any

import numpy as np
import pytest

from gym_http_server.host.realtime.following import Following
from gym_http_server.host.realtime.world import Capture
from tests.support.realtime import MS, Clock, read_action, settings_of


class Speaker:
    """A world whose messages come when the test says so."""

    n_rewards = 1

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.singly = False
        self.ended = False
        self.heard = False
        self.unread: deque[tuple[float, bool]] = deque()
        self.sent: list[tuple[int, float]] = []
        self.began = clock.now

    def say(self, number: float, over: bool = False) -> None:
        self.unread.append((number, over))

    def reset(self, seed: Any, options: Any) -> tuple[Any, dict[str, Any]]:
        number, _ = self.unread.popleft()
        return np.array([number]), {}

    def send(self, action: Any) -> None:
        self.sent.append((self.clock.now - self.began, float(action[0])))

    def speaks(self) -> bool:
        return bool(self.unread)

    @property
    def has_more(self) -> bool:
        return bool(self.unread)

    def capture(self) -> Capture:
        assert self.singly
        number, over = self.unread.popleft()
        return Capture(np.array([number]), [number], False, over, {"messages": 1})

    def fileno(self) -> int:
        return 7

    def listen(self, hears: bool) -> None:
        self.heard = hears


class World:
    """A mode with a world that speaks, driven as a host drives it."""

    def __init__(self, **given: Any) -> None:
        self.clock = Clock()
        self.world = Speaker(self.clock)
        settings = settings_of({"preset": "myrtle", "hz": 100, **given})
        self.mode = Following(settings, self.world, self.clock)
        self.start = self.clock.now
        self.world.say(0.0)
        self.mode.reset(None, None, "")

    def until(self, ms: int) -> None:
        """Let time pass, doing what is due."""
        now = self.start + ms * MS
        while self.mode.due_ns is not None and self.mode.due_ns <= now:
            self.clock.now = max(self.clock.now, self.mode.due_ns)
            self.mode.advance()
        self.clock.now = now

    def say(self, at_ms: int, *numbers: float, over: bool = False) -> None:
        """Let the world speak at a time, and the host hear it."""
        self.until(at_ms)
        for number in numbers:
            self.world.say(number, over)
        if self.world.heard:
            self.mode.wake()
        self.until(at_ms)

    def act(self, action: float) -> Any:
        return self.mode.act({"action": [action]}, "", read_action, True)

    def updates(self) -> list[Any]:
        found = self.mode.updates(0, "all")
        assert found is not None
        return [
            (
                each["observation"][0],
                each["reward"],
                each["realtime"]["capture_ns"] // MS,
                # None before the first.
                each["realtime"]["action"] and each["realtime"]["action"]["value"][0],
            )
            for each in found["updates"]
        ]


def test_each_message_is_an_update_at_its_time() -> None:
    run = World()
    assert run.mode.source == 7
    run.say(10, 1.0)
    run.say(13, 2.0)
    # Three that come at once are three, and a time without messages has none.
    run.say(58, 3.0, 4.0, 5.0)
    assert run.updates() == [
        (0.0, 0.0, 0, None),
        (1.0, 1.0, 10, 0.0),
        (2.0, 2.0, 13, 0.0),
        (3.0, 3.0, 58, 0.0),
        (4.0, 4.0, 58, 0.0),
        (5.0, 5.0, 58, 0.0),
    ]
    statistics = run.mode.statistics()
    assert (statistics["ticks"], statistics["skipped"]) == (5, 0)
    assert statistics["follows"] is True


def test_an_action_is_sent_when_it_comes_and_acts_until_the_next_message() -> None:
    run = World()
    run.say(10, 1.0)
    run.until(12)
    assert run.act(7.0)["queued"] == 0
    run.say(20, 2.0)
    # Without an action the world has zeros by itself: none is sent over the last one.
    run.say(30, 3.0)
    run.until(200)
    assert run.world.sent == [(12 * MS, 7.0)]
    assert [each[3] for each in run.updates()] == [None, 0.0, 7.0, 0.0]
    assert run.mode.statistics()["actions"]["applied"] == 1


def test_an_action_that_holds_is_sent_after_each_message() -> None:
    run = World(no_action="hold")
    run.act(7.0)
    run.say(10, 1.0)
    run.say(20, 2.0)
    assert run.world.sent == [(0, 7.0), (10 * MS, 7.0), (20 * MS, 7.0)]


def test_a_chunk_has_an_action_for_each_message() -> None:
    run = World()
    run.mode.act({"actions": [[1], [2], [3]]}, "", read_action, True)
    for at in (10, 20, 30):
        run.say(at, float(at))
    assert run.world.sent == [(0, 1.0), (10 * MS, 2.0), (20 * MS, 3.0)]
    assert [each[3] for each in run.updates()] == [None, 1.0, 2.0, 3.0]


def test_steps_wait_for_a_message_and_two_periods_at_most() -> None:
    run = World()
    run.mode.arrive("")
    run.until(9)
    assert not run.mode.may_step("")
    run.clock.now = run.start + 10 * MS
    run.world.say(1.0)
    run.mode.wake()
    assert run.mode.may_step("")
    first = run.mode.step(np.array([5.0]), "")
    assert (first.observation[0], first.reward) == (1.0, 1.0)
    assert run.world.sent == [(10 * MS, 5.0)]
    # No message comes: the step returns what is known, and no reward.
    run.clock.now = run.start + 29 * MS
    assert not run.mode.may_step("")
    run.clock.now = run.start + 30 * MS
    assert run.mode.may_step("")
    second = run.mode.step(np.array([6.0]), "")
    assert (second.observation[0], second.reward, second.rewards) == (1.0, 0.0, [None])
    assert second.info == {"messages": 0}
    assert run.world.sent[-1] == (30 * MS, 6.0)
    assert len(run.updates()) == 2


def test_a_paused_clock_hears_nothing_and_loses_nothing() -> None:
    run = World()
    run.say(10, 1.0)
    run.mode.pause()
    assert not run.world.heard
    run.say(20, 2.0)
    run.mode.wake()
    run.until(40)
    assert len(run.updates()) == 2
    run.mode.resume()
    run.until(40)
    assert run.world.heard
    assert [each[0] for each in run.updates()] == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(("hz", "beyond"), [(50, 5), (100, 15)])
def test_lateness_is_the_time_beyond_a_period_after_the_last_message(
    hz: int, beyond: int
) -> None:
    run = World(hz=hz)
    run.say(10, 1.0)
    run.say(35, 2.0)
    found = run.mode.updates(0, "all")
    assert found is not None
    late = [each["realtime"]["late_ns"] // MS for each in found["updates"]]
    # Two periods of 10 ms pass between the messages, and those of 20 ms do not.
    assert late == [0, 0, beyond]


def test_the_next_episode_begins_with_the_next_message() -> None:
    run = World()
    run.until(10)
    run.world.say(1.0)
    run.world.say(1.0, over=True)
    run.world.say(2.0)
    run.mode.wake()
    run.until(10)
    assert [each[0] for each in run.updates()] == [0.0, 1.0, 1.0, 2.0]
    assert run.mode.statistics()["episode"] == 2
