"""The records of the relay's store, which its logic reads and changes."""

from __future__ import annotations

from collections import Counter
from enum import IntEnum

import msgspec

from gym_http_server.services.relay.files import FileSlice

__all__ = [
    "LAG_CLASSES",
    "XXH3_BYTES",
    "BatchRow",
    "BlobRow",
    "LeaseRow",
    "LeaseState",
    "ReaderRow",
    "RecordRow",
    "RunRow",
    "SessionRow",
    "TokenRow",
    "Totals",
    "lag_class",
]

#: Names of the classes of the histogram of lags.
LAG_CLASSES = ("0", "1", "2", "3-5", "6-10", ">10")
#: Bytes of a digest that is an XXH3; a SHA-256 has 32.
XXH3_BYTES = 8


def lag_class(lag: int) -> int:
    """Return the number of the class that a lag belongs to."""
    return lag if lag < 3 else 3 if lag <= 5 else 4 if lag <= 10 else 5


class Totals(msgspec.Struct):
    """The counts of a run.

    Attributes:
        stored: Batches stored so far, which is also the last position.
        stale: Batches refused as stale.
        dropped: Batches that spools dropped, or that were refused for good.
        repeated: Batches that were sent again.
        transitions: Transitions of the stored batches.
        waiting: Batches that wait for a reader or for a lease.
        leased: Batches that are leased.
        consumed: Batches that all readers are past, or that were acknowledged.
        aside: Batches set aside after too many deliveries.
        queue_transitions: Transitions of the batches that wait or are leased.
        queue_bytes: Their bytes.
        kept: Consumed batches that are not removed yet.
        kept_bytes: Their bytes.
        floor: Position that all readers are past.
        consumed_to: All batches up to this position are consumed.
        leasing: Whether batches are leased in this run.
        cursor: The highest position that was leased.
        draws: Transitions that readers have drawn.
        lags: Number of stored batches in each class of lags.
        version: Newest version of the weights; 0 is before any.
        state_version: Number of the newest state.
        records: Position of the last record.
        episodes: Records of episodes.
        training_steps: Records of training steps.
        last: When the run was last used, in seconds since 1970.
    """

    stored: int = 0
    stale: int = 0
    dropped: int = 0
    repeated: int = 0
    transitions: int = 0
    waiting: int = 0
    leased: int = 0
    consumed: int = 0
    aside: int = 0
    queue_transitions: int = 0
    queue_bytes: int = 0
    kept: int = 0
    kept_bytes: int = 0
    floor: int = 0
    consumed_to: int = 0
    leasing: bool = False
    cursor: int = 0
    draws: int = 0
    lags: list[int] = msgspec.field(default_factory=lambda: [0] * len(LAG_CLASSES))
    version: int = 0
    state_version: int = 0
    records: int = 0
    episodes: int = 0
    training_steps: int = 0
    last: float = 0.0

    @property
    def sent(self) -> int:
        """Batches that workers numbered: stored, stale or dropped."""
        return self.stored + self.stale + self.dropped


class RunRow(msgspec.Struct, eq=False):
    """A run.

    Attributes:
        id: Its number, which no other run ever has.
        run: Its name.
        created: When it was created, in seconds since 1970.
        limits: Its limits, as JSON.
        columns: Its columns, as JSON; ``None``: not declared.
        keep_bytes: Consumed batches of this size stay.
        totals: Its counts. After a change, call `Store.changed`.
        worker_bytes: Bytes in the queue, by worker.
        evaluations: As `Store.evaluations` returns them; ``None``: not read yet.
    """

    id: int
    run: str
    created: float
    limits: bytes
    columns: bytes | None
    keep_bytes: int
    totals: Totals
    worker_bytes: Counter[str]
    evaluations: dict[int, tuple[int, float]] | None = None


class TokenRow(msgspec.Struct):
    """A token of a run, without its secret.

    Attributes:
        id: Name by which it is revoked.
        role: "worker", "trainer" or "observer".
        digest: SHA-256 of the token, in hex digits.
        created: In seconds since 1970.
    """

    id: str
    role: str
    digest: str
    created: float


