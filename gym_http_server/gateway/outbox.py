"""Posts: where what is said to one peer goes out."""

from __future__ import annotations

import time
from collections import deque

from gym_http_server.gateway.router import Came, Router, Unreachable

__all__ = ["Outbox"]


class Outbox:
    """One peer's.

    Args:
        router: Takes it.
        came: The peer's first message.
        troubled: Those whose peers take nothing, or are gone; this one, too, then.

    Attributes:
        identity: Of the peer.
        descriptor: Of the peer's connection.
        asking: Whether the peer is a REQ.
        full_since: Monotonic seconds; 0 while everything goes out at once.
        lost: Whether the peer turned out to be gone.
    """

    def __init__(self, router: Router, came: Came, troubled: set[Outbox]) -> None:
        self.identity = came.identity
        self.descriptor = came.descriptor
        self.asking = came.asking
        self.full_since = 0.0
        self.lost = False
        self._router = router
        self._troubled = troubled
        self._waiting: deque[bytes] = deque()

    def say(self, payload: bytes) -> None:
        """Send a message, or keep it until the peer takes it."""
        self._waiting.append(payload)
        if not self.full_since:
            self.flush()

    def flush(self) -> None:
        """Send what waits, as far as the peer takes it."""
        waiting, taken = self._waiting, False
        try:
            while waiting and self._router.send(
                self.identity, waiting[0], asking=self.asking
            ):
                waiting.popleft()
                taken = True
        except Unreachable:
            self.lost = True
            waiting.clear()
        if not waiting:
            self.full_since = 0.0
        elif taken or not self.full_since:
            self.full_since = time.monotonic()
        if self.full_since or self.lost:
            self._troubled.add(self)
        else:
            self._troubled.discard(self)
