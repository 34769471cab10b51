"""A poller: waits for events on descriptors, and calls their handlers.

`selectors` does this, too. But it makes keys, maps and views anew at every turn. A
process that forks should write to little of its memory, since each host then gets a
copy of the pages.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Protocol

__all__ = ["READ", "WRITE", "Handler", "Poller", "Source", "wait_writable"]

READ, WRITE = select.POLLIN, select.POLLOUT
# All other events end a connection; reading shows how.
_BOTH = READ | WRITE
_END = ~_BOTH

#: Called with the events: `READ`, `WRITE` or both.
Handler = Callable[[int], None]


class _HasDescriptor(Protocol):
    def fileno(self) -> int: ...


#: A descriptor, or an object with one.
Source = int | _HasDescriptor


class Poller:
    """Polls descriptors, and calls their handlers; each for reading at first.

    Args:
        many: Whether there may be thousands. A wait then costs the same however many
            there are, but a descriptor must be removed before it is closed, and forks
            of the process share what is polled: they must change nothing.

    Attributes:
        poll: Waits for events, at most so many milliseconds, and returns them.
    """

    def __init__(self, *, many: bool = False) -> None:
        self._poll: select.poll | select.epoll = select.poll()
        self.poll: Callable[[float | None], list[tuple[int, int]]] = self._poll.poll
        self._change: Callable[[int, int], None] = self._poll.register
        if many:
            # Its bits are those of `poll`.
            epoll = self._poll = select.epoll()
            self.poll = lambda ms: epoll.poll(None if ms is None else ms / 1000)
            self._change = epoll.modify
        self._handlers: dict[int, Handler] = {}
        self._wanted: dict[int, int] = {}

    def add(self, source: Source, handler: Handler) -> None:
        """Call the handler when a descriptor can be read, from now on.

        Args:
            source: The descriptor, which has no handler yet.
            handler: Called with its events.
        """
        descriptor = _descriptor(source)
        self._poll.register(descriptor, READ)
        self._handlers[descriptor] = handler
        self._wanted[descriptor] = READ

    def want(self, source: Source, events: int) -> None:
        """Change the events for which the handler of a descriptor is called.

        Args:
            source: The descriptor; one without a handler is ignored.
            events: `READ`, `WRITE`, both or 0.
        """
        descriptor = _descriptor(source)
        if self._wanted.get(descriptor, events) != events:
            self._wanted[descriptor] = events
            self._change(descriptor, events)

    def remove(self, source: Source) -> None:
        """Remove a descriptor, which may be closed unless there are many.

        One without a handler is ignored.
        """
        descriptor = _descriptor(source)
        if self._handlers.pop(descriptor, None) is not None:
            del self._wanted[descriptor]
            self._poll.unregister(descriptor)

    def serve(self, seconds: float | None) -> None:
        """Wait for events, at most so many seconds, and call their handlers."""
        self.handle(self.poll(None if seconds is None else seconds * 1000))

    def handle(
        self,
        happened: list[tuple[int, int]],
        between: Callable[[], None] | None = None,
    ) -> None:
        """Call the handlers of events that `poll` has returned.

        Args:
            happened: The events.
            between: Called after each handler, if there are several.
        """
        if len(happened) == 1:
            # Events mostly come one by one.
            descriptor, events = happened[0]
            if events & _END:
                events = (events | (self._wanted[descriptor] or READ)) & _BOTH
            self._handlers[descriptor](events)
        else:
            self._handle_several(happened, between)

    def _handle_several(
        self, happened: list[tuple[int, int]], between: Callable[[], None] | None
    ) -> None:
        handlers = self._handlers
        taken = [(handlers[each[0]], each) for each in happened]
        for handler, (descriptor, events) in taken:
            # An earlier handler may have removed this descriptor, or used it anew.
            if handlers.get(descriptor) is handler:
                if events & _END:
                    events |= self._wanted[descriptor] or READ
                handler(events & _BOTH)
                if between is not None:
                    between()


def wait_writable(source: Source, seconds: float) -> bool:
    """Wait until a descriptor can be written; return False if the time is over.

    Raises:
        ValueError: The source is closed.
    """
    poll = select.poll()
    poll.register(source, WRITE)
    return bool(poll.poll(seconds * 1000))


def _descriptor(source: Source) -> int:
    return source if isinstance(source, int) else source.fileno()
