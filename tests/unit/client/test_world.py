"""A world shared by several agents waits, goes on and ends as its rules say."""

from typing import Any

import pytest
from pettingzoo.classic.connect_four.connect_four import env as connect_four
from pettingzoo.utils.conversions import parallel_to_aec

from gym_http_client.serving.agents import seat_names
from gym_http_client.serving.games import game_of
from gym_http_client.serving.world import Reset, Step, World, act_randomly
from gym_http_wire.problems import ExternalAway, InvalidAction, ResetNeeded
from tests.support.envs.meeting import Meeting

PATIENCE = 20.0


class Table:
    """A world, its time, and what its holders were answered."""

    def __init__(self, env: Any, absent: Any = None, *, held: int = 9) -> None:
        names = {agent: f"external/w.{agent}" for agent in env.possible_agents}
        self.world = World(game_of(env), names, PATIENCE, absent)
        self.now = 1000.0
        for agent in env.possible_agents[:held]:
            self.world.take(agent, self.now)

    def reset(self, agent: Any, seed: int | None = None, **options: Any) -> Any:
        """Ask for a reset; return the answer, or ``None`` if it is not there yet."""
        return self.ask(agent, Reset(seed, options or None))

    def step(self, agent: Any, action: Any) -> Any:
        """Ask for a step, likewise."""
        return self.ask(agent, Step(action))

    def ask(self, agent: Any, request: Reset | Step) -> Any:
        self.world.ask(agent, request, self.now)
        return self.answer(agent)

    def answer(self, agent: Any) -> Any:
        """Return the answer if it is there by now."""
        self.world.advance(self.now)
        seat = self.world.seats[agent]
        answer, seat.answer = seat.answer, None
        return answer

    def wait(self, seconds: float) -> None:
        """Let time pass; the world is advanced when it is due, as its thread does."""
        end = self.now + seconds
        while (due := self.world.due(self.now)) is not None and due <= end:
            self.now = due
            self.world.advance(due)
        self.now = end
        self.world.advance(end)


def meeting(log: list[Any], **lives: int) -> Meeting:
    return Meeting(lives or {"a": 3, "b": 3}, log)


def begun(log: list[Any], absent: Any = None, **lives: int) -> Table:
    """Return a table whose episode has begun."""
    table = Table(meeting(log, **lives), absent)
    for agent in table.world.seats:
        table.reset(agent)
    for agent in table.world.seats:
        table.answer(agent)
    return table


def test_a_step_waits_for_all_and_each_gets_its_own() -> None:
    log: list[Any] = []
    table = Table(meeting(log, a=3, b=3, c=3))
    assert [table.reset(agent) for agent in "ab"] == [None, None]
    assert table.reset("c")[1] == {"options": None}
    assert [table.answer(agent)[0].tolist() for agent in "ab"] == [[-1, -1, -1]] * 2
    assert table.step("b", 5) is table.step("a", 4) is None
    seen, reward, terminated, truncated, _ = table.step("c", 6)
    assert (seen.tolist(), reward, terminated, truncated) == (
        [4, 5, 6],
        6.0,
        False,
        False,
    )
    assert [table.answer(agent)[1] for agent in "ab"] == [4.0, 5.0]
    assert log == [None, {"a": 4, "b": 5, "c": 6}]


def test_a_reset_takes_the_seed_and_options_of_the_first_agent() -> None:
    log: list[Any] = []
    table = Table(meeting(log))
    assert table.reset("b", seed=7, map="b") is None
    assert table.reset("a", seed=3, map="a")[1] == {"options": {"map": "a"}}
    assert log == [3]


def test_an_agent_that_died_waits_in_its_next_reset() -> None:
    log: list[Any] = []
    table = begun(log, a=1, b=3)
    table.step("a", 1)
    assert table.step("b", 2)[2] is False
    assert table.answer("a")[1:4] == (1.0, True, False)
    assert table.reset("a", seed=5) is None
    assert [table.step("b", i)[2] for i in (3, 4)] == [False, True]
    assert table.answer("a") is None
    assert table.reset("b") is not None
    assert table.answer("a") is not None
    assert log == [None, {"a": 1, "b": 2}, {"b": 3}, {"b": 4}, 5]


