"""A timer descriptor, and the priority of a host that has to be in time."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import struct
import sys
from typing import Any

from gym_http_server.linux import prctl

__all__ = ["Timer", "allow_priority", "raise_priority"]

_CLOCK_MONOTONIC = 1
_TFD_NONBLOCK, _TFD_CLOEXEC = 0o4000, 0o2000000
_TFD_TIMER_ABSTIME = 1
_SECOND = 1_000_000_000
# What a descriptor yields that has rung once.
_ONCE = (1).to_bytes(8, sys.byteorder)
# Interval and time, each as seconds and nanoseconds.
_SPEC = struct.Struct("@qqqq")
_LIBC = ctypes.CDLL(None, use_errno=True)


class Timer:
    """A descriptor that is readable from a time on.

    ``poll`` counts whole milliseconds; this counts nanoseconds, since the timer slack
    of this thread is set to the least. Setting another time takes back that the last
    one has passed.
    """

    def __init__(self) -> None:
        prctl.set_timer_slack(1)
        flags = _TFD_NONBLOCK | _TFD_CLOEXEC
        self._descriptor = _checked(_LIBC.timerfd_create(_CLOCK_MONOTONIC, flags))
        self._spec = ctypes.create_string_buffer(_SPEC.size)
        self._at: int | None = None
        # After how many nanoseconds the kernel lets the timer ring again, by itself.
        self._every = 0

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def set(self, at_ns: int | None, every_ns: int = 0) -> None:
        """Set the time.

        Args:
            at_ns: In monotonic nanoseconds; ``None``: never.
            every_ns: By how much the next time is probably later: then the kernel
                repeats the timer, and setting that time is cheap.
        """
        last = self._at
        if at_ns == last:
            return
        self._at = at_ns
        if at_ns is not None and last is not None and at_ns - last == self._every:
            try:
                # Takes back that the last time has passed.
                if os.read(self._descriptor, 8) == _ONCE:
                    return
            except BlockingIOError:
                # It has not come yet.
                pass
        self._every = 0 if at_ns is None else every_ns
        # A time of 0 would stop the timer.
        seconds, rest = (0, 0) if at_ns is None else divmod(max(1, at_ns), _SECOND)
        _SPEC.pack_into(self._spec, 0, *divmod(self._every, _SECOND), seconds, rest)
        settime = _LIBC.timerfd_settime
        _checked(settime(self._descriptor, _TFD_TIMER_ABSTIME, self._spec, None))

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)


def allow_priority(priority: int) -> None:
    """Let this process take a real-time priority later, without further privileges."""
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_RTPRIO, (priority, priority))


def raise_priority(priority: int) -> dict[str, Any]:
    """Take a real-time priority, which processes that this one forks do not inherit.

    Args:
        priority: 1 to 99; 0 takes none.

    Returns:
        The policy and the priority, and why a priority was refused.
    """
    if not priority:
        return {"policy": "other", "priority": 0}
    try:
        policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, policy, os.sched_param(priority))
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, "error")
        return {"policy": "other", "priority": 0, "refused": f"{priority}: {name}"}
    finally:
        # Programs that the environment starts are not to take it.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))
    return {"policy": "fifo", "priority": priority}


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
