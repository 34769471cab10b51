"""Requests, replies, and what the relay knows of a run while it executes a request."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from gym_http_server.operations.runs import LIMITS
from gym_http_server.operations.table import RUNS
from gym_http_server.services.relay.files import FileSlice
from gym_http_server.services.relay.leases import Leases
from gym_http_server.services.relay.limiter import Limiter, LimiterSettings
from gym_http_server.services.relay.messages import RelayHead
from gym_http_server.services.relay.rows import RunRow
from gym_http_server.services.relay.status import Rates, Returns, active_workers
from gym_http_server.services.relay.store import Store
from gym_http_wire.messages import Op

__all__ = [
    "BLOBS",
    "SAMPLES",
    "DeclaredColumn",
    "Limits",
    "LiveRun",
    "Reply",
    "Request",
    "RunCall",
    "read_members",
]

#: What requests wait for: samples, or weights and states.
SAMPLES, BLOBS = "samples", "blobs"
#: Records from which the last returns of workers are read after a restart.
RECORDS = 1000

_WITH_BODIES = {row.op: row for row in RUNS if row.body is not None}
_DEFAULTS = {name: member.default for name, member in LIMITS.items()}


class Request(NamedTuple):
    """A request.

    Attributes:
        op: The operation.
        head: Its head.
        body: Its body, if that is not in a file.
    """

    op: Op
    head: RelayHead
    body: bytes = b""

    @property
    def session(self) -> str:
        """The session of its batches or records; "" for other requests."""
        if self.op in (Op.SAMPLES_PUT, Op.RECORDS_PUT, Op.RELAY_ADMIT):
            return str(self.head.args.get("session", ""))
        return ""

    @property
    def awaited(self) -> tuple[str, str]:
        """The run that it may wait for, and what has to happen there."""
        happens = BLOBS if self.op in (Op.WEIGHTS_GET, Op.STATE_GET) else SAMPLES
        return self.head.run, happens

    @property
    def wait_s(self) -> float:
        """Seconds that it may wait for something to happen."""
        return float(self.head.args.get("wait_s", 0.0))


class Reply(msgspec.Struct, frozen=True):
    """The answer to a request.

    Attributes:
        status: HTTP status.
        body: JSON, or empty.
        headers: HTTP headers.
        content_type: Media type of the body; "" is JSON.
        pieces: The body in pieces, if it is not JSON.
        promised: Bytes of an upload for which there must be room until it arrives.
    """

    status: int
    body: bytes = b""
    headers: dict[str, str] = {}
    content_type: str = ""
    pieces: Sequence[bytes | FileSlice] | None = None
    promised: int = 0

    @classmethod
    def of(
        cls, status: int, value: Any, headers: dict[str, str] | None = None
    ) -> Reply:
        """Return a reply with a value as JSON."""
        body = msgspec.json.encode(value, order="sorted") + b"\n"
        return cls(status, body, headers or {})


class Limits(msgspec.Struct, frozen=True):
    """The limits of a run.

    Attributes:
        queue_bytes: Bytes of samples that wait.
        queue_batches: Batches that wait.
        keep_bytes: Bytes of consumed samples that are kept.
        max_lag: Versions by which a batch may be behind; ``None``: any number.
        stale: What becomes of batches beyond it: "flag" or "refuse".
        lease_s: Seconds of a lease.
        deliveries: Deliveries after which a batch is set aside.
        keep_weights: Versions of the weights that are kept.
        limiter: The limiter, or ``None``.
    """

    queue_bytes: int = _DEFAULTS["queue_bytes"]
    queue_batches: int = _DEFAULTS["queue_batches"]
    keep_bytes: int = _DEFAULTS["keep_bytes"]
    max_lag: int | None = None
    stale: str = _DEFAULTS["stale"]
    lease_s: float = _DEFAULTS["lease_s"]
    deliveries: int = _DEFAULTS["deliveries"]
    keep_weights: int = _DEFAULTS["keep_weights"]
    limiter: LimiterSettings | None = None


class DeclaredColumn(msgspec.Struct, frozen=True):
    """A declared column.

    Attributes:
        dtype: Name of its dtype.
        shape: Shape of one transition.
    """

    dtype: str
    shape: tuple[int, ...]


class LiveRun:
    """What the relay knows of a run beside its row.

    Args:
        store: The store.
        row: The run.
        now: Seconds since 1970.

    Attributes:
        row: The run.
        limits: Its limits.
        columns: Its columns, or ``None``.
        limiter: Its limiter, or ``None``.
        rates: What was stored in the last minute.
        returns: The last returns of its workers.
    """

    def __init__(self, store: Store, row: RunRow, now: float) -> None:
        self.row = row
        self.limits = msgspec.json.decode(row.limits, type=Limits)
        self.columns: dict[str, DeclaredColumn] | None = None
        if row.columns is not None:
            self.columns = msgspec.json.decode(
                row.columns, type=dict[str, DeclaredColumn]
            )
        settings = self.limits.limiter
        self.limiter = None if settings is None else Limiter(settings)
        self.rates = Rates(now)
        self.returns = Returns()
        last = row.totals.records
        self.returns.add(store.records(row, max(0, last - RECORDS), RECORDS))
        self._store = store
        self._leases: Leases | None = None
        self._workers = (0.0, 0)

    def workers(self, now: float) -> int:
        """Return the number of active workers, counted once a second."""
        counted, workers = self._workers
        if not 0 <= now - counted < 1:
            workers = active_workers(self._store.sessions(self.row), now)
            self._workers = (now, workers)
        return workers

    @functools.cached_property
    def sessions(self) -> Counter[str]:
        """Number of its sessions by the ID of the token that began them."""
        return Counter(row.token for row in self._store.sessions(self.row))

    @property
    def leases(self) -> Leases:
        """The leases of the run, read from the store when they are first needed."""
        if self._leases is None:
            limits = self.limits
            rows = self._store.leases(self.row) if self.row.totals.leasing else []
            self._leases = Leases(self.row.id, limits.lease_s, limits.deliveries, rows)
        return self._leases


class RunCall:
    """A request about a run that is being executed.

    Args:
        store: The store, in a transaction.
        live: The run.
        request: The request.
        now: Seconds since 1970.
        final: Whether it may not wait any longer.

    Attributes:
        store: The store.
        live: The run.
        run: Its row.
        head: Head of the request.
        args: The members of its query, which the web worker has checked.
        body: Its body.
        now: Seconds since 1970.
        final: Whether it may not wait any longer.
        touched: What others may wait for that has happened: `SAMPLES`, `BLOBS` or "".
        batches: Batches that were looked at.
    """

    def __init__(
        self, store: Store, live: LiveRun, request: Request, now: float, final: bool
    ) -> None:
        self.store = store
        self.live = live
        self.run = live.row
        self.op = request.op
        self.head = request.head
        self.args = request.head.args
        self.body = request.body
        self.now = now
        self.final = final
        self.touched = ""
        self.batches = 0

    def note_use(self) -> None:
        """Note that the run was used now."""
        self.run.totals.last = self.now
        self.store.changed(self.run)


def read_members(request: Request | RunCall) -> dict[str, Any]:
    """Read the members of a body, which is JSON, as web workers have checked.

    Raises:
        Problem: A member is missing or unknown, or has a value that it cannot have.
    """
    return _WITH_BODIES[request.op].read_body(msgspec.json.decode(request.body))
