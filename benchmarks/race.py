"""A race: runs players on our server and on a rival alternately."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

from benchmarks.agents import OriginalAgent
from benchmarks.gauges import STEPS, Gauge
from benchmarks.measuring import Plan, in_turn, median
from benchmarks.pinning import Cores, Mode, places
from benchmarks.report import Row, row
from benchmarks.servers import Server, original_server, our_server
from gym_http_client.bench.agents import Agent
from gym_http_client.bench.players import Players, Round

__all__ = ["ORIGINAL", "Rival", "ServerMaker", "race"]

#: Runs a server on some cores.
ServerMaker = Callable[[Cores], AbstractContextManager[Server]]


class Rival(NamedTuple):
    """A program that our server is compared with.

    Attributes:
        name: Its name in rows.
        kind: Class of its agents.
        server: Runs its server on some cores.
    """

    name: str
    kind: type[Agent]
    server: ServerMaker


ORIGINAL = Rival("original", OriginalAgent, original_server)


def race(
    plan: Plan,
    name: str,
    mode: Mode,
    kind: type[Agent],
    count: int,
    rival: Rival = ORIGINAL,
    *,
    gauge: Gauge = STEPS,
    server: ServerMaker = our_server,
) -> list[Row]:
    """Compare our server with a rival, by the gauge and by the durations of steps.

    Args:
        plan: Number and length of rounds.
        name: Name of the rows.
        mode: Placement of the processes.
        kind: Class of the agents on our server.
        count: Number of processes that step at the same time, on either side.
        rival: The rival.
        gauge: Computes the figures.
        server: Runs our server.
    """
    placed = places(mode)
    if placed is None:
        plan.say(f"{name}, {mode}: left out, for want of a second core")
        return []
    plan.say(f"{name}, {mode}: starting")
    with (
        server(placed.servers) as ours,
        rival.server(placed.servers) as theirs,
        Players(kind, ours.url, count, placed.clients) as our_players,
        Players(rival.kind, theirs.url, count, placed.clients) as their_players,
    ):
        rounds = in_turn(
            plan,
            lambda: _reported(plan, "ours", gauge, our_players.play(plan.seconds)),
            lambda: _reported(
                plan, rival.name, gauge, their_players.play(plan.seconds)
            ),
        )
    return list(_rows(name, mode, rival.name, gauge, *rounds))


def _reported(plan: Plan, name_: str, gauge: Gauge, result: Round) -> Round:
    plan.say(f"  {name_:12} {gauge.figure(result):10.1f} {gauge.unit}")
    return result


def _rows(
    name: str,
    mode: Mode,
    baseline: str,
    gauge: Gauge,
    ours: list[Round],
    theirs: list[Round],
) -> Iterator[Row]:
    figures = [median([gauge.figure(each) for each in side]) for side in (ours, theirs)]
    yield row(name, mode, figures[0], gauge.unit, baseline, figures[1])
    for percent in (50, 99) if gauge.percentiles else ():
        times = [
            median([each.percentile(percent) for each in side]) * 1e6
            for side in (ours, theirs)
        ]
        yield row(f"{name}_p{percent}", mode, times[0], "us", baseline, times[1])
