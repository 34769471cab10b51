"""Shows the newest state of an instance to watchers, at a rate that costs little."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from gym_http_core.operations import Operations
from gym_http_server.host.show.pacing import Pacer, Turn
from gym_http_server.host.show.pictures import Picture, Pictures, View, to_jpeg
from gym_http_server.host.show.updates import State, shared_members, text_of
from gym_http_server.host.watcher import Watcher

__all__ = ["MAX_ENDED", "Showing"]

#: Episodes that ended since the last update, of which it has the newest.
MAX_ENDED = 20

_NEVER = 2**63
_SECOND = 1_000_000_000
_TOO_SLOW = "too-slow"


class _Seat:
    """What is kept for each watcher."""

    def __init__(self, pacer: Pacer, size: int, episodes: int) -> None:
        self.pacer = pacer
        self.size = size
        self.updates = 0
        # Number of the first episode that it has no news of.
        self.episodes = episodes


class Showing:
    """Sends updates to the watchers that requested the form ``show``.

    The host calls `attend` between requests. Updates of one moment share the picture.

    A watcher may name the session that steps the environment, as a page does on which
    a person plays. While for a second no other session has acted, such a watcher gets
    each state at once, and drawing has no limit: it slows down that session alone.

    Args:
        operations: The environment.
        most_share: Part of the host's time that drawing may take at most.
        away: Returns whether a part of the environment cannot be reached now.
        count_shown: Called with the nanoseconds that drawing a picture took.
        clock: Monotonic nanoseconds.

    Attributes:
        fresh: Whether a watcher may lack the newest state.
        next_ns: The earliest time of an update, if there is a new state by then.
    """

    def __init__(
        self,
        operations: Operations,
        most_share: float,
        away: Callable[[], bool],
        count_shown: Callable[[int], None],
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.fresh = False
        self.next_ns = 0
        self._wake_ns = _NEVER
        self._planned = -1
        # The newest state at the last call of `attend`.
        self._attended = -1
        self._operations = operations
        self._most_share = most_share
        self._away = away
        self._count_shown = count_shown
        self._log = operations.episode_log
        self._clock = clock
        self._seats: dict[Watcher, _Seat] = {}
        # Sessions that watchers have named, as far as they name one.
        self._sessions: frozenset[str] = frozenset()
        # The session that acted last, when it did, and until when another one counts.
        self._actor = ""
        self._acted_ns = -_SECOND
        self._others_ns = 0
        self._pictures = Pictures(operations)
        self._state: tuple[int | None, Any, Any] = None, None, None
        self._error: str | None = None
        self._number = 0
        # The view of the state that was drawn last, with pictures by their sizes.
        self._drawn = -1
        self._view = View([])
        self._files: dict[int, Picture] = {}

    def add(self, watcher: Watcher, latest: tuple[int, Any, Any] | None) -> None:
        """Add a watcher, which gets the last state at once.

        Args:
            watcher: The watcher.
            latest: Operation, value and request of that state, if there is one.
        """
        wanted = watcher.wanted
        if wanted is None:
            return
        if latest is not None:
            self._state = latest
        share = min(wanted.share, self._most_share)
        pacer = Pacer(wanted.fps, share)
        self._seats[watcher] = _Seat(pacer, wanted.size, self._log.total)
        self._sessions |= {watcher.session}
        self.fresh, self.next_ns, self._planned = True, 0, -1

    def remove(self, watcher: Watcher) -> bool:
        """Remove a watcher whose stream has ended; return whether others are left."""
        self._seats.pop(watcher, None)
        self._sessions = frozenset(each.session for each in self._seats)
        return bool(self._seats)

    def note_actor(self, session: str) -> None:
        """Note which session resets or steps the environment now; "": one without."""
        now_ns = self._clock()
        if session != self._actor:
            self._others_ns = self._acted_ns + _SECOND
            self._actor = session
        self._acted_ns = now_ns

    def note(self, op: int, value: Any, request: Any) -> None:
        """Note a new state of the environment."""
        self._state = op, value, request
        self._error = None
        self._number += 1
        self.fresh = True

    def note_problem(self, op: int, message: str) -> None:
        """Note that an operation failed."""
        self._state = op, None, None
        self._error = message[:1000]
        self._number += 1
        self.fresh = True

    def attend(self, until_ns: int | None = None) -> list[Watcher]:
        """Send the updates that are due.

        Args:
            until_ns: When the next tick is due; ``None``: there is none.

        Returns:
            The watchers that did not read all of their update at once.
        """
        if not self.fresh:
            return []
        ticked, self._attended = self._attended != self._number, self._number
        now_ns = self._clock()
        driven = self._actor in self._sessions and now_ns >= self._others_ns
        if now_ns < self.next_ns and not driven:
            return []
        why = self._why_no_picture(now_ns, until_ns)
        if why == _TOO_SLOW and not ticked:
            # After the next tick there is more time to draw.
            self._wake_ns, self._planned = _NEVER, self._number
            return []
        draws = why is None
        players = self._players() if driven else frozenset()
        turns: dict[Watcher, Turn] = {}
        for watcher, seat in self._seats.items():
            turn = seat.pacer.choose(
                now_ns, self._number, draws=draws, at_once=watcher in players
            )
            if turn is Turn.NOTHING:
                continue
            if watcher.unsent:
                # It gets a newer state once it reads.
                seat.pacer.postpone(now_ns)
            else:
                turns[watcher] = turn
        if turns:
            self._send(turns, why, now_ns, driven=driven)
        self._set_next(draws, players)
        return [watcher for watcher in turns if watcher.unsent]

    def wait_ms(self) -> float | None:
        """Return the milliseconds until `attend` has to be called; ``None``: any."""
        wake_ns = self.wake_ns
        if wake_ns is None:
            return None
        return max(0.0, (wake_ns - self._clock()) / 1e6)

    @property
    def wake_ns(self) -> int | None:
        """When `attend` has to be called next; ``None``: never."""
        if not self.fresh:
            return None
        wake_ns = self._wake_ns if self._planned == self._number else self.next_ns
        return None if wake_ns == _NEVER else wake_ns

    def _why_no_picture(self, now_ns: int, until_ns: int | None) -> str | None:
        if self._state[0] is None:
            return "not-reset"
        if self._away():
            return "external-away"
        why = self._pictures.impossible
        if why is None and not self._fits(now_ns, until_ns):
            return _TOO_SLOW
        return why

    def _fits(self, now_ns: int, until_ns: int | None) -> bool:
        """Whether a picture can be drawn before the next tick."""
        return True

    def _note_time(self, took_ns: int) -> None:
        """Note how long drawing took."""
        if self._view.images:
            self._count_shown(took_ns)

    def _players(self) -> frozenset[Watcher]:
        """Return the watchers of the session that acts, if they read what they get."""
        return frozenset(
            each
            for each in self._seats
            if each.session == self._actor and not each.unsent
        )

    def _send(
        self,
        turns: dict[Watcher, Turn],
        why: str | None,
        now_ns: int,
        *,
        driven: bool,
    ) -> None:
        best = max(turns.values())
        if best is Turn.PICTURE and self._drawn != self._number:
            self._view = self._pictures.view(self._observation())
            self._drawn = self._number
            self._files.clear()
        shared = shared_members(self._shown_state(), self._operations)
        for watcher, turn in turns.items():
            seat = self._seats[watcher]
            seat.pacer.sent(now_ns, self._number, turn)
            seat.updates += 1
            if turn is Turn.PICTURE:
                picture, view = self._file(seat.size), self._view
            else:
                picture, view = None, View([], why=why or _TOO_SLOW)
            wait_ns = None if why else max(0, seat.pacer.picture_ns - now_ns)
            text = text_of(
                shared,
                seat.updates,
                view,
                picture,
                wait_ns if turn is Turn.TEXT else None,
                self._log.since(seat.episodes, MAX_ENDED),
            )
            seat.episodes = self._log.total
            watcher.send_update(text, None if picture is None else picture.data)
        ended_ns = self._clock()
        if best is Turn.PICTURE:
            self._note_time(ended_ns - now_ns)
        if not driven:
            for seat in self._seats.values():
                seat.pacer.spent(now_ns, ended_ns, best)

    def _file(self, size: int) -> Picture | None:
        """Return the picture in a size, or ``None`` if there is none."""
        if not self._view.images:
            return None
        picture = self._files.get(size)
        if picture is None:
            try:
                picture = self._files[size] = to_jpeg(self._view.images, size)
            except Exception as error:
                # No picture of an environment may end its host.
                self._view = View([], why="render-failed", error=f"{error}"[:500])
        return picture

    def _shown_state(self) -> State:
        return State(*self._state, error=self._error)

    def _observation(self) -> Any:
        value = self._shown_state().value
        return value.get("observation") if isinstance(value, dict) else None

    def _set_next(self, draws: bool, players: frozenset[Watcher]) -> None:
        """Set when `attend` is needed, without and with a new state."""
        due = (
            seat.pacer.due_ns(self._number, draws=draws, at_once=watcher in players)
            for watcher, seat in self._seats.items()
        )
        lacking = [due_ns for due_ns in due if due_ns is not None]
        self.fresh = bool(lacking)
        self._wake_ns = min(lacking, default=_NEVER)
        self._planned = self._number
        ready = (seat.pacer.ready_ns for seat in self._seats.values())
        self.next_ns = min(ready, default=_NEVER)
