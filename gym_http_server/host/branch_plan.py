"""Requests for branches: their members, and what they say to play."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gym_http_server.operations.instances import MAX_BRANCHES, MAX_STEPS
from gym_http_wire.problems import BadParameter, MissingParameter, Problem

__all__ = ["BranchPlan", "read_plan"]

Json = dict[str, Any]
ReadActions = Callable[[Any, str], list[Any]]

_OF_EPISODES = frozenset({"actions", "episodes", "max_steps", "options"})
_OF_DRAWN = frozenset({"count", "policy", "steps"})


class BranchPlan(NamedTuple):
    """What to play.

    Attributes:
        actions: Those of each branch; ``None`` where they are drawn.
        number: Number of branches.
        steps: Of each branch whose actions are drawn.
        seed: Of the drawn actions, and of the generators with ``reseed``.
        reseed: Whether the environment's generator differs in each branch.
        whole: Whether to return all observations, and not just the last one.
    """

    actions: list[list[Any]] | None
    number: int
    steps: int
    seed: int | None
    reseed: bool
    whole: bool


def read_plan(given: Json, read: ReadActions) -> BranchPlan:
    """Read a request for branches.

    Args:
        given: Its members, each of its kind.
        read: Checks and converts a list of actions, with its name for refusals.

    Raises:
        BadParameter: Members do not go together, or there are too many actions.
        MissingParameter: There are no actions, also in one of the lists.
        InvalidAction: An action is none; ``branch`` and ``index`` say which.
    """
    number, steps = given.get("count"), given.get("steps")
    way, others = ("count", _OF_EPISODES)
    if "branches" in given:
        way, others = "branches", _OF_EPISODES | _OF_DRAWN
    wrong = others.intersection(given)
    if wrong:
        raise BadParameter(
            f"expected either {way} or {min(wrong)}, and both were given"
        )
    actions = None
    if "branches" in given:
        actions = _lists_of(given["branches"], read)
        number = len(actions)
    elif number is None or steps is None:
        missing = "steps" if steps is None else "count"
        raise MissingParameter(missing if number or steps else "branches")
    elif number * steps > MAX_STEPS:
        raise BadParameter(
            f"{number} branches of {steps} steps have {number * steps}: expected "
            f"{MAX_STEPS} at most"
        )
    return BranchPlan(
        actions,
        number,
        steps or 0,
        given.get("seed"),
        reseed=given.get("reseed", False),
        whole=given.get("observations", False),
    )


def _lists_of(lists: Any, read: ReadActions) -> list[list[Any]]:
    if isinstance(lists, np.ndarray) and lists.ndim:
        lists = list(lists)
    if not isinstance(lists, list | tuple) or not 0 < len(lists) <= MAX_BRANCHES:
        raise BadParameter(
            f"branches is {lists!r:.80}: expected a list of 1 to {MAX_BRANCHES} lists "
            "of actions"
        )
    ready = []
    for branch, each in enumerate(lists):
        try:
            ready.append(read(each, f"branches[{branch}]"))
        except Problem as problem:
            problem.extras["branch"] = branch
            raise
    total = sum(map(len, ready))
    if total > MAX_STEPS:
        raise BadParameter(
            f"the branches have {total} actions: expected {MAX_STEPS} at most"
        )
    return ready
