"""Rewards of several channels, merged over updates and reduced to a number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gym_http_server.host.realtime.settings import RewardSettings

__all__ = ["Channels", "Rewards"]

Channels = list[float | None]
"""A number for each channel; ``None`` where a channel said nothing."""


class Rewards:
    """Reads, merges and reduces the rewards of a world.

    Args:
        settings: The settings about rewards.

    Attributes:
        holds: Whether a channel that says nothing counts with its last value.
        known: The last known value of each channel.
    """

    def __init__(self, settings: RewardSettings) -> None:
        self._names = settings.channels
        self._scalar = settings.scalar
        self._weights = None if isinstance(settings.scalar, str) else settings.scalar
        self._adds = settings.skipped == "sum"
        self.holds = settings.scalar == "hold"
        self.known: list[float] = []

    def read(self, given: Any) -> Any:
        """Return a world's rewards: a number, or a list of numbers and ``None``.

        Raises:
            ValueError: They do not have one value for each channel.
        """
        if type(given) is float and self._names is None:
            return given
        several = isinstance(given, list | tuple) or getattr(given, "ndim", 0) > 0
        if self._names is None and not several:
            return given
        values = given if isinstance(given, Sequence) else _listed(given)
        expected = self._names if self._names is not None else self._weights
        if expected is not None and len(values) != len(expected):
            raise ValueError(
                f"the world gave {len(values)} rewards: expected {len(expected)}, one "
                "for each channel"
            )
        channels = [
            None if each is None or math.isnan(each) else float(each) for each in values
        ]
        if self.holds:
            self._hold(channels)
        return channels

    def merge(self, older: Any, newer: Any) -> Any:
        """Return the rewards of two successive updates as those of one."""
        if older is None or not self._adds:
            return newer
        if not isinstance(newer, list):
            return older + newer
        return [
            new if old is None else old if new is None else old + new
            for old, new in zip(older, newer, strict=True)
        ]

    def reduce(self, rewards: Any, known: Sequence[float]) -> Any:
        """Return the rewards of one update as a number.

        Args:
            rewards: A number, which stays as it is, or the channels.
            known: The last known value of each channel at that time.
        """
        if not isinstance(rewards, list):
            return rewards
        if self._weights is not None:
            pairs = zip(self._weights, rewards, strict=True)
            return float(sum(weight * each for weight, each in pairs if each))
        if self._scalar == "hold":
            return float(
                sum(
                    last if each is None else each
                    for each, last in zip(rewards, known, strict=True)
                )
            )
        present = [each for each in rewards if each is not None]
        if not present:
            return 0.0
        total = float(sum(present))
        return total / len(present) if self._scalar == "mean" else total

    def _hold(self, channels: Channels) -> None:
        if len(self.known) != len(channels):
            self.known = [0.0] * len(channels)
        for index, each in enumerate(channels):
            if each is not None:
                self.known[index] = each


def _listed(given: Any) -> list[Any]:
    if hasattr(given, "tolist"):
        given = given.tolist()
    return given if isinstance(given, list) else [given]
