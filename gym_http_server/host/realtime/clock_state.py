"""Whether a clock runs, and which calls its state permits."""

from __future__ import annotations

from gym_http_core.env_errors import env_error
from gym_http_wire.problems import Paused, Problem, ResetNeeded, WorldEnded

__all__ = ["ClockState"]

_NOT_RESET = "the clock has not begun, or the episode has ended: reset it first"
_FAILED = "the world raised an exception in its last tick and needs a reset first"


class ClockState:
    """The state of a clock and of its episodes.

    Args:
        episodes: How many episodes there may be; ``None``: any number.

    Attributes:
        phase: ``ready``, ``running``, ``done``, ``failed`` or ``ended``.
        paused: Whether the clock is paused, in any phase.
        episode: Number of the episode, from 1; 0 before the first.
    """

    def __init__(self, episodes: int | None) -> None:
        self.phase = "ready"
        self.paused = False
        self.episode = 0
        self._episodes = episodes
        self._why_paused = ""
        self._failure: Problem | None = None

    @property
    def name(self) -> str:
        """The phase, or ``paused``."""
        if self.paused and self.phase not in ("failed", "ended"):
            return "paused"
        return self.phase

    @property
    def runs(self) -> bool:
        """Whether time passes in the world."""
        return self.phase == "running" and not self.paused

    def run(self) -> None:
        """Begin to run, in an episode."""
        self.phase, self.paused, self._why_paused = "running", False, ""

    def pause(self, why: str = "") -> None:
        """Pause, for a reason if it was no request."""
        self.paused, self._why_paused = True, why

    def resume(self) -> None:
        """Go on."""
        self.paused, self._why_paused = False, ""

    def end_episode(self, *, world_ended: bool) -> bool:
        """End the episode; return whether there are no more."""
        used_up = self._episodes is not None and self.episode >= self._episodes
        last = used_up or world_ended
        self.phase = "ended" if last else "done"
        return last

    def fail(self, error: BaseException | None = None, call: str = "") -> None:
        """Stop, because the world raised an exception.

        Args:
            error: The exception, which the next call raises; ``None``: the present
                call raises it.
            call: The call of the world that raised it.
        """
        self.phase = "failed"
        if error is not None and not isinstance(error, Problem):
            error = env_error(call, error)
        self._failure = error

    def check_running(self) -> None:
        """Refuse a call that needs a clock that runs.

        Raises:
            Problem: The world raised an exception that no call has raised yet.
            WorldEnded: There are no more episodes.
            Paused: The clock is paused.
            ResetNeeded: There is no episode, or the world failed.
        """
        self.check_unpaused()
        if self.phase != "running":
            raise ResetNeeded(_NOT_RESET)

    def check_unpaused(self) -> None:
        """Refuse a call that is of no use while the clock is paused."""
        self.check_open()
        if self.paused:
            raise Paused(f"the clock is paused{self._why_paused}: resume or reset it")

    def check_begun(self) -> None:
        """Refuse a call that needs a first reset."""
        self.check_open()
        if self.phase == "ready":
            raise ResetNeeded(_NOT_RESET)

    def check_open(self) -> None:
        """Refuse a call after the world has failed or ended."""
        self.check_failure()
        if self.phase == "ended":
            raise self._world_ended()

    def check_failure(self) -> None:
        """Refuse a call after the world has failed."""
        self._raise_failure()
        if self.phase == "failed":
            raise ResetNeeded(_FAILED)

    def check_reset(self) -> None:
        """Refuse a reset if there are no more episodes."""
        self._raise_failure()
        used_up = self._episodes is not None and self.episode >= self._episodes
        if self.phase == "ended" or used_up:
            raise self._world_ended()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _world_ended(self) -> WorldEnded:
        return WorldEnded(
            f"the world has ended after {self.episode} episodes: create an instance "
            "for more"
        )
