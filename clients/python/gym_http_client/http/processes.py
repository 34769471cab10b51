"""Objects that forked processes must not share."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["PerProcess"]

_T = TypeVar("_T")


class PerProcess(Generic[_T]):
    """Creates a separate object in each process.

    Args:
        make: Creates the object.
        leave: Called in a forked process, with the object that it inherited.
    """

    def __init__(
        self, make: Callable[[], _T], leave: Callable[[_T], None] | None = None
    ) -> None:
        self._make = make
        self._leave = leave
        self._made: dict[int, _T] = {}

    def get(self) -> _T:
        """Return the object of this process."""
        process = os.getpid()
        made = self._made.get(process)
        return self._renew(process) if made is None else made

    def _renew(self, process: int) -> _T:
        # No lock: a fork may copy it while it is held. Single operations on a
        # dictionary are thread-safe without one.
        own = self._made.setdefault(process, self._make())
        for other in list(self._made):
            inherited = None if other == process else self._made.pop(other, None)
            if inherited is not None and self._leave is not None:
                self._leave(inherited)
        return own
