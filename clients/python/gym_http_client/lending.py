"""Random generators that a server lends: their states here, and what is drawn here."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Lent"]

_KINDS = {"MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"}


class Lent:
    """The generators of one instance, as far as they were asked for.

    There is one, or a tuple of them where each environment of a vector has its own.
    """

    def __init__(self) -> None:
        self._many = False
        self._generators: list[np.random.Generator | None] = []
        self._states: list[Any] = []

    def renew(self, state: Any) -> Any:
        """Give the generators, in the states that the server tells."""
        self._many = isinstance(state, tuple)
        states = list(state) if self._many else [state]
        known = self._generators or [None] * len(states)
        self._generators = [
            _renewed(generator, each)
            for generator, each in zip(known, states, strict=True)
        ]
        self._states = states
        return tuple(self._generators) if self._many else self._generators[0]

    def adopt(self, generator: np.random.Generator) -> None:
        """Take what the server was told to use as what it lent."""
        self._many = False
        self._generators = [generator]
        self._states = [generator.bit_generator.state]

    def forget(self, numbers: list[int] | None = None) -> None:
        """Forget generators that the server has replaced; ``None``: all."""
        if numbers is None or not self._many:
            self._generators, self._states = [], []
            return
        for number in numbers if self._generators else ():
            self._generators[number] = None

    def drawn(self) -> Any:
        """Give the states to tell the server; ``None`` if nobody drew.

        Among many, ``None`` stands for one that nobody drew from.
        """
        if not self._generators:
            return None
        states = [
            None if generator is None else generator.bit_generator.state
            for generator in self._generators
        ]
        changed = [
            None if state == known else state
            for state, known in zip(states, self._states, strict=True)
        ]
        if all(each is None for each in changed):
            return None
        return tuple(changed) if self._many else changed[0]

    def told(self) -> None:
        """Note that the server knows what was drawn."""
        self._states = [
            known if generator is None else generator.bit_generator.state
            for generator, known in zip(self._generators, self._states, strict=True)
        ]


def _renewed(generator: np.random.Generator | None, state: Any) -> np.random.Generator:
    name = state["bit_generator"]
    if generator is None or type(generator.bit_generator).__name__ != name:
        if name not in _KINDS:
            raise TypeError(f"the generator is a {name}, which NumPy does not have")
        generator = np.random.Generator(getattr(np.random, name)(0))
    generator.bit_generator.state = state
    return generator