def test_a_step_before_a_reset_or_after_the_end_needs_a_reset() -> None:
    table = Table(meeting([]))
    assert isinstance(table.step("a", 1), ResetNeeded)
    table = begun([], a=1, b=3)
    table.step("a", 1)
    table.step("b", 1)
    table.answer("a")
    assert isinstance(table.step("a", 1), ResetNeeded)


def test_an_action_outside_its_space_is_refused_with_its_agent() -> None:
    log: list[Any] = []
    table = begun(log)
    refused = table.step("a", 1_000_000)
    assert isinstance(refused, InvalidAction)
    assert "action of a is 1000000" in str(refused)
    # The space of b is larger.
    assert table.step("b", 1_000_000) is None
    assert table.step("a", 1)[1] == 1.0
    assert len(log) == 2


def test_an_error_names_those_that_did_not_act_in_time() -> None:
    table = begun([], a=3, b=3, c=3)
    table.step("a", 1)
    table.wait(PATIENCE - 1)
    assert table.answer("a") is None
    table.step("b", 1)
    table.wait(1)
    for agent in "ab":
        error = table.answer(agent)
        assert isinstance(error, TimeoutError)
        assert str(error) == (
            f"c did not act within 20 s: reset your environment ({agent}), or set a "
            "longer patience_s"
        )
    # The episode is over for all.
    late = table.step("c", 1)
    assert isinstance(late, ResetNeeded)
    assert "c did not act within 20 s" in str(late)
    for agent in "ab":
        assert table.reset(agent) is None
    assert table.reset("c") is not None


def test_an_error_says_that_nobody_holds_a_seat() -> None:
    table = Table(meeting([]), held=1)
    table.reset("a")
    table.wait(PATIENCE)
    error = table.answer("a")
    assert isinstance(error, TimeoutError)
    assert "b (nobody holds external/w.b)" in str(error)


def test_a_holder_that_left_is_awaited_and_the_next_one_begins_anew() -> None:
    log: list[Any] = []
    table = begun(log)
    table.step("a", 1)
    table.world.leave("b")
    table.wait(PATIENCE - 1)
    table.world.take("b", table.now)
    assert table.answer("a") is None
    assert table.reset("b") is None
    seen, reward, terminated, truncated, info = table.answer("a")
    assert (seen.tolist(), reward, terminated, truncated) == (
        [-1, -1],
        0.0,
        False,
        True,
    )
    assert info["cut"] == "b left the episode"
    assert table.reset("a", seed=2) is not None
    assert table.answer("b") is not None
    assert log == [None, 2]


def test_resets_in_the_middle_of_an_episode_begin_the_next_one() -> None:
    log: list[Any] = []
    table = begun(log)
    assert table.reset("b") is None
    # Its action is not taken.
    assert table.step("a", 1)[3] is True
    assert table.reset("a") is not None
    assert log == [None, None]


def test_an_exception_of_the_world_reaches_all_that_wait() -> None:
    table = begun([])
    table.step("b", 1)
    assert isinstance(table.step("a", 999_999), ArithmeticError)
    assert isinstance(table.answer("b"), ArithmeticError)
    assert isinstance(table.step("b", 1), ResetNeeded)
    assert table.reset("b") is None
    assert table.reset("a") is not None


def test_an_agent_that_has_no_seat_is_an_error() -> None:
    class Growing(Meeting):
        def step(self, actions: dict[Any, Any]) -> tuple[dict[Any, Any], ...]:
            results = super().step(actions)
            self.agents = [*self.agents, "c"]
            return results

    table = Table(Growing({"a": 9, "b": 9}, []))
    table.reset("a")
    table.reset("b")
    table.step("a", 1)
    error = table.step("b", 1)
    assert isinstance(error, ValueError)
    assert str(error) == "the agent c is not in possible_agents"
    assert isinstance(table.answer("a"), ValueError)


def always_nine(world: World, agent: Any) -> int:
    assert agent in world.agents
    assert world.observe(agent).shape == (2,)
    return 9


