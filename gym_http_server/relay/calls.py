"""Requests, replies, and what the relay knows of a run while it executes a request."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec

from gym_http_server.errors import did_you_mean
from gym_http_server.relay.files import FileSlice
from gym_http_server.relay.leases import Leases
from gym_http_server.relay.limiter import Limiter, LimiterSettings
from gym_http_server.relay.messages import MOST_WAIT_SECONDS, RelayHead
from gym_http_server.relay.rows import RunRow
from gym_http_server.relay.status import Rates, Returns, active_workers
from gym_http_server.relay.store import Store
from gym_http_wire.messages import Op
from gym_http_wire.problems import BadJSON, BadParameter, MissingParameter

__all__ = [
    "BLOBS",
    "SAMPLES",
    "DeclaredColumn",
    "Limits",
    "LiveRun",
    "Reply",
    "Request",
    "RunCall",
    "convert",
    "name_of",
    "read_json",
]

#: What requests wait for: samples, or weights and states.
SAMPLES, BLOBS = "samples", "blobs"
#: Records from which the last returns of workers are read after a restart.
RECORDS = 1000

_Bytes = Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]
_Some = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]


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
        if self.op == Op.RELAY_ADMIT:
            return 0.0
        wait_s = self.head.args.get("wait_s", 0.0)
        if self.op == Op.LEASE:
            found = _WAIT.search(self.body)
            wait_s = float(found[1]) if found else 0.0
        return min(float(wait_s), MOST_WAIT_SECONDS)


#: `wait_s` in the body of a request for leases, which is checked when it is executed.
_WAIT = re.compile(rb'"wait_s"\s*:\s*([0-9]{1,3}(?:\.[0-9]{0,9})?)')


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

    queue_bytes: _Bytes = 1024**3
    queue_batches: _Count = 100_000
    keep_bytes: _Some = 0
    max_lag: _Some | None = None
    stale: Literal["flag", "refuse"] = "flag"
    lease_s: Annotated[float, msgspec.Meta(gt=0, le=86400)] = 60.0
    deliveries: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 5
    keep_weights: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 10
    limiter: LimiterSettings | None = None


class DeclaredColumn(msgspec.Struct, frozen=True):
    """A declared column.

    Attributes:
        dtype: Name of its dtype.
        shape: Shape of one transition.
    """

    dtype: str
    shape: tuple[_Some, ...]


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
        self.body = request.body
        self.now = now
        self.final = final
        self.touched = ""
        self.batches = 0

    def note_use(self) -> None:
        """Note that the run was used now."""
        self.run.totals.last = self.now
        self.store.changed(self.run)

    def number(self, name: str, default: int | None = None) -> int:
        """Return an integer of the query.

        Raises:
            BadParameter: It is missing, and has no default, or is no integer.
        """
        value = self.head.args.get(name, default)
        if type(value) is not int or value < 0:
            raise BadParameter(
                f"the parameter {name} is {value!r:.80}: expected an integer from 0"
                if value is not None
                else f"the parameter {name} is missing: expected an integer from 0"
            )
        return value

    def text(self, name: str) -> str:
        """Return a text of the query, or ""."""
        return str(self.head.args.get(name) or "")


_T = TypeVar("_T")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}").fullmatch
_PATH = re.compile(r" - at `\$\.?(.*)`$")


def name_of(value: object, name: str) -> str:
    """Check the name of a run, worker or reader.

    Args:
        value: The name.
        name: The parameter.

    Raises:
        MissingParameter: It is missing.
        BadParameter: It is not such a name.
    """
    if value is None:
        raise MissingParameter(name)
    if not isinstance(value, str) or not _NAME(value):
        raise BadParameter(
            f"{name} is {value!r:.80}: expected a letter or digit, then up to 63 of "
            "A-Z, a-z, 0-9, _, . and -"
        )
    return value


def read_json(body: bytes, type_: type[_T]) -> _T:
    """Decode the JSON object of a request.

    Args:
        body: The JSON; empty is an empty object.
        type_: A struct with the members that it may have.

    Raises:
        BadJSON: It is not a JSON object.
        BadParameter: A member is unknown, or has a value that it cannot have.
    """
    try:
        given = msgspec.json.decode(body) if body.strip() else {}
    except (ValueError, RecursionError) as error:
        raise BadJSON(str(error)) from None
    if not isinstance(given, dict):
        raise BadJSON("it is not an object")
    return convert(given, type_, "")


def convert(given: dict[str, Any], type_: type[_T], where: str) -> _T:
    """Convert a JSON object to a struct.

    Args:
        given: The object.
        type_: The struct.
        where: Name of the member that has the object; "" for a whole body.

    Raises:
        BadParameter: A member is unknown, or has a value that it cannot have.
    """
    known = msgspec.structs.fields(type_)  # type: ignore[arg-type]
    names = [field.encode_name for field in known]
    for name in given:
        if name not in names:
            inside = f" in {where}" if where else ""
            raise BadParameter(
                f"{name!r:.80} is unknown{inside}: expected {', '.join(names)}"
                f"{did_you_mean(name, names)}"
            )
    try:
        return msgspec.convert(given, type_)
    except msgspec.ValidationError as error:
        found = _PATH.search(str(error))
        path = found[1] if found else ""
        value = given
        for part in re.findall(r"[^.\[\]]+", path):
            if isinstance(value, dict) and part in value:
                value = value[part]
        expected = _PATH.sub("", str(error))
        name = ".".join(each for each in (where, path) if each)
        shown = f" is {value!r:.80}" if name and path else ""
        raise BadParameter(f"{name or 'the body'}{shown}: {expected}") from None
