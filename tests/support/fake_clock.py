"""A clock that only pauses advance, so that tests of long retries take no time."""

from gym_http_client.retries import Retries


class FakeClock:
    """A clock that advances by pauses alone, and records them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def sleep(self, pause: float) -> None:
        """Let time pass."""
        self.pauses.append(pause)
        self.now += pause

    def retries(self, total: float = 120.0) -> Retries:
        """Give retries by this clock, whose pauses are the longest that may be."""
        return Retries(
            total, clock=lambda: self.now, sleep=self.sleep, random=lambda: 1.0
        )