def test_absent_agents_are_played_at_once() -> None:
    log: list[Any] = []
    table = Table(meeting(log), always_nine, held=1)
    assert table.reset("a", seed=1) is not None
    assert table.step("a", 1)[0].tolist() == [1, 9]
    # A holder that comes now waits until the episode is over.
    table.world.take("b", table.now)
    assert table.reset("b") is None
    table.step("a", 2)
    assert table.step("a", 3)[0].tolist() == [3, 9]
    assert table.answer("b") is None
    assert table.reset("a") is not None
    assert table.answer("b") is not None
    assert table.step("a", 4) is None
    table.world.leave("b")
    assert table.answer("a")[0].tolist() == [4, 9]


def test_the_holder_of_an_absent_world_may_begin_anew_at_any_time() -> None:
    log: list[Any] = []
    table = Table(meeting(log), always_nine, held=1)
    table.reset("a", seed=1)
    table.step("a", 1)
    assert table.reset("a", seed=2) is not None
    assert log == [1, {"a": 1, "b": 9}, 2]


def test_a_silent_holder_is_replaced_and_gets_what_it_missed() -> None:
    log: list[Any] = []
    table = begun(log, always_nine)
    table.wait(5)
    table.step("a", 1)
    table.wait(PATIENCE - 6)
    assert table.answer("a") is None
    table.wait(1)
    assert table.answer("a")[0].tolist() == [1, 9]
    # It stays silent, and is not awaited again.
    assert table.step("a", 2)[0].tolist() == [2, 9]
    seen, reward, terminated, _, info = table.step("b", 7)
    assert (seen.tolist(), reward, terminated, info["missed"]) == (
        [2, 9],
        18.0,
        False,
        2,
    )
    assert table.step("a", 3) is None
    assert table.step("b", 8)[:3][1:] == (8.0, True)
    assert log[-1] == {"a": 3, "b": 8}


def test_a_silent_holder_learns_that_its_episode_has_ended() -> None:
    log: list[Any] = []
    table = begun(log, always_nine, a=2, b=2)
    table.wait(PATIENCE)
    for action in (1, 2):
        table.step("a", action)
    assert table.reset("a") is not None
    seen, reward, terminated, _, info = table.step("b", 7)
    assert (seen.tolist(), reward, terminated, info["missed"]) == (
        [2, 9],
        18.0,
        True,
        2,
    )
    # The next episode goes on without it.
    assert table.reset("b") is None
    assert table.step("a", 5)[0].tolist() == [5, 9]


def test_a_reset_does_not_wait_for_an_episode_that_nobody_plays() -> None:
    log: list[Any] = []
    table = begun(log, always_nine)
    table.wait(1)
    table.reset("a")
    table.wait(PATIENCE - 2)
    assert table.answer("a") is None
    table.wait(1)
    assert table.answer("a") is not None
    assert table.step("b", 1)[3] is True


def test_a_reset_does_not_wait_too_long_for_one_that_has_just_come() -> None:
    log: list[Any] = []
    table = Table(meeting(log), always_nine, held=1)
    table.world.take("b", table.now + 5)
    assert table.reset("a") is None
    table.wait(PATIENCE - 1)
    assert table.answer("a") is None
    table.wait(1)
    assert isinstance(table.answer("a"), tuple)


def test_what_a_holder_missed_does_not_reach_its_next_episode() -> None:
    log: list[Any] = []
    table = begun(log, always_nine, a=2, b=2)
    table.wait(PATIENCE)
    table.step("a", 1)
    table.reset("b")
    table.step("a", 2)
    table.reset("a")
    assert table.answer("b") is not None
    table.step("a", 3)
    assert table.step("b", 4)[1:] == (4.0, False, False, {})


def test_an_agent_that_the_world_forgets_has_died() -> None:
    table = Table(Meeting({"a": 1, "b": 2}, [], forgets=True))
    table.reset("a")
    table.reset("b")
    table.step("a", 1)
    assert table.step("b", 2)[2] is False
    seen, reward, terminated, _, _ = table.answer("a")
    assert (seen.tolist(), reward, terminated) == ([-1, -1], 0.0, True)


def test_an_episode_that_the_world_ends_without_flags_is_truncated() -> None:
    class Vanishing(Meeting):
        def step(self, actions: dict[Any, Any]) -> tuple[dict[Any, Any], ...]:
            results = super().step(actions)
            self.agents = []
            return results

    table = Table(Vanishing({"a": 9, "b": 9}, []))
    table.reset("a")
    table.reset("b")
    table.step("a", 1)
    assert table.step("b", 2)[1:4] == (2.0, False, False)
    seen, reward, _, truncated, info = table.step("b", 3)
    assert (seen.tolist(), reward, truncated) == ([1, 2], 0.0, True)
    assert info["cut"] == "the world has ended it"


