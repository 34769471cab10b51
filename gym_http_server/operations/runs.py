"""Queries and bodies of training runs: which members they have.

The keys of `QUERIES` and `BODIES` are the names of operations (`operations/table`).
Web workers read queries by them, and the relay bodies. Lines of records are not among
them: they may have any members, and are many (`services/relay/records`).
"""

from __future__ import annotations

import math

from gym_http_server.operations.members import (
    Choice,
    Either,
    Integer,
    ListOf,
    MapOf,
    Member,
    Members,
    Name,
    Number,
    ObjectOf,
    Seconds,
    Text,
    even_null,
)

__all__ = [
    "BUNDLE_BYTES",
    "COUNT",
    "DTYPES",
    "LEASED_BATCHES",
    "LIMITS",
    "MOST_BATCHES",
    "MOST_COUNT",
    "MOST_RECORDS",
    "READER",
    "READER_COMMIT",
    "RECORDS_READ",
    "RECORDS_SEND",
    "RUN_CREATE",
    "RUN_ROLES",
    "RUN_TOKEN_CREATE",
    "SAMPLES_ACK",
    "SAMPLES_ASIDE",
    "SAMPLES_LEASE",
    "SAMPLES_NACK",
    "SAMPLES_READ",
    "SAMPLES_SEND",
    "SESSION_CREATE",
    "STATE_GET",
    "STATE_SAVE",
    "WEIGHTS_GET",
    "WEIGHTS_PUBLISH",
]

#: Bytes of bodies in an answer, unless the request has another limit.
BUNDLE_BYTES = 4 * 1024**2
#: Batches in an answer.
MOST_BATCHES = 10_000
#: Batches in an answer to a request for leases, unless it has another limit.
LEASED_BATCHES = 1000
#: Transitions of a batch, and batches that are dropped before one. Sums of them stay
#: within the integers of the database.
MOST_COUNT = 2**31 - 1
#: Records in an answer.
MOST_RECORDS = 10_000
RUN_ROLES = ("worker", "trainer", "observer")
#: Dtypes that a column may have, by NumPy's names.
DTYPES = (
    "bool",
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    *("float16", "float32", "float64", "complex64", "complex128"),
)

_FINITE = Number(-math.inf, math.inf)
#: Names of readers, and counts of transitions and batches.
READER, COUNT = Name(chosen=True), Integer(0, MOST_COUNT)
_WAIT = Member(Seconds(0, 50), "Seconds to wait if there is nothing yet.", default=0)
_AFTER = Member(
    Integer(), "The position before the first one wanted; 0 is the start.", default=0
)
_MAX_BYTES = Member(Integer(1), "Bytes of the answer at most.", default=BUNDLE_BYTES)
_COMMIT = {
    "reader": Member(READER, "A reader that moves in the same commit, with `after`."),
    "after": Member(Integer(), "The position that the reader commits."),
    "draws": Member(
        Integer(), "Transitions that the trainer has drawn in all, for the limiter."
    ),
}

SAMPLES_SEND: Members = {
    "session": Member(
        Name(),
        "The session that the batch belongs to; needed unless it is a bundle.",
    ),
    "number": Member(
        Integer(1), "Its number in the session; needed unless it is a bundle."
    ),
    "policy": Member(
        Integer(), "Version of the weights that made it, 0 before any.", default=0
    ),
    "count": Member(COUNT, "Transitions in it.", default=1),
    "dropped": Member(
        COUNT,
        "Batches that the spool dropped directly before this one.",
        default=0,
    ),
}
SAMPLES_READ: Members = {
    "after": _AFTER,
    "max_bytes": _MAX_BYTES,
    "wait_s": _WAIT,
    "reader": Member(READER, "The reader, whose silence ends."),
}
SAMPLES_ASIDE: Members = {"after": _AFTER, "max_bytes": _MAX_BYTES}
WEIGHTS_PUBLISH: Members = _COMMIT
WEIGHTS_GET: Members = {"wait_s": _WAIT}
STATE_SAVE: Members = _COMMIT
STATE_GET: Members = {"wait_s": _WAIT}
RECORDS_SEND: Members = {
    "session": Member(
        Name(),
        "The session of the worker; without it, repetitions are stored again.",
    ),
    "number": Member(Integer(1), "Number of this request in the session."),
}
RECORDS_READ: Members = {
    "after": _AFTER,
    "type": Member(Choice(("episode", "training")), "Only those of this type."),
    "limit": Member(
        Integer(1),
        f"Records at most; no answer has more than {MOST_RECORDS}.",
        default=MOST_RECORDS,
    ),
}

