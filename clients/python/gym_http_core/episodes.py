"""Episodes: what the steps of one gave, in columns."""

from __future__ import annotations

from typing import Any

from gym_http_core.columns import SIMPLE, Column, kept, packed

__all__ = ["Episode", "is_batch"]

Values = dict[str, Any]


class Episode:
    """What the steps of one episode, or of a part of it, gave.

    Args:
        with_reset: Whether observations and infos begin with those of the reset, and
            the actions are kept.
    """

    def __init__(self, *, with_reset: bool = False) -> None:
        self.length = 0
        self._with_reset = with_reset
        self._observations = Column()
        self._actions = Column()
        self._rewards: list[Any] = []
        self._terminated: list[Any] = []
        self._truncated: list[Any] = []
        self._infos: list[Any] = []

    def begin(self, observation: Any, info: Any) -> None:
        """Keep what the reset gave."""
        self._observations.append(observation)
        self._infos.append(kept(info))

    def add(self, action: Any, row: tuple[Any, Any, Any, Any, Any]) -> None:
        """Keep an action and what came of it."""
        observation, reward, terminated, truncated, info = row
        if self._with_reset:
            self._actions.append(action)
        self._observations.append(observation)
        simple = SIMPLE
        self._rewards.append(reward if type(reward) in simple else kept(reward))
        self._terminated.append(
            terminated if type(terminated) in simple else kept(terminated)
        )
        self._truncated.append(
            truncated if type(truncated) in simple else kept(truncated)
        )
        self._infos.append(kept(info))
        self.length += 1

    def values(self, count: int | None = None, *, exact: bool) -> Values:
        """Give the columns, of all steps or of the first ones.

        Args:
            count: Steps to tell of.
            exact: Say exactly what the environment gave; else numbers and flags are
                what thin clients expect.
        """
        count = self.length if count is None else count
        first = int(self._with_reset)
        told: Values = {
            "infos": self._infos[: count + first],
            "observations": self._observations.value(count + first),
            "rewards": self._rewards[:count],
            "terminated": self._terminated[:count],
            "truncated": self._truncated[:count],
        }
        if self._with_reset:
            told["actions"] = self._actions.value(count)
            told["length"] = count
            told["return"] = _sum(told["rewards"])
        return _packed(told) if exact else _suited(told)


def _packed(told: Values) -> Values:
    scalars = []
    for name in ("actions", "observations", "rewards", "terminated", "truncated"):
        if name in told:
            told[name], is_numpy = packed(told[name])
            scalars += [name] * is_numpy
    told["scalars"] = scalars
    return told


def _suited(told: Values) -> Values:
    terminated, truncated = told["terminated"], told["truncated"]
    terminated = told["terminated"] = [_as_flag(flag) for flag in terminated]
    truncated = told["truncated"] = [_as_flag(flag) for flag in truncated]
    told["done"] = [a | b for a, b in zip(terminated, truncated, strict=True)]
    told["rewards"] = [_as_float(reward) for reward in told["rewards"]]
    return told


def _as_flag(flag: Any) -> Any:
    return flag if type(flag) is bool or is_batch(flag) else bool(flag)


def _as_float(reward: Any) -> Any:
    # NumPy's floats are written as their own shortest decimals.
    dtype = getattr(reward, "dtype", None)
    if type(reward) is float or is_batch(reward) or getattr(dtype, "kind", "") == "f":
        return reward
    return float(reward)


def _sum(rewards: Any) -> float | None:
    try:
        return float(sum(map(float, rewards)))
    except (TypeError, ValueError):
        return None


def is_batch(value: Any) -> bool:
    """Whether it is of many environments that step as one."""
    return bool(getattr(value, "ndim", 0))
