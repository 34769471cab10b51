"""What branches may take, and must leave alone; few hosts load what plays them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gym_http_core.batches import MAX_SECONDS

__all__ = ["BranchLimits", "Recordings"]

#: Returns the descriptors of recordings, and the IDs of the processes and threads that
#: write them.
Recordings = Callable[[], tuple[list[int], set[int]]]


class BranchLimits(NamedTuple):
    """What the branches of one request may take.

    Attributes:
        seconds: Time for all of them.
        memory: Bytes of the host with all of its branches; 0: what the machine has.
    """

    seconds: float = MAX_SECONDS
    memory: int = 0
