"""Samples in: batches of sessions, in order, each stored once."""

from __future__ import annotations

import hashlib
import math
import mmap
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import xxhash

from gym_http_server.errors import (
    BadColumns,
    BundleTooLarge,
    DigestMismatch,
    Gap,
    LimiterWaits,
    RunQueueFull,
    ShareUsedUp,
    Stale,
)
from gym_http_server.operations.runs import COUNT, MOST_COUNT, SAMPLES_SEND
from gym_http_server.services.relay.calls import SAMPLES, DeclaredColumn, Reply, RunCall
from gym_http_server.services.relay.columns import (
    MAX_JSON_BYTES,
    check_columns,
    is_json,
)
from gym_http_server.services.relay.files import FileSlice
from gym_http_server.services.relay.messages import digests_of, is_bundle
from gym_http_server.services.relay.rows import XXH3_BYTES, BatchRow, SessionRow
from gym_http_server.services.relay.sessions import find_session
from gym_http_wire.bundles import BatchHead, BundleError, hash_for, split
from gym_http_wire.frames import HEADER
from gym_http_wire.problems import BadParameter, KeyReused, MissingParameter, Problem

__all__ = ["admit_samples", "put_samples"]

RETRY_SECONDS = 1
#: Seconds after which a worker whose batches are refused is noted again.
SEEN_SECONDS = 5.0
OCTETS = "application/octet-stream"
#: A larger batch is not hashed by the relay.
MOST_HASHED_BYTES = 8 * 1024 * 1024
#: What heads of batches allow.
_is_media_type = re.compile(r"[!-~][ -~]{0,254}").fullmatch


class _Sent(NamedTuple):
    """A batch as it was sent.

    Attributes:
        head: Its head.
        body: Its bytes, or where they are.
        view: Its bytes.
        digest: Its SHA-256 or XXH3, if a web worker has computed it.
    """

    head: BatchHead
    body: bytes | FileSlice
    view: memoryview
    digest: bytes = b""


def admit_samples(call: RunCall) -> None:
    """Check whether a request with samples would be refused, before its body is read.

    Raises:
        Problem: It would be.
    """
    size = max(0, call.head.size)
    session = _session_of(call)
    if not is_bundle(call.head.content_type):
        head = _head_of(call)
        if head.number < (session.next if session else 1):
            # It is stored already, and is confirmed whatever the queue holds.
            return
        _check_policy(call, head)
    _check_queue(call, session, size, 1)
    call.store.check_sample_room(size)


def put_samples(call: RunCall) -> Reply:
    """Store a batch or a bundle."""
    body = _Body(call)
    if is_bundle(call.head.content_type):
        return _put_bundle(call, body)
    return _put_batch(call, body)


class _Body:
    """The body of a request: bytes of its frame, or a mapped file."""

    def __init__(self, call: RunCall) -> None:
        self.name = call.head.file
        # Once nothing refers to the view, the file is no longer mapped.
        self.view = memoryview(call.body)
        self.digests: dict[int, bytes] = {}
        if self.name:
            self.digests = digests_of(call.body)
            descriptor = call.store.files.open(self.name)
            try:
                if os.fstat(descriptor).st_size:
                    mapped = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
                    self.view = memoryview(mapped)
            finally:
                os.close(descriptor)

    def part(self, offset: int, size: int) -> bytes | FileSlice:
        """Return a part of it as it is stored."""
        if self.name:
            return FileSlice(self.name, offset, size)
        return bytes(self.view[offset : offset + size])


def _session_of(call: RunCall) -> SessionRow | None:
    session = call.args.get("session", "")
    if not session and is_bundle(call.head.content_type):
        # The heads of the batches name it.
        return None
    return find_session(call, session)


def _head_of(call: RunCall) -> BatchHead:
    """Return the head of a batch that the query describes."""
    args = call.args
    if "number" not in args:
        raise MissingParameter("number")
    content_type = call.head.content_type or OCTETS
    if not _is_media_type(content_type):
        raise BadParameter(
            f"the Content-Type is {content_type!r:.80}: expected up to 255 printable "
            "ASCII characters"
        )
    return BatchHead(
        args["session"],
        args["number"],
        args.get("policy", SAMPLES_SEND["policy"].default),
        args.get("count", SAMPLES_SEND["count"].default),
        args.get("dropped", SAMPLES_SEND["dropped"].default),
        content_type,
        digest=call.head.digest,
    )


