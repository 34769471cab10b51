"""Samples out: bundles by position, readers, and leases."""

from __future__ import annotations

import msgspec

from gym_http_server.errors import (
    LimitReached,
    PositionPassed,
    SamplesGone,
    UnknownReader,
)
from gym_http_server.operations.runs import (
    BUNDLE_BYTES,
    LEASED_BATCHES,
    MOST_BATCHES,
    READER,
)
from gym_http_server.services.relay.calls import (
    SAMPLES,
    LiveRun,
    Reply,
    RunCall,
    read_members,
)
from gym_http_server.services.relay.files import FileSlice
from gym_http_server.services.relay.leases import deliver, readers_floor
from gym_http_server.services.relay.rows import XXH3_BYTES, BatchRow, ReaderRow
from gym_http_server.services.relay.store import Store
from gym_http_wire.bundles import BUNDLE, BatchHead, encode_batch_start
from gym_http_wire.problems import BadParameter

__all__ = [
    "ReaderMove",
    "acknowledge",
    "check_move",
    "consume",
    "delete_reader",
    "get_aside",
    "get_reader",
    "get_samples",
    "give_back",
    "lease",
    "move_reader",
    "put_reader",
]

#: Readers of a run.
MOST_READERS = 1000


class ReaderMove(msgspec.Struct, frozen=True):
    """A reader that is about to move, and how many draws it adds."""

    row: ReaderRow
    draws: int


def get_samples(call: RunCall) -> Reply | None:
    """Return the batches after a position as a bundle; change nothing."""
    totals = call.run.totals
    name = call.args.get("reader")
    reader = call.store.reader(call.run, name) if name else None
    after = call.args.get("after", reader.after if reader else 0)
    if reader is not None:
        _see(call, reader)
    max_bytes = call.args.get("max_bytes", BUNDLE_BYTES)
    if after > totals.stored:
        raise BadParameter(
            f"after is {after}, beyond the last position: expected an integer from 0 "
            f"to {totals.stored}"
        )
    first = call.store.first(call.run)
    if after + 1 < first:
        raise SamplesGone(
            f"the batches after position {after} were consumed and removed: the first "
            f"one that is kept is {first}",
            extras={"first": first},
        )
    # Those after it may have been consumed, beside others that were set aside.
    found = call.store.batches(
        call.run, after, max_bytes=max_bytes, max_batches=MOST_BATCHES
    )
    if not found:
        return Reply(204) if call.final else None
    return _bundle(found)


def _bundle(batches: list[BatchRow]) -> Reply:
    pieces: list[bytes | FileSlice] = []
    for batch in batches:
        sha256 = len(batch.digest) != XXH3_BYTES
        head = BatchHead(
            batch.session,
            batch.number,
            batch.policy,
            batch.count,
            0,
            batch.content_type,
            batch.packing,
            batch.unpacked,
            batch.digest.hex() if sha256 else "",
            batch.position,
            batch.worker,
            batch.lag,
            batch.stale,
            batch.received,
            batch.lease,
            batch.delivery,
            "" if sha256 else batch.digest.hex(),
        )
        pieces.append(encode_batch_start(head, batch.size))
        if batch.size:
            pieces.append(batch.body)
    headers = {
        "Gym-First": str(batches[0].position),
        "Gym-Last": str(batches[-1].position),
    }
    return Reply(200, b"", headers, BUNDLE, pieces)


# Readers


def get_reader(call: RunCall) -> Reply:
    """Report a reader."""
    return _reader_reply(_find_reader(call))


def put_reader(call: RunCall) -> Reply:
    """Commit that a reader has used all batches up to a position."""
    name = READER.read(call.head.value, "reader")
    move = check_move(call, name, **read_members(call))
    move_reader(call, move)
    return _reader_reply(move.row)


def delete_reader(call: RunCall) -> Reply:
    """Remove a reader, which no longer holds batches back."""
    reader = _find_reader(call)
    call.store.delete_reader(call.run, reader.reader)
    consume(call.store, call.live, call.now)
    return Reply(204)


