"""Waits for output of instances: long polls of their logs.

One thread checks the files of all logs that requests wait for, so that many clients
that wait for one log cost one check.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["LogPolls", "state_of"]

#: Seconds between two looks at a log.
LOOK_SECONDS = 0.1
#: Seconds between two looks at the connection of a client that waits.
CLIENT_SECONDS = 1.0

#: Size of a file, and when it was written; ``None`` if it does not exist.
State = tuple[int, int] | None


class LogPolls:
    """The long polls of a web worker."""

    def __init__(self) -> None:
        self._awaited: dict[str, _Awaited] = {}
        self._lock = threading.Lock()
        self._looks = False

    def wait(
        self, path: str, before: State, deadline: float, gone: Callable[[], bool]
    ) -> bool:
        """Wait until a log changes.

        Args:
            path: The log.
            before: The earlier result of `state_of`.
            deadline: Until when to wait, monotonic seconds.
            gone: Returns whether to end the wait; called once a second.

        Returns:
            Whether it has changed.
        """
        while (state := state_of(path)) == before:
            awaited = self._join(path, state)
            try:
                while not awaited.changed.wait(_remaining(deadline)):
                    if time.monotonic() >= deadline or gone():
                        return False
            finally:
                self._leave(path, awaited)
        return True

    def _join(self, path: str, state: State) -> _Awaited:
        with self._lock:
            awaited = self._awaited.setdefault(path, _Awaited(state))
            awaited.polls += 1
            looks, self._looks = self._looks, True
        if not looks:
            # Without the lock, since a start waits for the thread.
            threading.Thread(target=self._look, daemon=True).start()
        return awaited

    def _leave(self, path: str, awaited: _Awaited) -> None:
        with self._lock:
            awaited.polls -= 1
            if not awaited.polls and self._awaited.get(path) is awaited:
                del self._awaited[path]

    def _look(self) -> None:
        """Check all logs until no request waits."""
        while True:
            time.sleep(LOOK_SECONDS)
            with self._lock:
                for path, awaited in list(self._awaited.items()):
                    if state_of(path) != awaited.before:
                        del self._awaited[path]
                        awaited.changed.set()
                if not self._awaited:
                    self._looks = False
                    return


@dataclass(eq=False)
class _Awaited:
    """A log that requests wait for.

    Attributes:
        before: Its state when the first request began to wait.
        polls: Number of waiting requests.
        changed: Set when it has changed.
    """

    before: State
    polls: int = 0
    changed: threading.Event = field(default_factory=threading.Event)


def _remaining(deadline: float) -> float:
    return max(0.0, min(CLIENT_SECONDS, deadline - time.monotonic()))


def state_of(path: str) -> State:
    """Return the properties of a file that change when it is written."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
