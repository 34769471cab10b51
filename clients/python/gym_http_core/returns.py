"""Sums of rewards: a number, or one for each component, or one for each agent."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

__all__ = ["added", "plain_return", "summed"]


# A union would be made anew in each call.
_NUMBERS = (int, np.floating, np.integer)


def added(total: Any, reward: Any) -> Any:
    """Return a sum of rewards and one more reward.

    Args:
        total: The sum: a float; or float64, (k,), for rewards of k components; or a
            dict of sums, by agent.
        reward: A number, or numbers, or a dict of them.

    Returns:
        The new sum; NaN if the reward is no number, or has other components.
    """
    try:
        if isinstance(reward, _NUMBERS):
            # In a quarter of the time.
            return total + float(reward)
        if isinstance(reward, dict):
            # Something else than a sum of such rewards has no items.
            sums: Any = total.copy() if total else {}
            for agent, each in reward.items():
                sums[agent] = added(sums.get(agent, 0.0), each)
            return sums
        parts = np.asarray(reward, np.float64)
        return total + (parts.item() if parts.size == 1 else parts)
    except (Exception, SystemExit):
        # Arrays of other libraries may raise anything.
        return math.nan


def summed(rewards: Iterable[Any]) -> Any:
    """Return the sum of rewards, as `added` does."""
    total: Any = 0.0
    for reward in rewards:
        total = added(total, reward)
    return total


def plain_return(total: Any) -> Any:
    """Return a sum of rewards as JSON.

    Returns:
        A number, also for a single component; or a list of numbers, one for each
        component; or an object with one for each agent, whose keys are strings.
        ``None`` stands for what is not finite.
    """
    if type(total) is float:
        # Each end of an episode comes here.
        return _finite(total)
    if isinstance(total, dict):
        return {str(agent): plain_return(each) for agent, each in total.items()}
    try:
        parts = np.asarray(total, np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
    if parts.ndim > 1 or parts.size == 1:
        return _finite(parts.item()) if parts.size == 1 else None
    return [_finite(part) for part in parts.tolist()]


def _finite(number: float) -> float | None:
    # JSON has no other numbers.
    return number if math.isfinite(number) else None
