"""On which cores servers and clients run."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

__all__ = ["Cores", "Mode", "Places", "available", "pinned", "places"]

Cores = frozenset[int]


class Mode(StrEnum):
    """Where the processes of a measurement are.

    What is sent to another core has to wake it first, which takes longer than an
    answer does. So a figure means little without its mode.
    """

    SAME = "same"
    SPLIT = "split"
    FREE = "free"


class Places(NamedTuple):
    """The cores of the servers and those of the clients."""

    servers: Cores
    clients: Cores


def available() -> Cores:
    """Give all cores."""
    return frozenset(os.sched_getaffinity(0))


def places(mode: Mode) -> Places | None:
    """Give the places of a mode; ``None`` if this machine has too few cores."""
    cores = sorted(available())
    if mode is Mode.FREE:
        return Places(available(), available())
    first, other = frozenset(cores[:1]), frozenset(cores[1:2])
    if mode is Mode.SAME:
        return Places(first, first)
    return Places(first, other) if other else None


@contextlib.contextmanager
def pinned(cores: Cores) -> Iterator[None]:
    """Keep this process, and for good what it starts meanwhile, on these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
