"""Local copies of the random generators of remote environments, kept in step."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from gym_http_wire.generators import (
    describe_generator,
    is_same,
    rebuild_generator,
    restore_generator,
)

__all__ = ["SharedGenerators"]

_SET = ("state", "seed_sequence")


class SharedGenerators:
    """The local copies of one instance's generators that `np_random` has returned.

    There is one, or a tuple if each environment of a vector has its own generator. A
    copy without references is dropped once its draws were sent to the server. The
    object is false if it holds no copy.

    Attributes:
        generators: The copies, for reading only.
    """

    def __init__(self) -> None:
        self._many = False
        self.generators: list[np.random.Generator | None] = []
        self._known: list[Any] = []
        self._serials: list[Any] = []

    def __bool__(self) -> bool:
        return bool(self.generators)

    def renew(self, described: dict[str, Any]) -> Any:
        """Set the generators to the server's description, and return them.

        An object is replaced only if the environment's generator was replaced.

        Raises:
            TypeError: The server has a kind of generator that NumPy does not have.
        """
        self._many = isinstance(described["state"], tuple)
        each = _rows(described) if self._many else [described]
        known = self.generators or [None] * len(each)
        serials = self._serials or [None] * len(each)
        self.generators = [
            _renewed(None if serial != row.get("serial") else generator, row)
            for generator, serial, row in zip(known, serials, each, strict=True)
        ]
        self._serials = [row.get("serial") for row in each]
        self.mark_sent()
        return tuple(self.generators) if self._many else self.generators[0]

    def adopt(self, generator: np.random.Generator, described: dict[str, Any]) -> None:
        """Keep a generator in step from now on, of which the server has a copy."""
        self._many = False
        self.generators = [generator]
        self._serials = [described.get("serial")]
        self.mark_sent()

    def release(self) -> None:
        """Drop unchanged generators that are not referenced anywhere else."""
        changed = self._changed()
        for index in range(len(changed)):
            held = self.generators
            # A local variable would be a further reference.
            if (
                held[index] is not None
                and not changed[index]
                and _references(held, index) <= _UNREFERENCED
            ):
                held[index] = None
        if not any(each is not None for each in self.generators):
            self.generators, self._known, self._serials = [], [], []

    def drawn(self) -> dict[str, Any] | None:
        """Return the states to set on the server; ``None`` without draws and spawns.

        In a tuple, ``None`` stands for an unchanged generator.
        """
        changed = self._changed()
        if not any(changed):
            return None
        if not self._many:
            single: dict[str, Any] = changed[0]
            return single
        return {name: tuple(one and one[name] for one in changed) for name in _SET}

    def _changed(self) -> list[Any]:
        now = [_described(generator) for generator in self.generators]
        return [
            None if is_same(one, known) else one
            for one, known in zip(now, self._known, strict=True)
        ]

    def mark_sent(self) -> None:
        """Note that the server's generators have the same state as these."""
        self._known = [_described(generator) for generator in self.generators]


def _rows(described: dict[str, Any]) -> list[dict[str, Any]]:
    columns = {
        name: each for name, each in described.items() if isinstance(each, tuple)
    }
    return [
        dict(zip(columns, row, strict=True))
        for row in zip(*columns.values(), strict=True)
    ]


def _described(generator: np.random.Generator | None) -> Any:
    return None if generator is None else describe_generator(generator)


def _renewed(
    generator: np.random.Generator | None, row: dict[str, Any]
) -> np.random.Generator:
    state, sequence = row["state"], row.get("seed_sequence")
    name = state["bit_generator"]
    try:
        if generator is None or type(generator.bit_generator).__name__ != name:
            return rebuild_generator(state, sequence)
        restore_generator(generator, state, sequence)
    except ValueError as error:
        raise TypeError(f"np_random cannot be had here: {error}") from None
    return generator


def _references(held: list[Any], index: int) -> int:
    """Count the references to a generator in a list, and to its bit generator."""
    return sys.getrefcount(held[index]) + sys.getrefcount(held[index].bit_generator)


_UNREFERENCED = _references([np.random.Generator(np.random.PCG64(0))], 0)
"""References to a generator that only the list holds."""
