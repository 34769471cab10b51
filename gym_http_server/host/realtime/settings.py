"""The settings of a clock."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec

__all__ = [
    "ELASTIC",
    "FREE_RUNNING",
    "SECOND",
    "ActionLimits",
    "ClockSettings",
    "History",
    "RewardSettings",
]

ELASTIC = "elastic"
FREE_RUNNING = "free_running"
SECOND = 1_000_000_000


class History(msgspec.Struct, frozen=True):
    """The last actions, which an agent may need to see.

    Attributes:
        length: How many.
        in_observation: Whether they are appended to observations.
        reset: Whether a reset replaces all of them by the default action.
    """

    length: int = 1
    in_observation: bool = False
    reset: bool = True


class ActionLimits(msgspec.Struct, frozen=True, eq=False):
    """The limits between an agent's actions and those that the world gets; of a Box.

    Attributes:
        clips: Whether numbers beyond the bounds are replaced by the bound.
        rate: By how much an element may change in a second, for each of them; ``None``:
            by any amount.
        low: The bounds of the action space, as float64.
        high: The same.
        dtype: The dtype of actions.
    """

    clips: bool
    rate: Any
    low: Any
    high: Any
    dtype: Any

    def shown(self) -> dict[str, Any]:
        """Return the member ``limits``."""
        rate = None if self.rate is None else self.rate.tolist()
        return {"clip": self.clips, "rate": rate}


class RewardSettings(msgspec.Struct, frozen=True):
    """How rewards become a number.

    Attributes:
        channels: Names of the channels; ``None``: as the world has them.
        scalar: ``sum``, ``mean``, ``hold`` or weights, one for each channel.
        skipped: Whether merged updates are added (``sum``) or only the ``last`` counts.
    """

    channels: tuple[str, ...] | None = None
    scalar: str | tuple[float, ...] = "sum"
    skipped: str = "sum"


class ClockSettings(msgspec.Struct, frozen=True, eq=False):
    """The settings of a clock; times in ns.

    Attributes:
        period: Numerator and denominator of the period.
        capture_ns: From a time step's beginning to its capture; ``None``: a period.
        elasticity: How late a time step may begin, in periods.
        elastic_ns: The same in ns.
        default_action: The action that is safe.
        zero_action: The zero of the action space, if it has one.
        agent_timeout_ns: How long an agent may be silent; ``None``: for ever.
        strict_actions: Whether actions that are not in the action space are refused.
        limits: What is done to actions before the world gets them; ``None``: nothing.
    """

    mode: str
    period: tuple[int, int]
    default_action: Any
    zero_action: Any = None
    preset: str | None = None
    capture_ns: int | None = None
    elasticity: float = 1
    elastic_ns: int = 0
    no_action: str = "hold"
    reset_action: str = "default"
    history: History = History()
    on_overrun: str = "skip"
    most: int | None = None
    ticks_per_update: int = 1
    on_done: str = "wait"
    episodes: int | None = None
    agent_timeout_ns: int | None = None
    on_agent_lost: str = "default"
    rewards: RewardSettings = RewardSettings()
    buffer: int = 64
    spin_us: int = 0
    strict_actions: bool = True
    limits: ActionLimits | None = None

    def shown(self) -> dict[str, Any]:
        """Return all members with their values; null where the mode has none."""
        numerator, denominator = self.period
        period_s = numerator / denominator / SECOND
        elastic = self.mode == ELASTIC
        timeout = self.agent_timeout_ns
        capture_s = period_s if self.capture_ns is None else self.capture_ns / SECOND
        channels, scalar = self.rewards.channels, self.rewards.scalar
        return {
            "preset": self.preset,
            "mode": self.mode,
            "hz": float(Fraction(SECOND * denominator, numerator)),
            "period_s": period_s,
            "capture_s": capture_s if elastic else None,
            "elasticity": self.elasticity if elastic else None,
            "default_action": self.default_action,
            "no_action": None if elastic else self.no_action,
            "reset_action": self.reset_action,
            "history": msgspec.structs.asdict(self.history),
            "on_overrun": None if elastic else self.on_overrun,
            "most": None if elastic else self.most,
            "ticks_per_update": None if elastic else self.ticks_per_update,
            "on_done": self.on_done,
            "episodes": self.episodes,
            "agent_timeout_s": None if timeout is None else timeout / SECOND,
            "on_agent_lost": self.on_agent_lost,
            "rewards": {
                "channels": None if channels is None else list(channels),
                "scalar": scalar if isinstance(scalar, str) else list(scalar),
                "skipped": self.rewards.skipped,
            },
            "buffer": self.buffer,
            "spin_us": self.spin_us,
            "strict_actions": self.strict_actions,
            "limits": None if self.limits is None else self.limits.shown(),
        }
