"""The relay without its sockets: executes requests over the store."""

from __future__ import annotations

from collections.abc import Callable, Container

import msgspec

from gym_http_server.errors import BodyTooLarge, UnknownRun
from gym_http_server.services.relay import delivery, runs, samples, sessions, weights
from gym_http_server.services.relay.calls import (
    BLOBS,
    SAMPLES,
    LiveRun,
    Reply,
    Request,
    RunCall,
)
from gym_http_server.services.relay.files import INLINE_BYTES
from gym_http_server.services.relay.messages import ADMITTED, RelaySettings
from gym_http_server.services.relay.roles import authorize, find_token
from gym_http_server.services.relay.store import Store
from gym_http_wire.messages import Op
from gym_http_wire.problems import BadParameter

__all__ = ["Relay"]

#: Seconds between two looks for silent readers and for files that belong to nobody.
READERS_SECONDS = 60.0

#: A handler returns ``None`` if the request waits.
_HANDLERS: dict[int, Callable[[RunCall], Reply | None]] = {
    Op.RUN_STATUS: runs.status,
    Op.RUN_DELETE: runs.delete_run,
    Op.TOKEN_CREATE: runs.create_token,
    Op.TOKEN_LIST: runs.list_tokens,
    Op.TOKEN_DELETE: runs.delete_token,
    Op.SESSION_CREATE: sessions.create_session,
    Op.SESSION_STATUS: sessions.session_status,
    Op.SESSION_END: sessions.end_session,
    Op.SAMPLES_PUT: samples.put_samples,
    Op.SAMPLES_GET: delivery.get_samples,
    Op.READER_PUT: delivery.put_reader,
    Op.READER_GET: delivery.get_reader,
    Op.READER_DELETE: delivery.delete_reader,
    Op.LEASE: delivery.lease,
    Op.ACK: delivery.acknowledge,
    Op.NACK: delivery.give_back,
    Op.ASIDE: delivery.get_aside,
    Op.WEIGHTS_PUT: weights.put_blob,
    Op.WEIGHTS_GET: weights.get_blob,
    Op.STATE_PUT: weights.put_blob,
    Op.STATE_GET: weights.get_blob,
    Op.RECORDS_PUT: runs.put_records,
    Op.RECORDS_GET: runs.get_records,
}
_ADMISSIONS: dict[int, Callable[[RunCall], None]] = {
    Op.SAMPLES_PUT: samples.admit_samples,
    Op.WEIGHTS_PUT: weights.admit_blob,
    Op.STATE_PUT: weights.admit_blob,
}


class Relay:
    """Executes requests, each between `begin` and `commit` of the store.

    Args:
        store: The store.
        settings: The relay's settings.

    Attributes:
        store: The store.
        batches: Batches of samples that requests had, since the caller set it to 0.
    """

    def __init__(self, store: Store, settings: RelaySettings) -> None:
        self.store = store
        self.batches = 0
        self._settings = settings
        self._keys = runs.RunKeys()
        self._live: dict[int, LiveRun] = {}
        # Runs in which something happened that requests may wait for, and what.
        self._touched: set[tuple[str, str]] = set()
        self._readers_due = 0.0

    def reply(self, request: Request, now: float, *, final: bool) -> Reply | None:
        """Execute a request.

        Args:
            request: The request.
            now: Seconds since 1970.
            final: Whether it may not wait any longer.

        Returns:
            The reply, or ``None`` if the request waits for something to happen.

        Raises:
            Problem: It is refused.
        """
        op, head = request.op, request.head
        asked = head.args.get("op") if op == Op.RELAY_ADMIT else op
        if asked is None:
            run, token = find_token(self.store, head)
            return Reply.of(200, {"run": run, "role": token.role})
        authorize(self.store, asked, head)
        if asked == Op.RUN_CREATE:
            return runs.create_run(self.store, self._keys, request, now)
        if asked == Op.RUN_LIST:
            return runs.list_runs(self.store, now)
        call = RunCall(self.store, self._find(head.run, now), request, now, final)
        if op == Op.RELAY_ADMIT:
            return self._admit(call, asked)
        try:
            reply = _HANDLERS[asked](call)
        finally:
            self.batches += call.batches
        if call.touched:
            self._touched.add((head.run, call.touched))
        if op == Op.RUN_DELETE:
            self._touched |= {(head.run, SAMPLES), (head.run, BLOBS)}
            self._live.pop(call.run.id, None)
        return reply

    def take_touched(self) -> set[tuple[str, str]]:
        """Return what happened that requests may wait for, and forget it.

        Each element is the name of a run, and `SAMPLES` or `BLOBS`.
        """
        touched, self._touched = self._touched, set()
        return touched

    def lease_ended(self, request: Request, now: float) -> bool:
        """Whether a lease has ended whose batch a waiting request can have."""
        if request.op != Op.LEASE:
            return False
        row = self.store.run(request.head.run)
        live = None if row is None else self._live.get(row.id)
        ends = None if live is None else live.leases.next_end
        return ends is not None and ends <= now

    def roll_back(self) -> None:
        """Undo the transaction, and forget what was read in it."""
        self._live.clear()
        self._touched.clear()
        self.store.rollback()

    def end_sessions(self, owners: Container[str], now: float) -> None:
        """Say goodbye for the workers that used the server's tokens of these names."""
        self.store.begin()
        try:
            for row in self.store.runs():
                sessions.end_owned(self.store, row, owners, now)
            self.store.commit()
            self.store.clean_up()
        except BaseException:
            self.roll_back()
            raise

    def maintain(self, now: float) -> bool:
        """Do a step of the work that is left; return whether there is more.

        Args:
            now: Seconds since 1970.
        """
        if now >= self._readers_due:
            self._readers_due = now + READERS_SECONDS
            self.store.begin()
            try:
                for row in self.store.runs():
                    delivery.consume(self.store, self._find(row.run, now), now)
                    sessions.forget_sessions(self.store, self._find(row.run, now), now)
                self.store.commit()
                self.store.clean_up()
            except BaseException:
                self.roll_back()
                raise
            # Of uploads whose web workers died.
            self.store.sweep(READERS_SECONDS)
        return self.store.maintain()

    def _find(self, name: str, now: float) -> LiveRun:
        """Return a run.

        Raises:
            UnknownRun: There is no run of this name.
        """
        row = self.store.run(name)
        if row is None:
            raise UnknownRun(
                f"there is no run {name!r:.80}: create it with POST /v1/runs/, or see "
                "GET /v1/runs/ for those that exist"
            )
        live = self._live.get(row.id)
        if live is None or live.row is not row:
            live = self._live[row.id] = LiveRun(self.store, row, now)
        return live

    def _admit(self, call: RunCall, asked: int) -> Reply:
        if asked not in ADMITTED:
            raise BadParameter(f"operation {asked} uploads nothing")
        most, size = self._settings.max_upload, call.head.size
        if size > most:
            raise BodyTooLarge(
                f"the body has {size} bytes; the server allows {most} here "
                "(--max-upload)"
            )
        admit = _ADMISSIONS.get(asked)
        if admit is not None:
            admit(call)
        room = min(most, self._room()) if size < 0 else size
        reply = Reply.of(200, {"folder": self.store.files.folder, "room": room})
        if 0 <= size <= INLINE_BYTES:
            return reply
        return msgspec.structs.replace(reply, promised=room)

    def _room(self) -> int:
        """Bytes that a body of unknown size may have."""
        used = self.store.used_bytes + self.store.promised
        return max(0, self._settings.disk_limit - used)
