"""A clock that only pauses advance, so that tests of long retries take no time."""

from gym_http_client.http.retries import Retries


class FakeClock:
    """A clock that only pauses advance; it records them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def sleep(self, pause: float) -> None:
        """Advance the clock."""
        self.pauses.append(pause)
        self.now += pause

    def retries(self, total: float = 120.0) -> Retries:
        """Return retries on this clock with the longest pauses."""
        return Retries(
            total, clock=lambda: self.now, sleep=self.sleep, random=lambda: 1.0
        )
