"""What the supervisor says every time that a host comes or goes.

Everything else, which is rare, it says by `logging`. That makes a record, a formatter's
turn and a handler's of each line, and so writes to 150 KiB of the memory that the
supervisor shares with its hosts: each of them would have these pages to itself.
"""

from __future__ import annotations

import time

from gym_http_server.log_stream import STDERR

__all__ = ["NAME", "note"]

#: Whose words these are, in the log.
NAME = "gym_http_server.supervisor"


def note(words: str) -> None:
    """Write a line to the log, as `logging` would."""
    now = time.time()
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    line = f"{when},{int(now % 1 * 1000):03} {NAME}: {words}\n"
    STDERR.write_lines(line.encode(errors="backslashreplace"))
