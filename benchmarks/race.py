"""A race: players on our server and players on what it is compared with, in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

from benchmarks.agents import OriginalAgent
from benchmarks.measuring import Plan, in_turn, median
from benchmarks.pinning import Cores, Mode, places
from benchmarks.report import Row, row
from benchmarks.servers import Server, original_server, our_server
from gym_http_client.bench.agents import Agent
from gym_http_client.bench.players import Players, Round

__all__ = ["ORIGINAL", "Rival", "race"]


class Rival(NamedTuple):
    """What ours is compared with.

    Attributes:
        name: What rows call it.
        kind: What steps there.
        server: Runs its server on some cores.
    """

    name: str
    kind: type[Agent]
    server: Callable[[Cores], AbstractContextManager[Server]]


ORIGINAL = Rival("original", OriginalAgent, original_server)


def race(
    plan: Plan,
    name: str,
    mode: Mode,
    kind: type[Agent],
    count: int,
    rival: Rival = ORIGINAL,
) -> list[Row]:
    """Compare the steps a second, and how long a step takes.

    Args:
        plan: How much is measured.
        name: Name of the rows.
        mode: Where the processes are.
        kind: What steps on our server.
        count: How many processes step at a time, on either side.
        rival: What our server is compared with.
    """
    placed = places(mode)
    if placed is None:
        plan.say(f"{name}, {mode}: left out, for want of a second core")
        return []
    plan.say(f"{name}, {mode}: starting")
    with (
        our_server(placed.servers) as ours,
        rival.server(placed.servers) as theirs,
        Players(kind, ours.url, count, placed.clients) as our_players,
        Players(rival.kind, theirs.url, count, placed.clients) as their_players,
    ):
        rounds = in_turn(
            plan,
            lambda: _told(plan, "ours", our_players.play(plan.seconds)),
            lambda: _told(plan, rival.name, their_players.play(plan.seconds)),
        )
    return list(_rows(name, mode, rival.name, *rounds))


def _told(plan: Plan, who: str, result: Round) -> Round:
    plan.say(f"  {who:12} {result.rate:8.0f} steps/s")
    return result


def _rows(
    name: str, mode: Mode, baseline: str, ours: list[Round], theirs: list[Round]
) -> Iterator[Row]:
    rates = [median([each.rate for each in side]) for side in (ours, theirs)]
    yield row(name, mode, rates[0], "steps/s", baseline, rates[1])
    for percent in (50, 99):
        times = [
            median([each.percentile(percent) for each in side]) * 1e6
            for side in (ours, theirs)
        ]
        yield row(f"{name}_p{percent}", mode, times[0], "us", baseline, times[1])
