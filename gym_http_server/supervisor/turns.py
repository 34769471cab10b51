"""Turns: which of the instances a round of checks looks at.

All of few. Of many, a part in each round, so that thousands of idle instances cost
little.
"""

from __future__ import annotations

from gym_http_server.supervisor.instance import Instance

__all__ = ["InstanceTurns"]


class InstanceTurns:
    """Takes instances in turn.

    Args:
        rounds: Rounds in which each of many has its turn.
        least: Instances in a round, at least.
    """

    def __init__(self, rounds: int, least: int) -> None:
        self._rounds = rounds
        self._least = least
        self._next = 0

    def take(self, instances: list[Instance]) -> list[Instance]:
        """Return those whose turn it is.

        Args:
            instances: All, always in the same order.
        """
        count = max(self._least, -(-len(instances) // self._rounds))
        if count >= len(instances):
            return instances
        # Those that have ended since shift the others: some wait for the next time.
        begin = self._next % len(instances)
        self._next = begin + count
        return (instances + instances[:count])[begin : begin + count]
