"""A race: players on our server and players on the original, in turn."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.agents import Agent, OriginalAgent
from benchmarks.measuring import Plan, in_turn, median, percentile
from benchmarks.pinning import Mode, places
from benchmarks.players import Players, Round
from benchmarks.report import Row, row
from benchmarks.servers import original_server, our_server

__all__ = ["race"]

_BASELINE = "original"


def race(plan: Plan, name: str, mode: Mode, kind: type[Agent], count: int) -> list[Row]:
    """Compare the steps a second, and how long a step takes.

    Args:
        plan: How much is measured.
        name: Name of the rows.
        mode: Where the processes are.
        kind: What steps on our server.
        count: How many processes step at a time.
    """
    placed = places(mode)
    if placed is None:
        plan.say(f"{name}, {mode}: left out, for want of a second core")
        return []
    plan.say(f"{name}, {mode}: starting")
    with (
        our_server(placed.servers) as ours,
        original_server(placed.servers) as theirs,
        Players(kind, ours.url, count, placed.clients) as our_players,
        Players(OriginalAgent, theirs.url, count, placed.clients) as their_players,
    ):
        rounds = in_turn(
            plan,
            lambda: _told(plan, "ours", our_players.play(plan.seconds)),
            lambda: _told(plan, "original", their_players.play(plan.seconds)),
        )
    return list(_rows(name, mode, *rounds))


def _told(plan: Plan, who: str, result: Round) -> Round:
    plan.say(f"  {who:8} {result.rate:8.0f} steps/s")
    return result


def _rows(
    name: str, mode: Mode, ours: list[Round], theirs: list[Round]
) -> Iterator[Row]:
    rates = [median([each.rate for each in side]) for side in (ours, theirs)]
    yield row(name, mode, rates[0], "steps/s", _BASELINE, rates[1])
    for percent in (50, 99):
        times = [
            median([percentile(each.durations, percent) for each in side]) * 1e6
            for side in (ours, theirs)
        ]
        yield row(f"{name}_p{percent}", mode, times[0], "us", _BASELINE, times[1])