def test_no_turn_waits_for_several_silent_holders_in_a_row() -> None:
    env = parallel_to_aec(meeting([], a=9, b=9, c=9))
    table = Table(env, lambda world, agent: 9)
    for agent in "abc":
        table.reset(agent)
    assert table.step("a", 1) is None
    table.wait(15)
    assert table.answer("b") is not None
    assert table.step("b", 1) is None
    table.wait(5)
    assert table.answer("a") is not None
    assert table.world.seats["c"].missed == 1


def test_a_reset_is_sent_again_while_others_play_on() -> None:
    table = begun([], a=1, b=100)
    table.step("a", 1)
    table.step("b", 1)
    table.reset("a")
    for _ in range(4):
        table.wait(6)
        table.step("b", 1)
    error = table.answer("a")
    assert isinstance(error, ExternalAway)
    words = "the episode goes on with b: reset your environment (a) again"
    assert str(error) == words


def test_an_error_of_a_reset_names_those_that_play_no_longer() -> None:
    table = begun([], a=1, b=100)
    table.step("a", 1)
    table.step("b", 1)
    table.reset("a")
    table.wait(PATIENCE)
    error = table.answer("a")
    assert isinstance(error, TimeoutError)
    words = "b did not act or reset within 20 s: reset your environment (a) again"
    assert str(error).startswith(words)


def test_turns_return_when_it_is_the_agents_turn_again() -> None:
    table = Table(connect_four())
    first, second = table.world.seats
    table.reset(second)
    assert table.reset(first)[0]["action_mask"].all()
    assert table.answer(second) is None
    for _ in range(3):
        assert table.step(first, 0) is None
        table.answer(second)
        assert table.step(second, 1) is None
        assert table.answer(first)[1:4] == (0.0, False, False)
    assert table.step(first, 0)[1:4] == (1.0, True, False)
    assert table.answer(second)[1:4] == (-1.0, True, False)


def test_the_first_turn_of_the_second_agent_may_come_never() -> None:
    table = Table(connect_four())
    first, second = table.world.seats
    table.reset(first)
    table.reset(second)
    table.wait(PATIENCE)
    error = table.answer(second)
    assert isinstance(error, TimeoutError)
    assert str(error).startswith("player_0 did not act")


def test_random_turns_keep_to_the_mask() -> None:
    table = Table(connect_four(), act_randomly, held=1)
    (first, _) = table.world.seats
    for seed in range(20):
        observation, _ = table.reset(first, seed=seed)
        over = False
        while not over:
            mask = observation["action_mask"]
            action = int(table.world.action_space(first).sample(mask))
            observation, reward, over, truncated, _ = table.step(first, action)
            assert not truncated
        assert reward in (-1, 0, 1)


def test_a_seed_repeats_what_absent_agents_do() -> None:
    log: list[Any] = []
    table = Table(meeting(log), act_randomly, held=1)
    for seed in (5, 6, 5):
        table.reset("a", seed=seed)
        table.step("a", 1)
        table.step("a", 2)
    assert log[:3] == log[6:] != log[3:6]
    assert log[1:3] != log[4:6]


@pytest.mark.parametrize(
    ("agents", "names"),
    [
        (["player_0", "player_1"], ["w.player_0", "w.player_1"]),
        ([0, 1], ["w.0", "w.1"]),
        ([("red", 0), "red/0"], ["w.__red___0_-0", "w.red_0-1"]),
        (["a b", "a/b"], ["w.a_b-0", "w.a_b-1"]),
        (["x" * 70, "y"], ["w." + "x" * 60 + "-0", "w.y-1"]),
    ],
)
def test_names_of_seats_are_valid_and_unique(
    agents: list[Any], names: list[str]
) -> None:
    found = seat_names("w", agents)
    assert list(found) == agents
    if ("red", 0) not in agents:
        assert list(found.values()) == names
    assert len(set(found.values())) == len(agents)
    assert all(len(name) <= 64 for name in found.values())