class SessionRow(msgspec.Struct, eq=False):
    """A session: the numbered batches of one spool. After a change: `Store.changed`.

    Attributes:
        id: Its number in the store.
        session: Its public ID.
        worker: Name of the worker.
        created: In seconds since 1970.
        seen: When the worker last called.
        next: Number that the next batch must have.
        records_next: Number that the next request with records must have.
        policy: Version of the weights that made its last batch.
        sent: Batches stored, stale or dropped.
        dropped: Batches dropped.
        stale: Batches refused as stale.
        ended: Whether the worker said goodbye.
        last: Position of its last batch, 0 before any; ``None``: not known, in a row
            of an earlier version.
        token: ID of the token that began it; "" for a token of the server.
        owner: Name of the server's token that began it; "" if it was a run's.
    """

    id: int
    session: str
    worker: str
    created: float
    seen: float
    next: int = 1
    records_next: int = 1
    policy: int = 0
    sent: int = 0
    dropped: int = 0
    stale: int = 0
    ended: bool = False
    last: int | None = None
    token: str = ""
    owner: str = ""


class BatchRow(msgspec.Struct, gc=False):
    """A batch. The store sets the members from `position` on.

    Attributes:
        number: Number in its session.
        policy: Version of the weights that acted.
        count: Number of transitions.
        body: Its bytes, or where they are.
        digest: SHA-256 of the body, or XXH3 if its sender has named that only; may be
            empty.
        content_type: Media type of the body.
        packing: How the body is packed.
        unpacked: Bytes before packing.
        lag: Number of versions that were newer.
        stale: Whether that is more than the run allows.
        received: In seconds since 1970.
        position: Position in the log of the run.
        session: Public ID of its session.
        worker: Name of the worker.
        lease: ID of the lease by which it is delivered.
        delivery: Number of the delivery.
    """

    number: int
    policy: int
    count: int
    body: bytes | FileSlice
    digest: bytes = b""
    content_type: str = "application/octet-stream"
    packing: str = ""
    unpacked: int = 0
    lag: int = 0
    stale: bool = False
    received: float = 0.0
    position: int = 0
    session: str = ""
    worker: str = ""
    lease: str = ""
    delivery: int = 0

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return self.body.size if isinstance(self.body, FileSlice) else len(self.body)


class ReaderRow(msgspec.Struct):
    """A reader.

    Attributes:
        reader: Its name.
        after: It is past all batches up to this position.
        draws: Transitions that it has drawn so far.
        seen: When it last called, in seconds since 1970.
    """

    reader: str
    after: int
    draws: int
    seen: float


class LeaseState(IntEnum):
    """What has become of a batch that was leased."""

    LEASED = 1
    #: It waits for its next delivery.
    RETURNED = 2
    #: It was acknowledged, and waits for readers.
    ACKED = 3
    ASIDE = 4
    CONSUMED = 5


class LeaseRow(msgspec.Struct, frozen=True):
    """The lease of a batch.

    Attributes:
        position: The batch.
        state: What has become of it.
        delivery: Number of its last delivery, from 1.
        until: When it is delivered again, in seconds since 1970, while it is leased.
    """

    position: int
    state: LeaseState
    delivery: int
    until: float


class BlobRow(msgspec.Struct):
    """One version of the weights or of the trainer's state.

    Attributes:
        kind: "weights" or "state".
        version: Its number, from 1.
        digest: SHA-256 of the body, in hex digits.
        content_type: Media type of the body.
        created: In seconds since 1970.
        size: Bytes of the body.
        body: Its bytes, or where they are; empty in lists.
    """

    kind: str
    version: int
    digest: str
    content_type: str
    created: float
    size: int
    body: bytes | FileSlice = b""


class RecordRow(msgspec.Struct):
    """A record: an episode or a training step.

    Attributes:
        type: "episode" or "training".
        text: The whole record, as JSON.
        mode: Of an episode: "training", "evaluation" or "expert".
        worker: Name of the worker.
        version: Version of the weights.
        value: Return of an episode.
        time: When it was received, in seconds since 1970.
        position: Position among the records of the run, set by the store.
    """

    type: str
    text: bytes
    mode: str = ""
    worker: str = ""
    version: int = 0
    value: float = 0.0
    time: float = 0.0
    position: int = 0
