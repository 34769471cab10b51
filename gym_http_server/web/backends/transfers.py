"""Transfers of large bodies between clients and files: threads and memory for them.

A web worker serves all its clients in one thread, which every access to a disk would
block. So files are opened, written, read and synced in gevent's pool of threads, by
pieces of 512 KiB. That is the memory that a transfer takes, whatever its size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import gevent  # type: ignore[import-untyped]

from gym_http_wire.problems import Problem

__all__ = ["PIECE", "BrokenOff", "Buffers", "Task", "buffers", "in_thread"]

#: Bytes that are read from a file, or written, at a time. They fit into the cache of a
#: processor.
PIECE = 512 * 1024
#: Buffers that are kept for later transfers.
MOST_FREE = 4

_T = TypeVar("_T")


class BrokenOff(ConnectionError):
    """Raised while a body is sent: the rest of it is lost."""


class Buffers:
    """Buffers for a piece each, which are used again.

    The kernel provides new memory page by page, which takes longer than the copies that
    are made in it.
    """

    def __init__(self) -> None:
        self._free: list[memoryview] = []

    def take(self) -> memoryview:
        """Return a buffer that nothing else uses."""
        return self._free.pop() if self._free else memoryview(bytearray(PIECE))

    def give_back(self, buffer: memoryview) -> None:
        """Keep a buffer for another transfer."""
        if len(self._free) < MOST_FREE:
            self._free.append(buffer)


#: Those of this web worker.
buffers = Buffers()


class Task(Generic[_T]):
    """A call in gevent's pool of threads; greenlets run meanwhile."""

    def __init__(self, call: Callable[..., _T], *arguments: Any) -> None:
        pool = gevent.get_hub().threadpool
        self._outcome = pool.spawn(_outcome, call, arguments)

    def wait(self) -> None:
        """Wait until the call has ended."""
        self._outcome.wait()

    def result(self) -> _T:
        """Wait until the call has ended, and return its result or raise its error."""
        try:
            result, error = self._outcome.get()
        except BaseException:
            # It may still use its arguments, such as a buffer or a descriptor.
            self.wait()
            raise
        if error is not None:
            raise error
        done: _T = result
        return done


def in_thread(call: Callable[..., _T], *arguments: Any) -> _T:
    """Call a function in gevent's pool of threads; other greenlets run meanwhile."""
    return Task(call, *arguments).result()


def _outcome(
    call: Callable[..., _T], arguments: tuple[Any, ...]
) -> tuple[_T | None, OSError | Problem | None]:
    # The pool would write what is raised to the server's log.
    try:
        return call(*arguments), None
    except (OSError, Problem) as error:
        return None, error
