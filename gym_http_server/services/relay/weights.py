"""Weights and the trainer's state: versions that are put under a condition."""

from __future__ import annotations

import hashlib
import re

from gym_http_server.errors import (
    NoState,
    NoWeights,
    PreconditionRequired,
    VersionConflict,
)
from gym_http_server.services.relay.calls import BLOBS, Reply, RunCall
from gym_http_server.services.relay.delivery import ReaderMove, check_move, move_reader
from gym_http_server.services.relay.files import FileSlice
from gym_http_server.services.relay.records import best_version
from gym_http_server.services.relay.rows import BlobRow
from gym_http_server.services.relay.status import etag, worker_states
from gym_http_wire.messages import Op
from gym_http_wire.problems import BadParameter

__all__ = ["admit_blob", "get_blob", "put_blob"]

OCTETS = "application/octet-stream"
BEST = "best"
_TAGS = re.compile(r'(?:W/)?"[^"]*"')
_VERSION = re.compile(r"[1-9][0-9]{0,15}").fullmatch


def admit_blob(call: RunCall) -> None:
    """Check whether an upload would be refused, before its body is read.

    Raises:
        Problem: It would be.
    """
    kind = _kind(call)
    _move_of(call)
    newest = call.store.blob(call.run, kind)
    # Without the digest of the body it may be a repetition, which is confirmed.
    if call.head.digest or not _has_condition(call):
        _check_condition(call, newest, call.head.digest)
    call.store.check_blob_room(max(0, call.head.size))


def put_blob(call: RunCall) -> Reply:
    """Store the next version, and move a reader in the same commit."""
    kind, head = _kind(call), call.head
    body: bytes | FileSlice = call.body
    size = len(call.body)
    digest = head.digest
    if head.file:
        size = call.store.files.size(head.file)
        body = FileSlice(head.file, 0, size)
    elif not digest:
        digest = hashlib.sha256(call.body).hexdigest()
    newest = call.store.blob(call.run, kind)
    repeated = _check_condition(call, newest, digest)
    move = _move_of(call)
    if newest is None or not repeated:
        version = 1 + (
            call.run.totals.version
            if kind == "weights"
            else call.run.totals.state_version
        )
        content_type = head.content_type or OCTETS
        newest = BlobRow(kind, version, digest, content_type, call.now, size, body)
        call.store.add_blob(call.run, newest)
        _drop(call, kind)
        call.touched = BLOBS
    if move is not None:
        move_reader(call, move)
    call.run.totals.last = call.now
    call.store.changed(call.run)
    tag = etag(newest)
    answer = {"version": newest.version, "etag": tag, "bytes": newest.size}
    headers = {"ETag": tag, "Gym-Version": str(newest.version)}
    return Reply.of(200 if repeated else 201, answer, headers)


def get_blob(call: RunCall) -> Reply | None:
    """Return a version, or wait for another one than the caller has."""
    kind = _kind(call)
    found = _find(call, kind)
    if found is None:
        if not call.final and not call.head.value:
            return None
        raise _missing(call, kind)
    tag = etag(found)
    headers = {"ETag": tag, "Gym-Version": str(found.version)}
    if _matches(call.args.get("if_none_match", ""), tag, weak=True):
        if not call.final and not call.head.value:
            return None
        return Reply(304, b"", headers)
    pieces = [found.body] if found.size else []
    return Reply(200, b"", headers, found.content_type, pieces)


def _kind(call: RunCall) -> str:
    op = call.op if call.op != Op.RELAY_ADMIT else call.args["op"]
    return "state" if op in (Op.STATE_PUT, Op.STATE_GET) else "weights"


def _find(call: RunCall, kind: str) -> BlobRow | None:
    value = call.head.value
    if not value:
        return call.store.blob(call.run, kind)
    if value == BEST:
        kept = {blob.version for blob in call.store.blobs(call.run, kind)}
        best = best_version(call.store.evaluations(call.run), kept)
        return None if best is None else call.store.blob(call.run, kind, best.version)
    if not _VERSION(value):
        raise BadParameter(
            f"the version is {value!r:.80}: expected an integer from 1, of at most "
            f"16 digits, or {BEST}"
        )
    return call.store.blob(call.run, kind, int(value))


