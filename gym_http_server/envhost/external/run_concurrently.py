"""Together: several environments elsewhere are asked at once, in one thread.

Each is driven in a greenlet of its own, which gives way while its environment works;
so wrappers and everything else around it need not know.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import greenlet  # type: ignore[import-untyped]

from gym_http_server.envhost.external.calls import Awaited
from gym_http_server.envhost.external.connections import ExternalConnections

__all__ = ["Outcome", "run_concurrently"]


class Outcome(NamedTuple):
    """What came of one.

    Attributes:
        value: What it gave.
        error: What it raised instead.
    """

    value: Any
    error: Exception | None = None


def run_concurrently(
    outside: ExternalConnections, todo: Sequence[Callable[[], Any]]
) -> list[Outcome]:
    """Do several things at once, each of which waits for some far side.

    Returns:
        What came of each, in their order.
    """
    outcomes: list[Outcome] = [Outcome(None)] * len(todo)
    waiting: dict[Any, Awaited] = {}
    hub = greenlet.getcurrent()

    def run(index: int) -> None:
        try:
            outcomes[index] = Outcome(todo[index]())
        except Exception as error:
            outcomes[index] = Outcome(None, error)

    def pause(call: Awaited) -> None:
        hub.switch((greenlet.getcurrent(), call))

    def go_on(runner: Any, *args: Any) -> None:
        waiting.pop(runner, None)
        paused = runner.switch(*args)
        if paused is not None:
            waiting[paused[0]] = paused[1]

    before, outside.pause = outside.pause, pause
    try:
        for index in range(len(todo)):
            go_on(greenlet.greenlet(run), index)
        while waiting:
            first = min(call.deadline for call in waiting.values())
            outside.attend(max(0.0, first - time.monotonic()))
            now = time.monotonic()
            for runner, call in list(waiting.items()):
                if call.over or now >= call.deadline:
                    go_on(runner)
    finally:
        outside.pause = before
    return outcomes
