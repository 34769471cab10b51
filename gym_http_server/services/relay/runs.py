"""Runs, their tokens and their records."""

from __future__ import annotations

import hashlib
import os
import secrets
from datetime import UTC, datetime
from typing import Any

import msgspec

from gym_http_server.errors import (
    Gap,
    LimitReached,
    RunExists,
    StorageFull,
    UnknownRunToken,
)
from gym_http_server.operations.runs import (
    MOST_RECORDS,
    RUN_ROLES,
)
from gym_http_server.services.relay.calls import (
    DeclaredColumn,
    Limits,
    Reply,
    Request,
    RunCall,
    read_members,
)
from gym_http_server.services.relay.limiter import Limiter
from gym_http_server.services.relay.records import parse_records, record_line
from gym_http_server.services.relay.rows import RunRow, TokenRow
from gym_http_server.services.relay.sessions import find_session
from gym_http_server.services.relay.status import active_workers, run_status
from gym_http_server.services.relay.store import Store
from gym_http_wire.problems import KeyReused, MissingParameter

__all__ = [
    "RunKeys",
    "create_run",
    "create_token",
    "delete_run",
    "delete_token",
    "get_records",
    "list_runs",
    "list_tokens",
    "put_records",
    "status",
]

#: Seconds for which the answer to the creation of a run is kept.
KEEP_SECONDS = 600.0
MOST_KEYS = 1000
#: Runs of a server, and tokens of a run.
MOST_RUNS = 1000
MOST_TOKENS = 1000
_TOKEN_ID = 8


class NewRun(msgspec.Struct):
    """The checked body of a request to create a run."""

    run: str
    limits: Limits = Limits()
    columns: dict[str, DeclaredColumn] | None = None


class RunKeys:
    """Answers to creations of runs, by idempotency key.

    They are kept in memory only, since they have tokens in them.
    """

    def __init__(self) -> None:
        self._answers: dict[str, tuple[float, bytes, str, Reply]] = {}

    def find(self, store: Store, key: str, body: bytes, now: float) -> Reply | None:
        """Return the answer that was kept, or ``None``.

        Raises:
            KeyReused: Another request had this key.
        """
        while self._answers:
            oldest = next(iter(self._answers))
            if (
                now - self._answers[oldest][0] < KEEP_SECONDS
                and len(self._answers) <= MOST_KEYS
            ):
                break
            del self._answers[oldest]
        if not key or key not in self._answers:
            return None
        _, digest, token, reply = self._answers[key]
        if digest != hashlib.sha256(body).digest():
            raise KeyReused(
                f"the idempotency key {key!r} was used for another request: choose a "
                "new key for each run"
            )
        if store.token(token) is None:
            # The run was deleted, or its transaction was undone: the disk was full.
            del self._answers[key]
            return None
        headers = reply.headers | {"Idempotent-Replayed": "true"}
        return msgspec.structs.replace(reply, headers=headers)

    def keep(self, key: str, body: bytes, now: float, token: str, reply: Reply) -> None:
        """Keep an answer.

        Args:
            key: The idempotency key, or "".
            body: The body of the request.
            now: Seconds since 1970.
            token: SHA-256 in hex of a token in the answer.
            reply: The answer.
        """
        if key:
            digest = hashlib.sha256(body).digest()
            self._answers[key] = (now, digest, token, reply)


def create_run(store: Store, keys: RunKeys, request: Request, now: float) -> Reply:
    """Create a run with a token for each role, or confirm that it exists."""
    kept = keys.find(store, request.head.key, request.body, now)
    if kept is not None:
        return kept
    new = msgspec.convert(read_members(request), NewRun)
    name, limits, columns = new.run, new.limits, new.columns
    if limits.limiter is not None:
        # It refuses settings that end in a deadlock.
        Limiter(limits.limiter)
    known = store.run(name)
    if known is not None:
        return _confirm(known, limits, columns)
    if len(store.runs()) >= MOST_RUNS:
        raise LimitReached(
            f"the server has {MOST_RUNS} runs, which is its limit: delete some with "
            "DELETE /v1/runs/<run>/, or use one that exists",
            extras={"limit": MOST_RUNS},
        )
    row = store.add_run(
        name,
        msgspec.json.encode(limits, order="sorted"),
        None if columns is None else msgspec.json.encode(columns, order="sorted"),
        limits.keep_bytes,
        now,
    )
    try:
        added = [_add_token(store, row, role, now) for role in RUN_ROLES]
    except StorageFull:
        store.delete_run(row)
        raise
    tokens = {each.role: token for each, token in added}
    reply = Reply.of(201, _described(row) | {"tokens": tokens})
    keys.keep(request.head.key, request.body, now, added[0][0].digest, reply)
    return reply


def _confirm(
    known: RunRow, limits: Limits, columns: dict[str, DeclaredColumn] | None
) -> Reply:
    for name, given, there in (
        ("limits", limits, msgspec.json.decode(known.limits, type=Limits)),
        ("columns", columns, _columns_of(known)),
    ):
        if given != there:
            raise RunExists(
                f"the run {known.run!r} exists with other {name}: "
                f"{msgspec.json.encode(there).decode():.1000}; choose another name, or "
                "send the same again",
                extras={name: msgspec.to_builtins(there)},
            )
    tokens = f"/v1/runs/{known.run}/tokens/"
    return Reply.of(200, _described(known) | {"tokens": None, "further_tokens": tokens})


