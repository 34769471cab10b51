"""Sessions: the batches of one spool, numbered; and which of them are forgotten."""

from __future__ import annotations

import secrets
from collections.abc import Container

from gym_http_server.errors import TooManySessions, UnknownSession
from gym_http_server.services.relay.calls import LiveRun, Reply, RunCall, read_members
from gym_http_server.services.relay.leases import SILENT_S
from gym_http_server.services.relay.roles import find_token
from gym_http_server.services.relay.rows import RunRow, SessionRow
from gym_http_server.services.relay.store import Store
from gym_http_wire.problems import MissingParameter

__all__ = [
    "create_session",
    "end_owned",
    "end_session",
    "find_session",
    "forget_sessions",
    "session_status",
]

#: Sessions of a run, and how many of them stay however long they are silent.
MOST_SESSIONS = 10_000
KEPT_SESSIONS = 1000
#: Sessions that one token of a run has begun.
MOST_OF_TOKEN = 1000
#: Seconds of silence after which a session may go for another one of the same token,
#: and the same for one that was never used.
IDLE_SECONDS = 3600.0
UNUSED_SECONDS = 60.0
RETRY_SECONDS = 60


def create_session(call: RunCall) -> Reply:
    """Begin a session of a worker."""
    worker = read_members(call)["worker"]
    token = find_token(call.store, call.head)[1].id if call.head.token else ""
    counts = call.live.sessions
    if token and counts[token] >= MOST_OF_TOKEN:
        _make_room(call, token, f"the token {token}", MOST_OF_TOKEN)
    if counts.total() >= MOST_SESSIONS:
        _make_room(call, token, f"the run {call.run.run!r}", MOST_SESSIONS)
    # Its numbers must not be guessed by another worker.
    session = secrets.token_urlsafe(16)
    row = call.store.add_session(call.run, session, worker, call.now, token)
    counts[token] += 1
    if call.head.owner:
        row.owner = call.head.owner
        call.store.changed(row)
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


def end_owned(store: Store, run: RunRow, owners: Container[str], now: float) -> None:
    """Say goodbye for the workers that used the server's tokens of these names."""
    for row in store.sessions(run):
        if row.owner in owners and not row.ended:
            row.ended = True
            row.seen = now
            store.changed(row)


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


def forget_sessions(store: Store, live: LiveRun, now: float) -> None:
    """Remove sessions that were silent for 7 days, where a run has very many.

    Those with batches in the log stay. The first to go are those silent for longest.
    """
    surplus = store.count_sessions(live.row) - KEPT_SESSIONS
    if surplus > 0:
        found = _without_batches(store, live)
        silent = [row for row in found if now - row.seen >= SILENT_S]
        silent.sort(key=lambda row: row.seen)
        _forget(store, live, silent[:surplus])


def _make_room(call: RunCall, token: str, whose: str, most: int) -> None:
    """Remove the idle session of a token that was silent for longest.

    Those that were never used go first.

    Raises:
        TooManySessions: None of them is idle.
    """
    idle = [
        (used, row.seen, row.id, row)
        for row in _without_batches(call.store, call.live)
        if row.token == token
        for used in [row.next > 1 or row.records_next > 1]
        if call.now - row.seen >= (IDLE_SECONDS if used else UNUSED_SECONDS)
    ]
    if not idle:
        raise TooManySessions(
            f"{whose} has {most} sessions, which is the limit, and none of those that "
            "this token has begun is idle: keep the session of a worker with its "
            f"spool, or send this again when one was silent for {IDLE_SECONDS:g} s",
            extras={"limit": most},
            headers={"Retry-After": str(RETRY_SECONDS)},
        )
    _forget(call.store, call.live, [min(idle)[-1]])


def _without_batches(store: Store, live: LiveRun) -> list[SessionRow]:
    """List the sessions that have no batches in the log."""
    first = store.first(live.row)
    return [
        row
        for row in store.sessions(live.row)
        if row.last is not None and row.last < first
    ]


def _forget(store: Store, live: LiveRun, rows: list[SessionRow]) -> None:
    store.delete_sessions(live.row, rows)
    live.sessions.subtract(row.token for row in rows)
