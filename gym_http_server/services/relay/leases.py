"""Leases: batches for consumers that share them, at least once each.

A batch is delivered again if its lease ends without an acknowledgement. After several
deliveries it is set aside. `Leases` decides that without I/O: the time is a parameter,
and it returns the rows that changed, which its caller puts into the store.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from gym_http_server.services.relay.rows import (
    BatchRow,
    LeaseRow,
    LeaseState,
    ReaderRow,
    RunRow,
)
from gym_http_server.services.relay.store import Store

__all__ = ["SILENT_S", "Leases", "deliver", "readers_floor"]

#: A reader that was silent for so long no longer holds batches back.
SILENT_S = 7 * 86400.0


def readers_floor(readers: Iterable[ReaderRow], now: float) -> int | None:
    """Return the position that all readers are past, or ``None`` without readers.

    Args:
        readers: All readers of a run.
        now: Seconds since 1970.
    """
    return min(
        (each.after for each in readers if now - each.seen < SILENT_S), default=None
    )


class Leases:
    """The leases of a run.

    Args:
        run_id: Number of the run, which is part of the IDs of its leases.
        lease_s: Duration of a lease, in seconds.
        deliveries: Number of deliveries after which a batch is set aside.
        rows: Leases in the store.
    """

    def __init__(
        self, run_id: int, lease_s: float, deliveries: int, rows: Iterable[LeaseRow]
    ) -> None:
        self._run_id = run_id
        self._lease_s = lease_s
        self._deliveries = deliveries
        self._rows: dict[int, LeaseRow] = {}
        self._ends: list[tuple[float, int]] = []
        self._returned: list[int] = []
        for row in rows:
            self._keep(row)

    @property
    def next_end(self) -> float | None:
        """When the next lease ends, in seconds since 1970, or ``None``."""
        while self._ends:
            until, position = self._ends[0]
            row = self._rows.get(position)
            if row and row.state == LeaseState.LEASED and row.until == until:
                return until
            heapq.heappop(self._ends)
        return None

    def returned(self, most: int) -> list[int]:
        """List positions of batches that must be delivered again, the oldest first."""
        found: list[int] = []
        while self._returned and len(found) < most:
            position = heapq.heappop(self._returned)
            row = self._rows.get(position)
            if row and row.state == LeaseState.RETURNED and position not in found[-1:]:
                found.append(position)
        for position in found:
            heapq.heappush(self._returned, position)
        return found

    def lease(self, position: int, now: float) -> tuple[str, LeaseRow]:
        """Lease a batch that was never leased, or that returned.

        Returns:
            The ID of the lease, and its row.
        """
        known = self._rows.get(position)
        delivery = known.delivery + 1 if known else 1
        row = LeaseRow(position, LeaseState.LEASED, delivery, now + self._lease_s)
        self._keep(row)
        return f"{self._run_id}-{position}-{delivery}", row

    def expire(self, now: float) -> list[LeaseRow]:
        """End the leases whose time is over; return the rows that changed."""
        changed: list[LeaseRow] = []
        while (until := self.next_end) is not None and until <= now:
            _, position = heapq.heappop(self._ends)
            changed.append(self._give_back(self._rows[position]))
        return changed

    def ack(self, leases: Iterable[str], past: int) -> tuple[list[LeaseRow], list[str]]:
        """Acknowledge batches. A lease that has ended counts until the next delivery.

        Args:
            leases: IDs of leases.
            past: Position that readers are past: the last one if there are none.

        Returns:
            The rows that changed, and the leases that are unknown.
        """
        changed: list[LeaseRow] = []
        unknown: list[str] = []
        for lease in leases:
            row = self._find(lease)
            if row is None:
                unknown.append(lease)
                continue
            del self._rows[row.position]
            consumed = row.position <= past
            state = LeaseState.CONSUMED if consumed else LeaseState.ACKED
            changed.append(LeaseRow(row.position, state, row.delivery, 0.0))
        return changed, unknown

    def nack(self, leases: Iterable[str]) -> tuple[list[LeaseRow], list[str]]:
        """Return batches at once.

        Returns:
            The rows that changed, and the leases that are unknown.
        """
        changed: list[LeaseRow] = []
        unknown: list[str] = []
        for lease in leases:
            row = self._find(lease)
            if row is None or row.state != LeaseState.LEASED:
                unknown.append(lease)
            else:
                changed.append(self._give_back(row))
        return changed, unknown

    def _give_back(self, row: LeaseRow) -> LeaseRow:
        done = row.delivery >= self._deliveries
        state = LeaseState.ASIDE if done else LeaseState.RETURNED
        changed = LeaseRow(row.position, state, row.delivery, 0.0)
        self._keep(changed)
        return changed

    def _keep(self, row: LeaseRow) -> None:
        if row.state == LeaseState.LEASED:
            heapq.heappush(self._ends, (row.until, row.position))
        elif row.state == LeaseState.RETURNED:
            heapq.heappush(self._returned, row.position)
        else:
            self._rows.pop(row.position, None)
            return
        self._rows[row.position] = row

    def _find(self, lease: str) -> LeaseRow | None:
        parts = lease.split("-")
        if len(parts) != 3 or not all(
            part.isascii() and part.isdecimal() and len(part) < 20 for part in parts
        ):
            return None
        run_id, position, delivery = map(int, parts)
        row = self._rows.get(position)
        if row is None or run_id != self._run_id or row.delivery != delivery:
            return None
        return row


def deliver(
    store: Store,
    run: RunRow,
    leases: Leases,
    now: float,
    *,
    max_bytes: int,
    max_batches: int,
) -> list[BatchRow]:
    """Lease the next batches of a run: those that returned, or else new ones.

    Args:
        store: The store, in a transaction.
        run: The run.
        leases: Its leases.
        now: Seconds since 1970.
        max_bytes: Most bytes of all bodies; one batch may be larger.
        max_batches: Most batches.

    Returns:
        The batches, with lease and delivery; empty if there are none.
    """
    for row in leases.expire(now):
        store.put_lease(run, row)
    found = store.batches_at(run, leases.returned(max_batches), max_bytes=max_bytes)
    if not found:
        totals = run.totals
        after = max(totals.cursor, totals.consumed_to)
        found = store.batches(run, after, max_bytes=max_bytes, max_batches=max_batches)
    for batch in found:
        batch.lease, row = leases.lease(batch.position, now)
        batch.delivery = row.delivery
        store.put_lease(run, row)
    return found