def _columns_of(row: RunRow) -> dict[str, DeclaredColumn] | None:
    if row.columns is None:
        return None
    return msgspec.json.decode(row.columns, type=dict[str, DeclaredColumn])


def _described(row: RunRow) -> dict[str, Any]:
    return {
        "run": row.run,
        "limits": msgspec.Raw(row.limits),
        "columns": None if row.columns is None else msgspec.Raw(row.columns),
        "created": _time(row.created),
    }


def _time(seconds: float) -> str:
    """Return a time as ISO 8601, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def list_runs(store: Store, now: float) -> Reply:
    """List all runs."""
    runs = [
        {
            "run": row.run,
            "created": _time(row.created),
            "last": _time(row.totals.last),
            "queue_batches": row.totals.waiting,
            "queue_bytes": row.totals.queue_bytes,
            "version": row.totals.version,
            "workers": active_workers(store.sessions(row), now),
        }
        for row in store.runs()
    ]
    return Reply.of(200, {"runs": runs})


def status(call: RunCall) -> Reply:
    """Report the status of a run."""
    live = call.live
    described = _described(call.run)
    document = run_status(
        call.store,
        call.run,
        call.now,
        limits=described["limits"],
        columns=described["columns"],
        created=described["created"],
        limiter=live.limiter,
        rates=live.rates.per_second(call.now),
        returns=live.returns,
    )
    return Reply.of(200, document)


def delete_run(call: RunCall) -> Reply:
    """Delete a run with all that belongs to it."""
    call.store.delete_run(call.run)
    return Reply(204)


def create_token(call: RunCall) -> Reply:
    """Make a further token."""
    role = read_members(call)["role"]
    if len(call.store.tokens(call.run)) >= MOST_TOKENS:
        raise LimitReached(
            f"the run {call.run.run!r} has {MOST_TOKENS} tokens, which is the limit: "
            f"revoke some with DELETE /v1/runs/{call.run.run}/tokens/<id>/",
            extras={"limit": MOST_TOKENS},
        )
    row, token = _add_token(call.store, call.run, role, call.now)
    return Reply.of(201, _token(row) | {"token": token})


def list_tokens(call: RunCall) -> Reply:
    """List the tokens of a run, without their secrets."""
    return Reply.of(200, {"tokens": [_token(r) for r in call.store.tokens(call.run)]})


def delete_token(call: RunCall) -> Reply:
    """Revoke a token."""
    if not call.store.delete_token(call.run, call.head.value):
        raise UnknownRunToken(
            f"the run {call.run.run!r} has no token {call.head.value!r:.80}: "
            f"GET /v1/runs/{call.run.run}/tokens/ lists them"
        )
    return Reply(204)


def _add_token(
    store: Store, run: RunRow, role: str, now: float
) -> tuple[TokenRow, str]:
    """Add a token; return its row and the token."""
    token = f"ghr_{secrets.token_urlsafe(32)}"
    digest = hashlib.sha256(token.encode()).hexdigest()
    row = TokenRow(secrets.token_hex(_TOKEN_ID), role, digest, now)
    store.add_token(run, row)
    return row, token


def _token(row: TokenRow) -> dict[str, Any]:
    return {"id": row.id, "role": row.role, "created": _time(row.created)}


# Records


def put_records(call: RunCall) -> Reply:
    """Store the records of one request, once if it is numbered."""
    body = call.body
    if call.head.file:
        with os.fdopen(call.store.files.open(call.head.file), "rb") as file:
            body = file.read()
    session = None
    if "session" in call.args or "number" in call.args:
        session = find_session(call, call.args.get("session", ""))
        if "number" not in call.args:
            raise MissingParameter("number")
        number = call.args["number"]
        if number < session.records_next:
            answer = {"stored": 0, "next": session.records_next}
            return Reply.of(200, answer)
        if number > session.records_next:
            raise Gap(
                f"records {number} of the session do not follow: expected number "
                f"{session.records_next}",
                extras={"next": session.records_next},
            )
    totals = call.run.totals
    worker = session.worker if session else ""
    rows = parse_records(body, call.now, worker=worker, newest=totals.version)
    call.store.add_records(call.run, rows)
    call.live.returns.add(rows)
    answer = {"stored": len(rows)}
    if session is not None:
        session.records_next += 1
        session.seen = call.now
        call.store.changed(session)
        answer["next"] = session.records_next
    call.note_use()
    return Reply.of(201, answer)


def get_records(call: RunCall) -> Reply:
    """Return records as JSON lines."""
    after, type_ = call.args.get("after", 0), call.args.get("type", "")
    limit = min(call.args.get("limit", MOST_RECORDS), MOST_RECORDS)
    rows = call.store.records(call.run, after, limit, type_)
    lines = list(map(record_line, rows))
    return Reply(200, b"", {}, "application/x-ndjson", lines)
