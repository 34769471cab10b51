"""Sessions: the batches of one spool, numbered; and which of them are forgotten."""

from __future__ import annotations

import secrets
from typing import Any

import msgspec

from gym_http_server.errors import LimitReached, UnknownSession
from gym_http_server.relay.calls import Reply, RunCall, name_of, read_json
from gym_http_server.relay.leases import SILENT_S
from gym_http_server.relay.rows import RunRow, SessionRow
from gym_http_server.relay.store import Store
from gym_http_wire.problems import MissingParameter

__all__ = [
    "create_session",
    "end_session",
    "find_session",
    "forget_sessions",
    "session_status",
]

#: Sessions of a run, and how many of them stay however long they are silent.
MOST_SESSIONS = 10_000
KEPT_SESSIONS = 1000


class NewSession(msgspec.Struct):
    """The body of a request for a session."""

    worker: Any = None


def create_session(call: RunCall) -> Reply:
    """Begin a session of a worker."""
    worker = name_of(read_json(call.body, NewSession).worker, "worker")
    if call.store.count_sessions(call.run) >= MOST_SESSIONS:
        forget_sessions(call.store, call.run, call.now)
        if call.store.count_sessions(call.run) >= MOST_SESSIONS:
            raise LimitReached(
                f"the run {call.run.run!r} has {MOST_SESSIONS} sessions, which is the "
                "limit, and none of them can be forgotten: a worker keeps its session "
                "with its spool. Use a new run, or wait until sessions were silent for "
                "7 days",
                extras={"limit": MOST_SESSIONS},
            )
    # Its numbers must not be guessed by another worker.
    row = call.store.add_session(call.run, secrets.token_urlsafe(16), worker, call.now)
    call.note_use()
    return Reply.of(201, {"session": row.session, "next": row.next})


def session_status(call: RunCall) -> Reply:
    """Report a session."""
    row = find_session(call, call.head.value)
    return Reply.of(
        200,
        {
            "session": row.session,
            "worker": row.worker,
            "next": row.next,
            "records_next": row.records_next,
        },
    )


def end_session(call: RunCall) -> Reply:
    """Say goodbye for a worker."""
    row = find_session(call, call.head.value)
    row.ended = True
    row.seen = call.now
    call.store.changed(row)
    call.note_use()
    return Reply(204)


def find_session(call: RunCall, session: str) -> SessionRow:
    """Return a session.

    Raises:
        MissingParameter: The request names none.
        UnknownSession: The run has no such session.
    """
    if not session:
        raise MissingParameter("session")
    row = call.store.session(call.run, session)
    if row is None:
        raise UnknownSession(
            f"the run {call.run.run!r} has no session {session!r:.80}: begin one with "
            f"POST /v1/runs/{call.run.run}/sessions/"
        )
    return row


def forget_sessions(store: Store, run: RunRow, now: float) -> None:
    """Remove sessions that were silent for 7 days, where a run has very many.

    Those with batches in the log stay. The first to go are those silent for longest.
    """
    surplus = store.count_sessions(run) - KEPT_SESSIONS
    if surplus <= 0:
        return
    first = store.first(run)
    silent = [
        row
        for row in store.sessions(run)
        if now - row.seen >= SILENT_S and row.last is not None and row.last < first
    ]
    silent.sort(key=lambda row: row.seen)
    store.delete_sessions(run, silent[:surplus])
