"""Whatever agents do, and however late: counts are conserved and no reward is lost."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gym_http_wire.problems import BadParameter, InvalidAction, Problem
from tests.support.realtime import MS, Run

numbers = st.integers(0, 9).map(float)
acts = st.fixed_dictionaries(
    {},
    optional={
        "priority": st.integers(-1, 2),
        "valid_s": st.sampled_from([0.005, 0.02, 0.1]),
        "sequence": st.integers(1, 12),
        "session": st.sampled_from(["a", "b"]),
    },
)
single = st.builds(lambda act, value: act | {"action": [value]}, acts, numbers)
chunk = st.builds(
    lambda act, values, more: act | {"actions": [[each] for each in values]} | more,
    acts,
    st.lists(numbers, min_size=1, max_size=12),
    st.fixed_dictionaries(
        {}, optional={"at": st.integers(0, 60), "blend": st.sampled_from([0, 0.5, 1])}
    ),
)
bad = st.sampled_from(
    [{"action": "x"}, {"actions": [[1], 3]}, {"action": [1], "at": 1}]
)
calls = st.lists(
    st.one_of(
        st.tuples(st.just("step"), st.sampled_from(["", "a"])),
        st.tuples(st.just("act"), single | chunk | bad | st.just({})),
        st.tuples(st.just("sleep"), st.integers(0, 80)),
        st.tuples(st.sampled_from(["reset", "pause", "resume"]), st.none()),
    ),
    max_size=40,
)
works = st.lists(st.integers(0, 25), max_size=30)
channels = st.lists(st.none() | numbers, min_size=2, max_size=2)
rewards = st.lists(channels, max_size=60)
common = st.fixed_dictionaries(
    {},
    optional={
        "agent_timeout_s": st.sampled_from([0.03, 0.2]),
        "on_agent_lost": st.sampled_from(["default", "hold", "pause"]),
    },
)
free = st.fixed_dictionaries(
    {"mode": st.just("free_running")},
    optional={
        "no_action": st.sampled_from(["hold", "default", "zero"]),
        "on_overrun": st.sampled_from(["skip", "catch_up", "shift"]),
        "on_done": st.sampled_from(["wait", "reset"]),
        "ticks_per_update": st.integers(1, 3),
        "buffer": st.sampled_from([2, 64]),
    },
)
elastic = st.fixed_dictionaries(
    {"mode": st.just("elastic")},
    optional={
        "capture_s": st.sampled_from([0, 0.004, 0.013]),
        "elasticity": st.sampled_from([0, 0.5, 2]),
    },
)


def play(
    given: Any, script: Any, busy: list[int], paid: Any, length: int | None
) -> tuple[Run, dict[str, list[Any]]]:
    """Do what a script says; return the rewards that each caller received."""
    run = Run({"period_s": 0.01, "default_action": [-1]} | given)
    run.world.durations["capture"] = iter([each * MS for each in busy])
    run.world.rewards = iter(paid)
    run.world.episode_length = length
    received: dict[str, list[Any]] = {}
    # From here on, each caller has an account of its own.
    for caller in ("", "a"):
        run.mode.arrive(caller)
    for name, detail in [("reset", None), *script]:
        try:
            if name == "step":
                result = run.step(3, detail)
                received.setdefault(detail, []).append(result.rewards)
            elif name == "act":
                run.act("", **detail)
            elif name == "sleep":
                run.sleep(detail * MS)
            elif name == "reset":
                run.reset()
            else:
                getattr(run.mode, name)()
        except (Problem, BadParameter, InvalidAction):
            continue
        check_counts(run)
    return run, received


def check_counts(run: Run) -> None:
    statistics = run.mode.statistics()
    counts = dict(statistics["actions"])
    assert counts.pop("received") == sum(counts.values())
    assert all(each >= 0 for each in counts.values())
    if run.settings.mode == "free_running":
        assert statistics["ticks"] + statistics["skipped"] == run.mode._tick_number
    assert statistics["ticks"] == run.world.captures


def total(rewards: list[Any]) -> list[float]:
    """Add lists of two channels; null counts as 0."""
    return [sum(each[index] or 0 for each in rewards if each) for index in range(2)]


@settings(deadline=None, max_examples=120)
@given(st.one_of(free, elastic), common, calls, works, rewards, st.integers(1, 9))
def test_counts_are_conserved(
    mode: Any, more: Any, script: Any, busy: Any, paid: Any, length: int
) -> None:
    run, _ = play(mode | more, script, busy, paid + [[1.0, None]] * 999, length)
    check_counts(run)
    # Ticks never go back, and never share a period.
    ticks = [event.value["realtime"]["tick"] for event in run.events]
    assert ticks == sorted(ticks)
    numbers = [event.value["realtime"]["update"] for event in run.events]
    assert numbers == list(range(1, len(numbers) + 1))


@settings(deadline=None, max_examples=80)
@given(free, st.lists(st.sampled_from(["", "a", "nap"]), max_size=40), works, rewards)
def test_steps_lose_no_reward(
    mode: Any, order: list[str], busy: list[int], paid: Any
) -> None:
    """Merged rewards equal the sum of those of the ticks, for each caller."""
    script = [("sleep", 35) if each == "nap" else ("step", each) for each in order]
    every = paid + [[1.0, None]] * 9999
    run, received = play(mode | {"on_done": "wait"}, script, busy, every, length=None)
    for caller, answers in received.items():
        account = run.mode._callers[caller]
        pending = [] if account.pending is None else [account.pending.rewards]
        ticks = run.world.captures - run.mode._gathered_ticks  # type: ignore[attr-defined]
        assert total(answers + pending) == total(every[:ticks])


@settings(deadline=None, max_examples=60)
@given(rewards, st.lists(st.integers(0, 6), max_size=12))
def test_merged_updates_have_the_rewards_of_all(paid: Any, reads: list[int]) -> None:
    run = Run({"mode": "free_running", "period_s": 0.01})
    every = paid + [[1.0, None]] * 999
    run.world.rewards = iter(every)
    run.reset()
    run.mode.updates(0, "latest")
    after, read = 1, []
    for ticks in reads:
        run.sleep(ticks * 10 * MS)
        answer = run.mode.updates(after, "latest")
        if answer is not None:
            (update,) = answer["updates"]
            after = update["realtime"]["update"]
            read.append(update["rewards"])
            assert update["reward"] == sum(each or 0 for each in read[-1])
    assert total(read) == total(every[: run.world.captures])
