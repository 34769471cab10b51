"""Lines of the server's log: their form, their levels, and a limit on their rate.

A line has time with zone, level, logger and message, and the ID of the request that it
is about, as text or as a JSON object. All processes of the server write to standard
error (`log_stream`).
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

import msgspec

from gym_http_server.config.settings import Settings
from gym_http_server.processes import log_stream

__all__ = [
    "ACCESS",
    "SUPERVISOR",
    "Allowance",
    "LimitedLog",
    "access",
    "configure",
    "set_level",
    "write",
]

#: Name of the logger of requests and streams; --log-level does not filter its lines.
ACCESS = "gym_http_server.access"
SUPERVISOR = "gym_http_server.supervisor"
BURST = 20
SECONDS_PER_ENTRY = 3.0
# So that no caller and no environment can forge a line, or move a terminal's cursor.
# Nor change the order in which it shows text.
_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)

_json = False


def configure(settings: Settings) -> None:
    """Log to standard error from now on, in this process and its forks."""
    global _json
    _json = settings.log_format == "json"
    handler = logging.StreamHandler(log_stream.install())
    handler.setFormatter(_Formatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger(ACCESS).setLevel(logging.INFO)
    set_level(settings.log_level)


def set_level(level: str) -> None:
    """Log lines of this level and above from now on, in this process and its forks."""
    logging.getLogger("gym_http_server").setLevel(level.upper())
    # At level info it logs only the start of each worker, which operators do not need.
    gunicorns = "WARNING" if level == "info" else level.upper()
    logging.getLogger("gunicorn.error").setLevel(gunicorns)


def write(
    level: int,
    name: str,
    message: str,
    request_id: str = "",
    fields: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Write a line as a logger would, in less memory.

    `logging` makes a record, and runs a formatter and a handler. That writes to 150 KiB
    of the memory that the supervisor shares with its hosts, so each host would get
    copies of these pages. Lines for each instance are written this way.
    """
    if logging.getLogger(name).isEnabledFor(level):
        line = _line(time.time(), level, name, message, request_id, "", fields)
        log_stream.STDERR.write_lines(
            f"{line}\n".encode(errors=log_stream.STDERR.errors)
        )


def access(
    *,
    peer: str,
    method: str,
    path: str,
    status: int,
    request_id: str,
    trace_id: str = "",
    token: str = "",
    size: int = 0,
    ms: float = 0.0,
) -> None:
    """Log an HTTP request.

    Args:
        peer: The client's address.
        method: The method, like ``GET``.
        path: Without the query, which may contain a ticket.
        status: Status of its answer.
        request_id: Its ID.
        trace_id: The trace that it is part of, or "".
        token: Name of its token, or "".
        size: Bytes of the answer's body.
        ms: Milliseconds from the whole head to the whole answer.
    """
    fields = {"peer": peer, "method": method, "path": path, "status": status}
    fields |= {"bytes": size, "ms": round(ms, 3)} | ({"token": token} if token else {})
    fields |= {"trace_id": trace_id} if trace_id else {}
    logging.getLogger(ACCESS).info(
        "%s %s%.20s %.500s %s, %s bytes, %.3f ms%s",
        peer,
        f"{token} " if token else "",
        method,
        path,
        status,
        size,
        ms,
        f", trace {trace_id}" if trace_id else "",
        extra={"request_id": request_id, "fields": fields},
    )


class Allowance:
    """A rate limit: so many entries at once, and then one in so many seconds.

    Args:
        clock: Monotonic seconds.
        burst: Entries at once.
        seconds_per_entry: Seconds for each further one.

    Attributes:
        dropped: Number of entries refused since the last accepted one.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        burst: int = BURST,
        seconds_per_entry: float = SECONDS_PER_ENTRY,
    ) -> None:
        self._clock = clock
        self._burst = burst
        self._seconds_per_entry = seconds_per_entry
        self._left = float(burst)
        self._at = clock()
        self.dropped = 0

    def take(self) -> bool:
        """Whether another entry may be written; it is counted either way."""
        now = self._clock()
        gained = (now - self._at) / self._seconds_per_entry
        self._left = min(self._burst, self._left + gained)
        self._at = now
        if self._left < 1:
            self.dropped += 1
            return False
        self._left -= 1
        return True


class LimitedLog:
    """Logs at most one line a second; the next line has the number of the others.

    Args:
        log: The logger.
        clock: Returns seconds.
    """

    def __init__(
        self, log: logging.Logger, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._allowance = Allowance(clock, burst=1, seconds_per_entry=1.0)

    def warning(self, message: str, *, request_id: str = "") -> None:
        """Log a whole line, which is not a format, or count it."""
        if not self._allowance.take():
            return
        dropped, self._allowance.dropped = self._allowance.dropped, 0
        more = f", after {dropped} others" if dropped else ""
        self._log.warning("%s%s", message, more, extra={"request_id": request_id})


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        return _line(
            record.created,
            record.levelno,
            record.name,
            record.getMessage(),
            getattr(record, "request_id", ""),
            trace or record.exc_text or str(getattr(record, "trace", "")),
            getattr(record, "fields", {}),
        )


def _line(
    created: float,
    level: int,
    name: str,
    message: str,
    request_id: str,
    trace: str,
    fields: Mapping[str, Any],
) -> str:
    when = (
        datetime.fromtimestamp(created).astimezone().isoformat(timespec="milliseconds")
    )
    word = logging.getLevelName(level)
    if _json:
        line = {"time": when, "level": word.lower(), "logger": name, "message": message}
        line |= {"request_id": request_id} if request_id else {}
        line |= {"exception": trace} if trace else {}
        encoded = msgspec.json.encode({**line, **fields, "pid": os.getpid()})
        return _CONTROL.sub(_escaped, encoded.decode())
    shown = _CONTROL.sub(_escaped, message)
    request = f" [request {request_id}]" if request_id else ""
    # Indented, so that no line of it looks like a line of the log.
    lines = trace.split("\n") if trace else []
    traced = "".join(f"\n    {_CONTROL.sub(_escaped, each)}" for each in lines)
    return f"{when} {word} {name}: {shown}{request}{traced}"


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
