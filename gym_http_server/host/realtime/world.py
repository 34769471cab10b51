"""The world that a clock drives: an environment, a device or a simulation."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

__all__ = ["Capture", "World"]


class Capture(NamedTuple):
    """An observation of the world, with its rewards and flags.

    Attributes:
        rewards: A number; or a list with a number for each channel, and ``None`` for
            channels that said nothing.
    """

    observation: Any
    rewards: Any
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class World(Protocol):
    """What a clock needs of a world.

    An exception of a world stops the clock, except `ExternalAway` and
    `ExternalDeadline`: their tick counts as skipped. A world may also have

    - ``wait()``: the clock was paused;
    - ``end(action)``: take the default action, the last one (else ``send`` gets it);
    - ``ended``: whether the last capture was the last of all.
    """

    def reset(
        self, seed: int | None, options: dict[str, Any] | None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; return observation and info."""

    def send(self, action: Any) -> None:
        """Hand an action over, without waiting for its effect."""

    def capture(self) -> Capture:
        """Observe. A simulated world advances here, under the last action sent."""