def _missing(call: RunCall, kind: str) -> NoWeights | NoState:
    name, value = call.run.run, call.head.value
    if kind == "state":
        return NoState(f"no state of the trainer is stored in run {name!r} yet")
    if value == BEST:
        return NoWeights(
            f"no version of the weights of run {name!r} has 5 evaluations yet"
        )
    if not value:
        return NoWeights(f"no weights were published in run {name!r} yet")
    kept = [blob.version for blob in call.store.blobs(call.run, kind)]
    return NoWeights(
        f"version {value} of the weights of run {name!r} is not kept; these are: "
        f"{', '.join(map(str, kept)) or 'none'}",
        extras={"versions": kept},
    )


def _has_condition(call: RunCall) -> bool:
    return bool(call.args.get("if_match") or call.args.get("if_none_match"))


def _matches(header: str, tag: str, *, weak: bool = False) -> bool:
    """Whether a list of tags has a tag, which a proxy may have made weak."""
    if header.strip() == "*":
        return True
    tags = _TAGS.findall(header)
    return tag in tags or (weak and f"W/{tag}" in tags)


def _check_condition(call: RunCall, newest: BlobRow | None, digest: str) -> bool:
    """Check If-Match or If-None-Match; return whether the newest is the same already.

    Raises:
        PreconditionRequired: The request has neither.
        VersionConflict: The condition does not hold.
    """
    if not _has_condition(call):
        raise PreconditionRequired(
            "the request has neither If-Match nor If-None-Match: send If-Match with "
            "the ETag of the version that this one follows, or If-None-Match: * for "
            "the first one"
        )
    if newest is not None and digest and newest.digest == digest:
        # The answer to the same request was lost.
        return True
    tag = "" if newest is None else etag(newest)
    if_match, if_none_match = call.args.get("if_match"), call.args.get("if_none_match")
    held = True
    if if_match:
        held = newest is not None and _matches(if_match, tag)
    if if_none_match and newest is not None and _matches(if_none_match, tag, weak=True):
        held = False
    if held:
        return False
    if newest is None:
        raise VersionConflict(
            f"If-Match is {if_match:.80}, and nothing is stored yet: send "
            "If-None-Match: *",
            extras={"version": 0, "etag": None},
        )
    raise VersionConflict(
        f"the newest version is {newest.version} with ETag {tag}, which is not the one "
        "that this request expects: another trainer was faster; read it first",
        extras={"version": newest.version, "etag": tag},
        headers={"ETag": tag},
    )


def _move_of(call: RunCall) -> ReaderMove | None:
    """Return the move of a reader that the request commits.

    Raises:
        Problem: The reader may not move so.
    """
    reader, after = call.args.get("reader"), call.args.get("after")
    if reader is None and after is None:
        return None
    if reader is None or after is None:
        raise BadParameter(
            "the parameters reader and after belong together: expected both or neither"
        )
    return check_move(call, reader, after, call.args.get("draws"))


def _drop(call: RunCall, kind: str) -> None:
    """Drop the versions that are not needed any more."""
    kept = [blob.version for blob in call.store.blobs(call.run, kind)]
    if kind == "state":
        call.store.drop_blobs(call.run, kind, kept[:-1])
        return
    needed = set(kept[-call.live.limits.keep_weights :])
    best = best_version(call.store.evaluations(call.run), set(kept))
    if best is not None:
        needed.add(best.version)
    needed.update(
        worker.version
        for worker in worker_states(call.store.sessions(call.run), call.now)
        if worker.state == "active"
    )
    old = [version for version in kept if version not in needed]
    if old:
        call.store.drop_blobs(call.run, kind, old)