def _put_batch(call: RunCall, body: _Body) -> Reply:
    session = find_session(call, call.args.get("session", ""))
    head = _head_of(call)
    digest = bytes.fromhex(call.head.digest)
    sent = _Sent(head, body.part(0, len(body.view)), body.view, digest)
    group = _Group(call, session, len(body.view))
    try:
        stored = group.add(sent)
    except Stale:
        # Its number is used up.
        group.flush()
        raise
    group.flush()
    answer: dict[str, Any] = {"next": session.next, "version": call.run.totals.version}
    if not stored:
        return Reply.of(200, {"stored": False, **answer})
    (row,) = group.rows
    return Reply.of(201, {"position": row.position, "stale": row.stale, **answer})


def _put_bundle(call: RunCall, body: _Body) -> Reply:
    group: _Group | None = None
    problem: Problem | None = None
    try:
        for sent in _batches(body):
            if group is None:
                session = _only_session(call, sent.head.session)
                group = _Group(call, session, len(body.view))
            elif sent.head.session != group.session.session:
                raise BadParameter(
                    "the bundle has batches of several sessions: send one bundle for "
                    "each session"
                )
            call.batches += 1
            group.add(sent)
    except BundleError as error:
        problem = BadParameter(f"the bundle is malformed: {error}")
    except Problem as error:
        problem = error
    if group is None:
        raise problem or BadParameter("the bundle has no batches: expected one or more")
    if problem is not None and problem.status in (413, 429, 503, 507):
        # The sender sends all of it again.
        raise problem
    group.flush()
    if problem is not None:
        problem.extras |= {"next": group.session.next, "stored": len(group.rows)}
        raise problem
    return Reply.of(
        201,
        {
            "stored": len(group.rows),
            "repeated": group.repeated,
            "next": group.session.next,
            "last": call.run.totals.stored,
            "version": call.run.totals.version,
        },
    )


def _batches(body: _Body) -> Iterator[_Sent]:
    for number, (head, offset, size) in enumerate(split(body.view)):
        view = body.view[offset : offset + size]
        digest = body.digests.get(number, b"")
        yield _Sent(head, body.part(offset, size), view, digest)


def _only_session(call: RunCall, session: str) -> SessionRow:
    given = call.args.get("session")
    if given and given != session:
        raise BadParameter(
            f"the parameter session is {given!r:.80}, and the batches are of session "
            f"{session!r}: expected one session"
        )
    return find_session(call, session)


