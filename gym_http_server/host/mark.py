"""The mark of an instance, which every process that its host starts inherits.

The mark is the instance ID, stored in the limit on realtime CPU time (RLIMIT_RTTIME). A
limit survives fork, exec, setsid and a cleared environment, and every user can read it
in /proc. The value is so large, 2**62 microseconds or a fraction of that, that no
process ever reaches it.

A process can lower its own limits, and so remove the mark on purpose.
"""

from __future__ import annotations

import contextlib
import resource

__all__ = ["DRAWING", "SPARE", "read_mark", "set_mark"]

#: The mark of a spare host; no instance has this ID. It is the highest: a process that
#: has another mark cannot get this one, since it cannot raise its limits.
SPARE = "ffffffff"
#: The mark of a process that draws a thumbnail; no instance has this ID, either.
DRAWING = "fffffffe"

_HIGHEST = 1 << 62
_ID_BITS = 32
_ID_MASK = (1 << _ID_BITS) - 1
_LIMIT = b"Max realtime timeout"


def set_mark(instance_id: str) -> bool:
    """Mark this process, and those that it will start, as belonging to an instance.

    Args:
        instance_id: 8 hex digits.

    Returns:
        Whether the system allowed it.
    """
    value = _base() | int(instance_id, 16)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_RTTIME, (value, value))
        return True
    return False


def read_mark(pid: int) -> str:
    """Return the instance ID that a process is marked with; "" if it has no mark.

    The caller must be unmarked, and the parent of the hosts that set the marks.
    """
    try:
        with open(f"/proc/{pid}/limits", "rb") as file:
            for line in file:
                if line.startswith(_LIMIT):
                    hard = line.split()[-2]
                    value = int(hard) if hard.isdigit() else 0
                    if value & ~_ID_MASK == _base():
                        return f"{value & _ID_MASK:08x}"
    except OSError:
        pass
    return ""


def _base() -> int:
    """Return the highest bit such that every ID fits below this process's limit.

    A server that runs inside an instance of another server already has a marked limit,
    which it cannot raise, so its marks are lower by one bit.
    """
    hard = resource.getrlimit(resource.RLIMIT_RTTIME)[1]
    base = _HIGHEST
    while hard != resource.RLIM_INFINITY and base | _ID_MASK > hard and base > _ID_MASK:
        base >>= 1
    return base
