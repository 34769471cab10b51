"""Assigns servers and clients to cores."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

__all__ = ["Cores", "Mode", "Places", "available", "pinned", "places"]

Cores = frozenset[int]


class Mode(StrEnum):
    """The placement of a measurement's processes on cores.

    A message to another core has to wake that core first, which takes longer than an
    answer. So a figure is meaningful only with its mode.
    """

    SAME = "same"
    SPLIT = "split"
    FREE = "free"


class Places(NamedTuple):
    """The cores of the servers and those of the clients."""

    servers: Cores
    clients: Cores


def available() -> Cores:
    """Return all cores that this process may use."""
    return frozenset(os.sched_getaffinity(0))


def places(mode: Mode) -> Places | None:
    """Return the cores of a mode; ``None`` if this machine has too few."""
    cores = sorted(available())
    if mode is Mode.FREE:
        return Places(available(), available())
    first, other = frozenset(cores[:1]), frozenset(cores[1:2])
    if mode is Mode.SAME:
        return Places(first, first)
    return Places(first, other) if other else None


@contextlib.contextmanager
def pinned(cores: Cores) -> Iterator[None]:
    """Pin this process to cores; processes started meanwhile stay pinned for good."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