class _Group:
    """The batches of one request, checked one after the other, stored together.

    Args:
        call: The request.
        session: The session of its batches.
        size: Bytes of all of them.

    Attributes:
        session: The session.
        rows: The batches to store.
        repeated: Batches that had been stored before.
    """

    def __init__(self, call: RunCall, session: SessionRow, size: int) -> None:
        self.session = session
        # Then no batch needs a look at the queue.
        self._all_fit = _fit_in_any_case(call, size)
        if call.now - session.seen > SEEN_SECONDS:
            # It is seen even if its batches are refused.
            session.seen = call.now
            call.store.changed(session)
        self.rows: list[BatchRow] = []
        self.repeated = 0
        self._call = call
        # The session's members as they will be.
        self._next = session.next
        self._dropped = 0
        self._stale = 0
        self._bytes = 0
        self._transitions = 0
        self._policy = session.policy
        self._json_bytes = 0
        # Digests of the batches to store, by number.
        self._added: dict[int, bytes] = {}

    def add(self, sent: _Sent) -> bool:
        """Check a batch, and add it to those to store unless it was stored before.

        Returns:
            Whether it is stored with the others.

        Raises:
            Problem: The batch is refused.
        """
        call, head, size = self._call, sent.head, len(sent.view)
        if head.number < self._next:
            self._check_repeated(sent)
            self.repeated += 1
            return False
        if head.number != self._next + head.dropped:
            raise Gap(
                f"batch {head.number} of the session does not follow: expected number "
                f"{self._next}"
                + (f" + {head.dropped} dropped" if head.dropped else "")
                + "; send the missing batches first, or say how many were dropped",
                extras={"next": self._next},
            )
        if head.policy > call.run.totals.version:
            _check_policy(call, head)
        if head.count > MOST_COUNT or head.dropped > MOST_COUNT:
            COUNT.read(head.count, "count")
            COUNT.read(head.dropped, "dropped")
        digest = _check_digest(sent)
        if call.live.columns is not None and not head.packing:
            self._check_columns(call.live.columns, sent)
        limits = call.live.limits
        lag = call.run.totals.version - head.policy
        stale = limits.max_lag is not None and lag > limits.max_lag
        if stale and limits.stale == "refuse":
            self._dropped += head.dropped
            self._stale += 1
            self._next = head.number + 1
            raise Stale(
                f"batch {head.number} was made with version {head.policy}, {lag} "
                f"behind the newest: this run refuses more than {limits.max_lag}",
                extras={
                    "next": self._next,
                    "lag": lag,
                    "version": call.run.totals.version,
                },
            )
        if not self._all_fit:
            _check_queue(
                call,
                self.session,
                self._bytes + size,
                len(self.rows) + 1,
                self._transitions,
            )
        self._dropped += head.dropped
        self._next = head.number + 1
        self._bytes += size
        self._transitions += head.count
        self._policy = head.policy
        self._added[head.number] = digest
        self.rows.append(
            BatchRow(
                head.number,
                head.policy,
                head.count,
                sent.body,
                digest,
                head.content_type,
                head.packing,
                head.unpacked,
                lag,
                stale,
                call.now,
            )
        )
        return True

    def flush(self) -> None:
        """Store the batches that were added, and count all others.

        Raises:
            StorageFull: There is no room; nothing is stored or counted.
        """
        call, session, totals = self._call, self.session, self._call.run.totals
        if self.rows:
            call.store.append(call.run, session, self.rows)
            session.last = totals.stored
            call.live.rates.add(
                call.now, len(self.rows), self._transitions, self._bytes
            )
            call.touched = SAMPLES
        session.sent += len(self.rows) + self._stale + self._dropped
        session.dropped += self._dropped
        session.stale += self._stale
        session.next = self._next
        session.policy = self._policy
        session.seen = call.now
        session.ended = False
        totals.dropped += self._dropped
        totals.stale += self._stale
        totals.repeated += self.repeated
        totals.last = call.now
        call.store.changed(session)
        call.store.changed(call.run)

    def _check_columns(
        self, declared: Mapping[str, DeclaredColumn], sent: _Sent
    ) -> None:
        head, size = sent.head, len(sent.view)
        if is_json(head.content_type):
            self._json_bytes += size
            # A single batch has its own limit.
            if size < self._json_bytes > MAX_JSON_BYTES:
                raise BundleTooLarge(
                    f"the bundle has more than {MAX_JSON_BYTES} bytes of JSON, which "
                    "this run checks: send some of the batches in further bundles",
                    extras={"limit": MAX_JSON_BYTES},
                )
        try:
            check_columns(declared, head.count, head.content_type, sent.view)
        except BadColumns as problem:
            problem.extras["next"] = self._next
            raise

    def _check_repeated(self, sent: _Sent) -> None:
        number = sent.head.number
        known = self._added.get(number)
        if known is None:
            known = self._call.store.digest(self.session, number)
        # Of a batch that was dropped or refused, or that is too old, none is kept.
        if known and known != _digest_like(known, sent):
            raise KeyReused(
                f"batch {number} of the session was stored with other content: begin a "
                "new session for other batches",
                extras={"next": self._next},
            )


