"""Heartbeats: whether a server that says nothing is still there."""

from __future__ import annotations

import time

from gym_http_client.serving.lines import LineLost

__all__ = ["Heartbeats"]


class Heartbeats:
    """Of one connection.

    Args:
        pause_s: Seconds of silence after which the server is pinged; after twice as
            many it is gone.
    """

    def __init__(self, pause_s: float) -> None:
        self._pause_s = pause_s
        self.begin()

    def begin(self) -> None:
        """Count anew: the server said something, or could not be heard until now."""
        self._since = time.monotonic()
        self._pinged = False

    def is_due(self) -> bool:
        """Whether it is time for a ping, which is then taken for sent.

        Raises:
            LineLost: The server did not answer to the last one.
        """
        silent = time.monotonic() - self._since
        if silent > 2 * self._pause_s:
            raise LineLost(f"the server has said nothing for {silent:.3g} s")
        if self._pinged or silent <= self._pause_s:
            return False
        self._pinged = True
        return True
