"""Decides which entries a full store forgets, so that each owner has a share of it.

The owner that has most loses its oldest entry. So an owner that adds many pushes out
its own, and a store that one owner has for itself forgets the oldest.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Retention"]

Key = TypeVar("Key", bound=Hashable)


class Retention(Generic[Key]):
    """The keys of a store's entries, by owner.

    Args:
        most: Sum of the sizes that the store has room for.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._owners: dict[Key, str] = {}
        # Sizes by owner, the oldest first.
        self._kept: dict[str, dict[Key, int]] = {}
        self._sums: dict[str, int] = {}

    def add(self, key: Key, owner: str, size: int = 1) -> list[Key]:
        """Add an entry, or replace the one with its key; return those to forget."""
        self.discard(key)
        self._owners[key] = owner
        self._kept.setdefault(owner, {})[key] = size
        self._sums[owner] = self._sums.get(owner, 0) + size
        forgotten = []
        while sum(self._sums.values()) > self._most:
            largest = max(self._sums, key=self._sums.__getitem__)
            oldest = next(iter(self._kept[largest]))
            self.discard(oldest)
            forgotten.append(oldest)
        return forgotten

    def discard(self, key: Key) -> None:
        """Remove an entry, if it is there."""
        owner = self._owners.pop(key, None)
        if owner is not None:
            self._sums[owner] -= self._kept[owner].pop(key)
            if not self._kept[owner]:
                del self._kept[owner], self._sums[owner]