def _digest_like(known: bytes, sent: _Sent) -> bytes:
    """Return the digest of a batch by the hash function of another digest.

    A large batch, which has another digest, counts as the same.
    """
    short = len(known) == XXH3_BYTES
    named = sent.head.checksum if short else sent.head.digest
    if named:
        return bytes.fromhex(named)
    if len(sent.digest) == len(known):
        return sent.digest
    if len(sent.view) > MOST_HASHED_BYTES:
        # All other requests would wait meanwhile.
        return known
    return (xxhash.xxh3_64 if short else hashlib.sha256)(sent.view).digest()


def _check_digest(sent: _Sent) -> bytes:
    """Compare a batch with the digest or checksum that its head names; return it."""
    digest, head = sent.digest, sent.head
    if not digest:
        computed = hash_for(head)
        computed.update(sent.view)
        digest = computed.digest()
    named = head.digest or head.checksum
    if named and named != digest.hex():
        what = "XXH3" if len(digest) == XXH3_BYTES else "SHA-256"
        raise DigestMismatch(
            f"the body of batch {head.number} has the {what} {digest.hex()}, and its "
            f"head names {named}: it was changed on its way; send it again"
        )
    return digest


def _check_policy(call: RunCall, head: BatchHead) -> None:
    newest = call.run.totals.version
    if head.policy > newest:
        raise BadParameter(
            f"policy is {head.policy}, a version that was not published: expected an "
            f"integer from 0 to {newest}"
        )


def _fit_in_any_case(call: RunCall, size: int) -> bool:
    """Whether batches of so many bytes fit into the queue, however many they are."""
    limits, totals = call.live.limits, call.run.totals
    most = 1 + size // HEADER.size
    return (
        call.live.limiter is None
        and 2 * (totals.queue_bytes + size) <= limits.queue_bytes
        and totals.waiting + totals.leased + most <= limits.queue_batches
    )


def _check_queue(
    call: RunCall,
    session: SessionRow | None,
    size: int,
    batches: int,
    transitions: int = 0,
) -> None:
    """Check that the queue has room.

    Args:
        call: The request.
        session: Its session.
        size: Bytes of its batches.
        batches: Their number.
        transitions: Transitions of the batches before the last one.

    Raises:
        RunQueueFull: The queue is full.
        ShareUsedUp: The worker holds its share of the queue, and it is half full.
        LimiterWaits: The limiter holds batches back.
    """
    limits, totals = call.live.limits, call.run.totals
    waiting = totals.waiting + totals.leased
    held = totals.queue_bytes + size
    retry = {"Retry-After": str(RETRY_SECONDS)}
    if waiting and (
        held > limits.queue_bytes or waiting + batches > limits.queue_batches
    ):
        raise RunQueueFull(
            f"{waiting} batches of {totals.queue_bytes} bytes wait in run "
            f"{call.run.run!r}, and it allows {limits.queue_batches} of "
            f"{limits.queue_bytes} bytes: send this again when a trainer has read some",
            headers=retry,
        )
    if session is not None and 2 * held > limits.queue_bytes:
        _check_share(call, session, size, retry)
    limiter = call.live.limiter
    if limiter is not None and limiter.inserts_wait(
        totals.transitions + transitions, totals.draws
    ):
        inserts = totals.transitions + transitions
        raise LimiterWaits(
            f"the limiter of run {call.run.run!r} waits for draws: "
            f"{inserts} transitions were inserted, {totals.draws} drawn, and the "
            f"difference is {limiter.difference(inserts, totals.draws):g}, above "
            f"{limiter.max_diff:g}; send this again later",
            headers=retry,
        )


def _check_share(
    call: RunCall, session: SessionRow, size: int, headers: dict[str, str]
) -> None:
    limits = call.live.limits
    # Itself at least, though it may have been silent until now.
    workers = max(1, call.live.workers(call.now))
    share = limits.queue_bytes / workers
    held = call.run.worker_bytes.get(session.worker, 0)
    if workers > 1 and held and held + size > share:
        raise ShareUsedUp(
            f"worker {session.worker!r} holds {held} bytes of the queue, which is "
            f"more than half full: {workers} workers have {math.floor(share)} bytes "
            "each; send this again when a trainer has read some",
            headers=headers,
        )
