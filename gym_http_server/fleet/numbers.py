"""Numbers of nodes, and the instance IDs below them.

An instance ID is 8 hex digits: 3 for the node, and 5 that it counts up in a shuffled
order. The order depends on nothing but the number, so a node that takes over a number
with its count never issues an ID twice.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import uuid
from typing import NamedTuple

import msgspec

from gym_http_server.errors import FleetAway
from gym_http_server.fleet.page import FENCED_SECONDS, Page
from gym_http_server.fleet.records import NUMBER
from gym_http_wire.problems import DiskFull

__all__ = ["NUMBERS", "IDs", "NodeNumber", "NumberFile", "id_of", "number_of"]

#: Nodes that a fleet may have in a day.
NUMBERS = 0x1000
_NUMBER_DIGITS = 3
_HALF_BITS = 10
_HALF = (1 << _HALF_BITS) - 1
_ROUNDS = 4
_MIXER = 0x9E3779B1
_ROOM = 32
#: IDs for which one write to the disk is enough.
_RESERVED = 256


def number_of(instance_id: str) -> str:
    """Return the number of the node that issued an instance ID."""
    return instance_id[:_NUMBER_DIGITS]


def id_of(number: str, count: int) -> str:
    """Return an instance ID.

    Args:
        number: The node's number, 3 hex digits.
        count: Which of the number's IDs, from 0.
    """
    # A Feistel network: each count has a different result.
    left, right = count >> _HALF_BITS, count & _HALF
    key = int(number, 16) + 1
    for turn in range(_ROUNDS):
        mixed = (right * _MIXER + key * _MIXER * (turn + 1)) ** 2 >> _ROOM
        left, right = right, left ^ mixed & _HALF
    return f"{number}{left << _HALF_BITS | right:05x}"


class NodeNumber(NamedTuple):
    """A node's number, and how many IDs of it were issued."""

    number: str
    issued: int


class _Kept(msgspec.Struct):
    """What the file of a data directory holds.

    Attributes:
        directory: Random name of the data directory.
        number: The number that belongs to it; "" for none.
        issued: IDs of the number that may be in use.
    """

    directory: str
    number: str = ""
    issued: int = 0


class NumberFile:
    """The number that belongs to a data directory, and its count.

    Of several servers with one data directory, the first one has the file.

    Args:
        data_dir: The data directory.
        directory: Random name of the data directory, of a file that was claimed.
    """

    def __init__(self, data_dir: str, directory: str = "") -> None:
        self._path = f"{data_dir}/node"
        self._lock = -1
        self.directory = directory

    def claim(self) -> bool:
        """Lock the file, and return whether no other server has it.

        A directory that cannot be written keeps no number.
        """
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._lock = os.open(f"{self._path}.lock", flags, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.close()
            return False
        return True

    def read(self) -> NodeNumber:
        """Return the number that was kept; "" with none."""
        kept = _Kept(uuid.uuid4().hex)
        with contextlib.suppress(OSError, msgspec.MsgspecError), open(self._path) as f:
            kept = msgspec.json.decode(f.read(4096), type=_Kept)
        self.directory = kept.directory
        if not NUMBER(kept.number) or kept.issued < 0:
            # The disk, or a hand, has damaged it.
            return NodeNumber("", 0)
        return NodeNumber(kept.number, kept.issued)

    def write(self, number: NodeNumber) -> None:
        """Store a number and its count.

        Raises:
            OSError: They cannot be stored.
        """
        new = f"{self._path}.new"
        with open(new, "wb") as file:
            file.write(msgspec.json.encode(_Kept(self.directory, *number)))
            file.flush()
            os.fsync(file.fileno())
        os.rename(new, self._path)

    def close(self) -> None:
        """Let another server have the file."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


class IDs:
    """Issues the instance IDs of a node, for its supervisor.

    Args:
        page: Has the node's number.
        data_dir: The data directory, which may keep the number.
    """

    def __init__(self, page: Page, data_dir: str) -> None:
        self._page = page
        self._data_dir = data_dir
        self._state = -1
        self._number = ""
        self._file: NumberFile | None = None
        self._reserved = 0

    def check(self) -> None:
        """Check that this node may issue IDs.

        Raises:
            FleetAway: It could not renew its number, or waits for another one.
        """
        if self._page.fenced:
            raise FleetAway(
                "this node has not reached the fleet's store for "
                f"{FENCED_SECONDS} s, and makes no new instances until it has",
                headers={"Retry-After": "1"},
            )
        if self._page.used_up:
            raise FleetAway(
                "this node has used up its number in the fleet, and waits for "
                "another one",
                headers={"Retry-After": "1"},
            )

    def issue(self) -> str:
        """Issue an ID.

        Raises:
            FleetAway: This node may issue none now.
            DiskFull: The count cannot be stored.
        """
        page = self._page
        if page.state != self._state:
            self._read()
        self.check()
        count = page.issued
        if self._file is not None and count >= self._reserved:
            reserved = NodeNumber(self._number, count + _RESERVED)
            try:
                self._file.write(reserved)
            except OSError as error:
                raise DiskFull(
                    f"the data directory cannot keep the count of instance IDs: {error}"
                ) from None
            self._reserved = reserved.issued
        page.issued = count + 1
        return id_of(self._number, count)

    def _read(self) -> None:
        self._state = self._page.state
        nodes = self._page.read()
        number = nodes.own.numbers[-1]
        if number != self._number:
            self._number, self._reserved = number, 0
            directory = nodes.directory
            self._file = NumberFile(self._data_dir, directory) if directory else None

    def close(self) -> None:
        """Store the count exactly, at the end of the server."""
        if self._file is not None and self._number:
            with contextlib.suppress(OSError):
                self._file.write(NodeNumber(self._number, self._page.issued))