def check_move(
    call: RunCall, name: str, after: int, draws: int | None = None
) -> ReaderMove:
    """Check that a reader may move to a position.

    Raises:
        PositionPassed: It is past that position.
        BadParameter: There is no such position.
        LimitReached: It is new, and the run has as many as it may.
    """
    known = call.store.reader(call.run, name)
    if known is not None and after < known.after:
        raise PositionPassed(
            f"the reader {name!r} is at {known.after}, past {after}: another trainer "
            "may use the same name; resume from the state that is stored",
            extras={"after": known.after},
        )
    if after > call.run.totals.stored:
        raise BadParameter(
            f"after is {after}, beyond the last position: expected an integer from 0 "
            f"to {call.run.totals.stored}"
        )
    if known is None and len(call.store.readers(call.run)) >= MOST_READERS:
        raise LimitReached(
            f"the run {call.run.run!r} has {MOST_READERS} readers, which is the limit: "
            f"remove some with DELETE /v1/runs/{call.run.run}/readers/<name>/",
            extras={"limit": MOST_READERS},
        )
    before = known.draws if known else 0
    total = max(before, draws or 0)
    return ReaderMove(ReaderRow(name, after, total, call.now), total - before)


def move_reader(call: RunCall, move: ReaderMove) -> None:
    """Move a reader, and count the batches that all readers are past as consumed."""
    call.store.put_reader(call.run, move.row)
    call.run.totals.draws += move.draws
    call.run.totals.last = call.now
    call.store.changed(call.run)
    consume(call.store, call.live, call.now)


def consume(store: Store, live: LiveRun, now: float) -> None:
    """Count the batches that all readers are past as consumed."""
    floor = readers_floor(store.readers(live.row), now)
    if floor is None and live.row.totals.leasing:
        # Those that are acknowledged wait for no reader.
        floor = live.row.totals.stored
    if floor is not None and floor > live.row.totals.floor:
        store.consume_to(live.row, floor)


def _find_reader(call: RunCall) -> ReaderRow:
    reader = call.store.reader(call.run, call.head.value)
    if reader is None:
        raise UnknownReader(
            f"the run {call.run.run!r} has no reader {call.head.value!r:.80}: the "
            "first PUT of its position makes it"
        )
    return reader


#: Seconds after which a reader that only reads is noted again.
SEEN_SECONDS = 60.0


def _see(call: RunCall, reader: ReaderRow) -> None:
    if call.now - reader.seen > SEEN_SECONDS:
        reader.seen = call.now
        call.store.put_reader(call.run, reader)


def _reader_reply(row: ReaderRow) -> Reply:
    return Reply.of(200, {"reader": row.reader, "after": row.after, "draws": row.draws})


# Leases


def lease(call: RunCall) -> Reply | None:
    """Lease the next batches."""
    given = read_members(call)
    batches = deliver(
        call.store,
        call.run,
        call.live.leases,
        call.now,
        max_bytes=given.get("max_bytes", BUNDLE_BYTES),
        max_batches=given.get("max_batches", LEASED_BATCHES),
    )
    if batches:
        call.run.totals.last = call.now
        return _bundle(batches)
    return Reply(204) if call.final else None


def acknowledge(call: RunCall) -> Reply:
    """Acknowledge leased batches, which are not delivered again."""
    floor = readers_floor(call.store.readers(call.run), call.now)
    totals = call.run.totals
    # A reader that is new may be behind what others were past.
    past = totals.stored if floor is None else max(floor, totals.floor)
    leases = read_members(call)["leases"]
    changed, unknown = call.live.leases.ack(leases, past)
    for row in changed:
        call.store.put_lease(call.run, row)
    return Reply.of(200, {"acked": len(changed), "unknown": unknown})


def give_back(call: RunCall) -> Reply:
    """Return leased batches, which are delivered again at once."""
    leases = read_members(call)["leases"]
    changed, unknown = call.live.leases.nack(leases)
    for row in changed:
        call.store.put_lease(call.run, row)
    call.touched = SAMPLES if changed else ""
    return Reply.of(200, {"nacked": len(changed), "unknown": unknown})


def get_aside(call: RunCall) -> Reply:
    """Return the batches that were set aside after too many deliveries."""
    batches = call.store.aside(
        call.run,
        call.args.get("after", 0),
        max_bytes=call.args.get("max_bytes", BUNDLE_BYTES),
    )
    return _bundle(batches) if batches else Reply(204)
