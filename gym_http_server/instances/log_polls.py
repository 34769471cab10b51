"""Waits for output of instances: long polls of their logs.

One thread looks at the files of all logs that somebody waits for, so that many clients
that wait for one log cost one look.
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

#: Size of a file, and when it was written; ``None`` if it is gone.
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
            before: What `state_of` returned of it.
            deadline: Until when to wait, monotonic seconds.
            gone: Whether to wait no longer; called once a second.

        Returns:
            Whether it has changed.
        """
        while (state := state_of(path)) == before:
            awaited = self._join(path, state)
            try:
                while not awaited.changed.wait(_patience(deadline)):
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
        """Look at all logs until nobody waits."""
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
    """A log that somebody waits for.

    Attributes:
        before: What it was like when the first began to wait.
        polls: How many wait.
        changed: Set when it has changed.
    """

    before: State
    polls: int = 0
    changed: threading.Event = field(default_factory=threading.Event)


def _patience(deadline: float) -> float:
    return max(0.0, min(CLIENT_SECONDS, deadline - time.monotonic()))


def state_of(path: str) -> State:
    """Return what changes of a file when it is written."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
