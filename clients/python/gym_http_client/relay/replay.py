"""Replay buffers: transitions in preallocated columns, drawn at random."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Limiter", "PrioritizedReplay", "Replay"]

Column = npt.NDArray[Any]
Columns = dict[str, Column]
Rows = npt.NDArray[np.int64]

_OBSERVATIONS, _NEXT = "observations", "next_observations"
_STEPS = ("actions", "rewards", "terminated", "truncated")
# A priority of 0 would exclude a transition from all later draws.
_LEAST_PRIORITY = 1e-6
# Members of an episode that are not one row for each transition.
_OTHERS = frozenset({_OBSERVATIONS, "infos", "length", "return", "scalars"})


class HasColumns(Protocol):
    """What has the columns of a batch, such as a `Batch`."""

    @property
    def columns(self) -> Mapping[str, Any]:
        """The columns, by the names that a rollout answers."""


class Limiter:
    """Holds draws back while there are too many for the transitions that were added.

    It is the drawing side of Reverb's ``SampleToInsertRatio``; the relay is the other.

    Args:
        samples_per_insert: How often a transition is to be drawn, on average.
        min_size: Number of transitions that must have been added before any draw.
        min_diff: Lower bound of added x `samples_per_insert` - draws.
    """

    def __init__(
        self, samples_per_insert: float, min_size: int, min_diff: float
    ) -> None:
        self.samples_per_insert = samples_per_insert
        self.min_size = min_size
        self.min_diff = min_diff

    def allows(self, count: int, added: int, draws: int) -> bool:
        """Return whether so many transitions may be drawn now.

        Args:
            count: Number of transitions to draw.
            added: Number of transitions that were added.
            draws: Number of transitions that were drawn.
        """
        difference = added * self.samples_per_insert - draws - count
        return added >= self.min_size and difference >= self.min_diff


class Replay:
    """The newest transitions, of which each is drawn with the same probability.

    An observation is stored once: it is the next observation of one transition and the
    observation of the following one. So each batch takes one row more than it has
    transitions.

    Args:
        capacity: Number of rows. The oldest ones are overwritten.
        seed: Seed of the draws.

    Attributes:
        added: Number of transitions that were added.
        draws: Number of transitions that were drawn.
        limiter: Holds draws back; a trainer sets it if the run has one.
    """

    def __init__(self, capacity: int, *, seed: int | None = None) -> None:
        if capacity < 2:
            raise ValueError(f"capacity is {capacity}: expected 2 rows or more")
        self.capacity = capacity
        self.added = 0
        self.draws = 0
        self.limiter: Limiter | None = None
        self._generator = np.random.default_rng(seed)
        self._columns: Columns = {}
        # Whether a transition begins in the row. The last observation of a batch is in
        # a row in which none does.
        self._begins = np.zeros(capacity, np.bool_)
        self._size = 0
        self._next = 0
        self._used = 0

    def __len__(self) -> int:
        return self._size

    def ready(self, count: int) -> bool:
        """Return whether so many transitions may be drawn now.

        There must be as many in the buffer, and the run's limiter must allow it.
        """
        if self._size < count or not self._size:
            return False
        limiter = self.limiter
        return limiter is None or limiter.allows(count, self.added, self.draws)

    def add(self, batch: HasColumns | Mapping[str, Any]) -> int:
        """Add the transitions of a batch, and return their number.

        Args:
            batch: A batch, or its columns: ``observations`` has a row more than
                ``actions``, ``rewards``, ``terminated`` and ``truncated``. Every other
                array with a row for each transition is stored, too.

        Raises:
            ValueError: A column is missing, is not an array, or differs from those of
                earlier batches in dtype or shape.
        """
        columns, count = _rows_of(
            batch if isinstance(batch, Mapping) else batch.columns
        )
        if not count:
            return 0
        if not self._columns:
            self._allocate(columns)
        self._check(columns)
        self.added += count
        # Of a batch that is larger than the buffer, the end is kept.
        skipped = max(0, count + 1 - self.capacity)
        kept = count - skipped
        for rows, part in self._parts(kept + 1):
            for name, values in columns.items():
                taken = values[skipped:][part]
                self._columns[name][rows.start : rows.start + len(taken)] = taken
            self._forget(rows)
        begun = self._row(self._next + np.arange(kept))
        self._begins[begun] = True
        self._began(begun)
        self._size += kept
        self._next = (self._next + kept + 1) % self.capacity
        self._used = min(self.capacity, self._used + kept + 1)
        return count

    def draw(self, count: int) -> Columns:
        """Draw transitions with replacement.

        Returns:
            Columns of `count` rows: ``observations``, ``actions``, ``rewards``,
            ``next_observations``, ``terminated``, ``truncated`` and what else the
            batches had. After a terminated transition there is no future reward; after
            a truncated one there would have been, so that only ``terminated`` ends a
            bootstrapped return.

        Raises:
            ValueError: The buffer is empty.
        """
        return self._gather(self._drawn(count))

    def _drawn(self, count: int) -> Rows:
        if not self._size:
            raise ValueError("the replay buffer is empty: add batches before draw")
        self.draws += count
        return self._rows(count)

    def _rows(self, count: int) -> Rows:
        """Draw rows in which transitions begin."""
        rows = self._generator.integers(0, self._used, count)
        while True:
            (missed,) = np.nonzero(~self._begins[rows])
            if not len(missed):
                return rows
            rows[missed] = self._generator.integers(0, self._used, len(missed))

    def _gather(self, rows: Rows) -> Columns:
        drawn = {name: column.take(rows, 0) for name, column in self._columns.items()}
        drawn[_NEXT] = self._columns[_OBSERVATIONS].take(self._row(rows + 1), 0)
        return drawn

    def _row(self, number: Rows) -> Rows:
        return number % self.capacity

    def _parts(self, count: int) -> list[tuple[slice, slice]]:
        """Return the next rows, with the parts of a batch that go there."""
        start = self._next
        first = min(count, self.capacity - start)
        parts = [(slice(start, start + first), slice(0, first))]
        if count > first:
            parts.append((slice(0, count - first), slice(first, count)))
        return parts

    def _forget(self, rows: slice) -> None:
        """Forget the transitions in rows that are overwritten."""
        self._size -= int(np.count_nonzero(self._begins[rows]))
        self._begins[rows] = False

    def _began(self, rows: Rows) -> None:
        """Note that transitions now begin in these rows."""

    def _allocate(self, columns: Columns) -> None:
        self._columns = {
            name: np.zeros((self.capacity, *values.shape[1:]), values.dtype)
            for name, values in columns.items()
        }

    def _check(self, columns: Columns) -> None:
        if columns.keys() != self._columns.keys():
            raise ValueError(
                f"the batch has the columns {sorted(columns)}: expected "
                f"{sorted(self._columns)}, as earlier batches had"
            )
        for name, values in columns.items():
            stored = self._columns[name]
            if values.dtype != stored.dtype or values.shape[1:] != stored.shape[1:]:
                raise ValueError(
                    f"{name} has rows of {values.dtype} {values.shape[1:]}: expected "
                    f"{stored.dtype} {stored.shape[1:]}, as in earlier batches"
                )


class PrioritizedReplay(Replay):
    """The newest transitions, drawn in proportion to their priority.

    A draw also has ``indices``, for `update`, and ``weights``: the importance of each
    transition, by which its loss is multiplied. The largest possible weight is 1. A new
    transition has the highest priority so far.

    Args:
        capacity: As for `Replay`.
        alpha: Exponent of priorities: 0 draws uniformly, 1 in proportion.
        beta: Exponent of the weights: 1 corrects the priorities entirely. It may be
            changed between draws.
        seed: Seed of the draws.
    """

    def __init__(
        self,
        capacity: int,
        *,
        alpha: float = 0.6,
        beta: float = 0.4,
        seed: int | None = None,
    ) -> None:
        super().__init__(capacity, seed=seed)
        self.alpha = alpha
        self.beta = beta
        self._highest = 1.0
        # Binary trees in arrays: node n has the children 2n and 2n + 1. The leaves are
        # the rows.
        self._leaves = 1 << (capacity - 1).bit_length()
        self._sums = np.zeros(2 * self._leaves)
        self._least = np.full(2 * self._leaves, np.inf)
        # Which transition is in a row, so that no update goes to a later one.
        self._numbers = np.zeros(capacity, np.int64)
        self._number = 0

    def draw(self, count: int) -> Columns:
        """Draw transitions by priority; see `Replay.draw`.

        Returns:
            Its columns, with ``indices`` (int64) and ``weights`` (float64).
        """
        rows = self._drawn(count)
        drawn = self._gather(rows)
        total = self._sums[1]
        chances = self._sums[rows + self._leaves] / total
        least = self._least[1] / total
        drawn["weights"] = (least / chances) ** self.beta
        drawn["indices"] = self._numbers[rows] * self.capacity + rows
        return drawn

    def update(self, indices: Rows, priorities: npt.ArrayLike) -> None:
        """Set the priorities of transitions that were drawn.

        Transitions that were overwritten since are ignored.

        Args:
            indices: The ``indices`` of a draw.
            priorities: Their new priorities, such as absolute errors; not negative.

        Raises:
            ValueError: A priority is negative or not finite.
        """
        numbers, rows = np.divmod(np.asarray(indices, np.int64), self.capacity)
        values = np.asarray(priorities, np.float64)
        if not (np.isfinite(values).all() and (values >= 0).all()):
            raise ValueError("a priority is negative or not finite: expected 0 or more")
        values = np.maximum(np.broadcast_to(values, rows.shape), _LEAST_PRIORITY)
        kept = self._begins[rows] & (self._numbers[rows] == numbers)
        rows, values = rows[kept], values[kept]
        if len(rows):
            self._highest = max(self._highest, float(values.max()))
            powered = values**self.alpha
            self._set(rows, powered, powered)

    def _rows(self, count: int) -> Rows:
        targets = self._generator.random(count) * self._sums[1]
        nodes = np.ones(count, np.int64)
        sums = self._sums
        for _ in range(self._leaves.bit_length() - 1):
            nodes <<= 1
            left = sums.take(nodes)
            right = targets >= left
            targets -= left * right
            nodes += right
        rows = nodes - self._leaves
        # Rounding may lead to a leaf without priority beside the right one.
        bad = (rows >= self.capacity) | ~self._begins[rows % self.capacity]
        if bad.any():
            rows[bad] = super()._rows(int(bad.sum()))
        return rows

    def _forget(self, rows: slice) -> None:
        super()._forget(rows)
        gone = np.arange(rows.start, rows.stop)
        self._set(gone, np.float64(0.0), np.float64(np.inf))

    def _began(self, rows: Rows) -> None:
        self._number += 1
        self._numbers[rows] = self._number
        priority = np.float64(self._highest**self.alpha)
        self._set(rows, priority, priority)

    def _set(self, rows: Rows, sums: Any, least: Any) -> None:
        nodes = rows + self._leaves
        self._sums[nodes] = sums
        self._least[nodes] = least
        while nodes[0] > 1:
            nodes = nodes >> 1
            # Neighbours have the same parent.
            if len(nodes) > 1:
                nodes = nodes[np.concatenate(([True], nodes[1:] != nodes[:-1]))]
            left, right = 2 * nodes, 2 * nodes + 1
            self._sums[nodes] = self._sums[left] + self._sums[right]
            self._least[nodes] = np.minimum(self._least[left], self._least[right])


def _rows_of(batch: Mapping[str, Any]) -> tuple[Columns, int]:
    """Return the columns that are stored, each with a row more than transitions."""
    for name in (_OBSERVATIONS, *_STEPS):
        if name not in batch:
            raise ValueError(
                f"the batch has no {name}: expected the columns of a rollout. It has "
                f"{sorted(map(str, batch))}"
            )
        if not isinstance(batch[name], np.ndarray):
            raise ValueError(
                f"{name} is a {type(batch[name]).__name__}: expected one array. Make "
                "arrays of them in a hook: Trainer(..., after_receiving=hook)"
            )
    count = len(batch["rewards"])
    if len(batch[_OBSERVATIONS]) != count + 1:
        raise ValueError(
            f"observations has {len(batch[_OBSERVATIONS])} rows: expected "
            f"{count + 1}, one more than the {count} rewards"
        )
    columns = {_OBSERVATIONS: batch[_OBSERVATIONS]}
    for name, values in batch.items():
        if name in _OTHERS or not isinstance(values, np.ndarray) or not values.ndim:
            continue
        if len(values) == count:
            columns[name] = values
        elif name in _STEPS:
            raise ValueError(f"{name} has {len(values)} rows: expected {count}")
    return columns, count