_LIMITER: Members = {
    "samples_per_insert": Member(
        Number(0, math.inf, above=True),
        "How often each transition is to be drawn.",
        required=True,
    ),
    "min_size": Member(Integer(1), "Transitions before the first draw.", required=True),
    "error_buffer": Member(
        Either(_FINITE, ListOf(_FINITE, 2, 2, "numbers")),
        "How far draws may deviate; or the least and the largest difference.",
        required=True,
    ),
}
#: The limits of a run.
LIMITS: Members = {
    "queue_bytes": Member(
        Integer(1), "Bytes of batches that wait, at most.", default=1024**3
    ),
    "queue_batches": Member(Integer(1), "Batches that wait, at most.", default=100_000),
    "keep_bytes": Member(
        Integer(), "Bytes of consumed batches that are kept.", default=0
    ),
    "max_lag": Member(
        Integer(), "Versions by which a batch may be behind; null for any.", null=True
    ),
    "stale": Member(
        Choice(("flag", "refuse")),
        "Whether batches beyond `max_lag` are flagged or refused.",
        default="flag",
    ),
    "lease_s": Member(
        Seconds(0, 86400, above=True),
        "Seconds after which a leased batch is delivered again.",
        default=60.0,
    ),
    "deliveries": Member(
        Integer(1, 1000), "Deliveries after which a batch is set aside.", default=5
    ),
    "keep_weights": Member(
        Integer(1, 1000),
        "Versions of the weights that are kept, besides those in use.",
        default=10,
    ),
    "limiter": Member(
        ObjectOf(_LIMITER, even_null),
        "As Reverb's `SampleToInsertRatio`, counted in transitions; null for none.",
        null=True,
    ),
}
_COLUMN: Members = {
    "dtype": Member(Choice(DTYPES), "As NumPy names it.", required=True),
    "shape": Member(ListOf(Integer(), 0, 32), "Of one transition.", required=True),
}
_LEASES: Members = {
    "leases": Member(
        ListOf(Text(0, 100), 0, 10_000), "IDs of the leases.", required=True
    )
}

RUN_CREATE: Members = {
    "run": Member(Name(chosen=True), "Its name.", required=True),
    "limits": Member(ObjectOf(LIMITS, even_null), "Its limits."),
    "columns": Member(
        MapOf(ObjectOf(_COLUMN, even_null), 1, 256),
        "The columns of each batch, by name; null if they are not declared.",
        null=True,
    ),
}
RUN_TOKEN_CREATE: Members = {
    "role": Member(Choice(RUN_ROLES), "What the token permits.", required=True)
}
SESSION_CREATE: Members = {
    "worker": Member(
        Name(chosen=True),
        "Name of the worker, which stays the same in later sessions.",
        required=True,
    )
}
SAMPLES_LEASE: Members = {
    "max_bytes": _MAX_BYTES,
    "max_batches": Member(
        Integer(1, MOST_BATCHES), "Batches at most.", default=LEASED_BATCHES
    ),
    "wait_s": _WAIT,
}
SAMPLES_ACK: Members = _LEASES
SAMPLES_NACK: Members = _LEASES
READER_COMMIT: Members = {
    "after": Member(Integer(), "The last position used.", required=True),
    "draws": Member(Integer(), "Transitions drawn in all.", null=True),
}
