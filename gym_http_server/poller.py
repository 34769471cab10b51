"""What the supervisor waits for, and who takes it when it comes.

`selectors` does this, too. But its keys, maps and views are made anew at every turn,
and a process that forks had better write to little of its memory: each host keeps what
was there before.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Protocol

__all__ = ["READ", "WRITE", "Handler", "Poller", "Source"]

READ, WRITE = select.POLLIN, select.POLLOUT
# Whatever else may happen ends a connection: reading tells how.
_BOTH = READ | WRITE
_END = ~_BOTH

#: Takes what has happened: `READ`, `WRITE` or both.
Handler = Callable[[int], None]


class _HasDescriptor(Protocol):
    def fileno(self) -> int: ...


#: A descriptor, or what has one.
Source = int | _HasDescriptor


class Poller:
    """Polls descriptors, and calls their handlers; each for reading at first.

    Attributes:
        poll: Waits for events, at most so many milliseconds, and returns them.
    """

    def __init__(self) -> None:
        self._poll = select.poll()
        self.poll: Callable[[float | None], list[tuple[int, int]]] = self._poll.poll
        self._handlers: dict[int, Handler] = {}
        self._wanted: dict[int, int] = {}

    def add(self, source: Source, handler: Handler) -> None:
        """Watch a descriptor that is not watched yet."""
        descriptor = _descriptor(source)
        self._handlers[descriptor] = handler
        self._want(descriptor, READ)

    def want(self, source: Source, events: int) -> None:
        """Say what a descriptor, if it is watched, is to be watched for from now on."""
        descriptor = _descriptor(source)
        if self._wanted.get(descriptor, events) != events:
            self._want(descriptor, events)

    def remove(self, source: Source) -> None:
        """Watch a descriptor no more; it may have been closed, if nothing knew it."""
        descriptor = _descriptor(source)
        if self._handlers.pop(descriptor, None) is not None:
            del self._wanted[descriptor]
            self._poll.unregister(descriptor)

    def serve(self, seconds: float) -> None:
        """Wait for events, for so long at most, and call their handlers."""
        self.handle(self.poll(seconds * 1000))

    def handle(self, happened: list[tuple[int, int]]) -> None:
        """Call the handlers of events that `poll` has returned."""
        handlers = self._handlers
        taken = [(handlers[each[0]], each) for each in happened]
        for handler, (descriptor, events) in taken:
            # An earlier handler may have removed this descriptor, or used it anew.
            if handlers.get(descriptor) is handler:
                if events & _END:
                    events |= self._wanted[descriptor] or READ
                handler(events & _BOTH)

    def _want(self, descriptor: int, events: int) -> None:
        self._wanted[descriptor] = events
        self._poll.register(descriptor, events)


def _descriptor(source: Source) -> int:
    return source if isinstance(source, int) else source.fileno()
