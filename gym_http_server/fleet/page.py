"""The page on which the member writes what it knows, and which web workers map.

Beside numbers in shared memory there is a file with the nodes. A number says when it
was replaced, so that web workers read it again only then.
"""

from __future__ import annotations

import mmap
import os
import time

import msgspec

from gym_http_server.fleet.records import Record
from gym_http_server.rundir.directory import open_plain_file

__all__ = ["FENCED_SECONDS", "IDS_OF_NUMBER", "Node", "Nodes", "Page", "now_ns"]

#: IDs that a number has.
IDS_OF_NUMBER = 1 << 20
#: Seconds without the store after which a node makes no new instances.
FENCED_SECONDS = 10
# Numbers in the page: the state of the nodes, when the record was last renewed, and the
# IDs that were issued of the last number.
_STATE, _RENEWED, _ISSUED = 0, 1, 2


def now_ns() -> int:
    """Return nanoseconds that pass also while the machine sleeps."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Node(msgspec.Struct, frozen=True):
    """A node, as the member knows it.

    Attributes:
        record: Its last record.
        away_ns: Since when the store has no record of it; 0: it has one.
        unreachable_ns: Since when the member has not been able to connect to it; 0: it
            is, or was not tried.
    """

    record: Record
    away_ns: int = 0
    unreachable_ns: int = 0


class Nodes(msgspec.Struct):
    """All nodes of a fleet.

    Attributes:
        own: This node's record.
        directory: Name of the data directory that keeps its number; "" for none.
        others: The other nodes.
        gone: Why nodes are gone, by number.
        gone_names: Names of nodes that are gone, by number, where a record has one.
    """

    own: Record
    directory: str = ""
    others: list[Node] = []
    gone: dict[str, str] = {}
    gone_names: dict[str, str] = {}


class Page:
    """The page of a server's run directory.

    Args:
        run_path: The run directory.
        make: Whether to make the page.
    """

    def __init__(self, run_path: str, *, make: bool = False) -> None:
        self._nodes = f"{run_path}/nodes"
        path = f"{run_path}/fleet"
        if make:
            with open(path, "xb") as file:
                os.fchmod(file.fileno(), 0o600)
                file.truncate(mmap.PAGESIZE)
        with open_plain_file(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self._numbers = memoryview(self._map).cast("Q")

    def close(self) -> None:
        """Unmap it."""
        self._numbers.release()
        self._map.close()

    @property
    def state(self) -> int:
        """A number that changes when the nodes are replaced."""
        return self._numbers[_STATE]

    @property
    def issued(self) -> int:
        """IDs that were issued of this node's last number."""
        return self._numbers[_ISSUED]

    @issued.setter
    def issued(self, count: int) -> None:
        self._numbers[_ISSUED] = count

    @property
    def fenced(self) -> bool:
        """Whether this node has not renewed its record for too long."""
        return now_ns() - self._numbers[_RENEWED] > FENCED_SECONDS * 10**9

    @property
    def used_up(self) -> bool:
        """Whether all IDs of this node's last number were issued."""
        return self.issued >= IDS_OF_NUMBER

    def fence(self) -> None:
        """Have this node make no new instances until it is renewed."""
        self._numbers[_RENEWED] = 0

    def renew(self) -> None:
        """Note that the record was renewed now."""
        self._numbers[_RENEWED] = now_ns()

    def read(self) -> Nodes:
        """Return the nodes."""
        with open_plain_file(self._nodes, "rb") as file:
            return msgspec.json.decode(file.read(), type=Nodes)

    def replace(self, nodes: Nodes) -> None:
        """Replace the nodes; only one process may do so.

        Raises:
            OSError: The disk has no room for them.
        """
        new = f"{self._nodes}.new"
        with open(new, "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(msgspec.json.encode(nodes))
        os.rename(new, self._nodes)
        self._numbers[_STATE] += 1
