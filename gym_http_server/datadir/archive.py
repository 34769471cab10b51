"""The archive: files of ended instances, in the data directory.

A file has the facts of one instance as JSON in its first line, and its last episodes as
JSON arrays in the others. It is written once, and renamed to the instance's ID when it
is complete. Several servers may share the archive. If it is full, the oldest
file of the owner that has most is removed (`datadir/retention`).
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Sequence
from typing import Annotated

import msgspec

from gym_http_server.datadir.own_paths import ARCHIVE, DataDir
from gym_http_server.datadir.recorded_episodes import (
    Recorded,
    find_recorded,
    read_recorded,
)
from gym_http_server.datadir.retention import Retention
from gym_http_server.datadir.whole_files import FOLDER, opened, write
from gym_http_server.rundir.episode_ring import Episode

__all__ = [
    "LOG_BYTES",
    "MAX_INSTANCES",
    "Archive",
    "ArchivedInstance",
    "Facts",
    "read_archived",
]

#: Instances that are kept, and bytes of their files.
MAX_INSTANCES, MAX_BYTES = 1000, 64 * 1024 * 1024
#: Bytes of one file: 1,000 episodes with 64 components each, and the facts.
MAX_FILE_BYTES = 4 * 1024 * 1024
#: Bytes of the end of a log that are kept.
LOG_BYTES = 8192
#: Bytes of the first line, in which the log has up to six for each, and without it.
_FIRST_LINE_BYTES, _FACTS_BYTES = 64 * 1024, 4096
#: Files written after which those of other servers are counted, too.
_COUNT_EVERY = 50
#: Seconds after which a file that is not complete was left by a server that was killed.
_LEFT_S = 60.0
_NAME = re.compile(r"[0-9a-f]{8}", re.ASCII).fullmatch
_INCOMPLETE = re.compile(r"\.[0-9a-f]{8}\.[0-9]{1,10}", re.ASCII).fullmatch
_DAMAGED = (msgspec.MsgspecError, ValueError, RecursionError)


class Facts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an ended instance was.

    Attributes:
        instance_id: Its ID.
        env_id: The env ID of the create request.
        reason: Why it ended, as a tombstone has it.
        wait_status: The status that ``os.waitpid`` returned.
        ended_at: When it ended, in Unix seconds.
        age_s: Seconds from its start to its end.
        steps: Steps that it took.
        episodes: Episodes that ended.
        owner: Name of the token that owned it; "" if it had no owner.
        label: The label that it was created with, or ``None``.
        detail: More about the reason, or "".
        log_tail: The end of its log; "" if clients must not see it.
        log_start: Offset of that in the log.
        recorded: Where the episodes are, if the file has none.
    """

    instance_id: str
    env_id: str
    reason: str
    wait_status: Annotated[int, msgspec.Meta(ge=0, le=0xFFFF)]
    ended_at: float
    age_s: float
    steps: int
    episodes: int
    owner: str = ""
    label: str | None = None
    detail: str = ""
    log_tail: str = ""
    log_start: int = 0
    recorded: Recorded | None = None


class ArchivedInstance(msgspec.Struct, frozen=True):
    """An ended instance, as its file has it.

    Attributes:
        facts: What it was.
        lines: Its last episodes, each a line of JSON.
        data_dir: The data directory.
    """

    facts: Facts
    lines: list[bytes]
    data_dir: DataDir

    def episodes(self) -> list[Episode]:
        """Return its last episodes, oldest first, without damaged ones."""
        facts = self.facts
        if facts.recorded is not None:
            return read_recorded(self.data_dir, facts.recorded, facts.owner)
        found = []
        for line in self.lines:
            with contextlib.suppress(*_DAMAGED):
                found.append(_EPISODE.decode(line))
        return found

    def answer(self, first: int, last: int) -> bytes:
        """Return its episodes as JSON, in the form for clients.

        Args:
            first: Number of the first episode to return.
            last: How many to return at most, the last ones.
        """
        found = [each.described() for each in self.episodes() if each.number >= first]
        answer = {
            "current": [],
            "episodes": found[-last:],
            "reason": self.facts.reason,
            "total": self.facts.episodes,
        }
        return msgspec.json.encode(answer, order="sorted")


_FACTS = msgspec.json.Decoder(Facts)
_EPISODE = msgspec.json.Decoder(Episode)


class Archive:
    """The archive, as one server writes it.

    Args:
        data_dir: The data directory.
    """

    def __init__(self, data_dir: DataDir) -> None:
        self._data_dir = data_dir
        self._path = f"{data_dir.path}/{ARCHIVE}"
        # By the name of a file, so that it is read once.
        self._owners: dict[str, str] = {}
        self._rooms = Retention[str](MAX_INSTANCES), Retention[str](MAX_BYTES)
        self._written = 0

    def load(self) -> list[Facts]:
        """Return the facts of all instances, the oldest first, without their logs."""
        self._owners.clear()
        return [
            facts
            for facts in self._count()
            if len(msgspec.json.encode(facts)) <= _FACTS_BYTES
        ]

    def add(
        self, facts: Facts, episodes: Sequence[Episode], directory: str = ""
    ) -> list[str]:
        """Write the file of an instance, and remove old ones if there are too many.

        Args:
            facts: What the instance was.
            episodes: Its last episodes.
            directory: Of the last recording that was made of it. Episodes in there are
                not copied.

        Returns:
            The instances whose files were removed.

        Raises:
            OSError: There is no room, or the directory cannot be written.
        """
        encode, recorded = msgspec.json.encode, None
        if directory:
            recorded = find_recorded(self._data_dir, directory, facts.owner, episodes)
        if recorded is not None:
            facts, episodes = msgspec.structs.replace(facts, recorded=recorded), ()
        content = b"\n".join([encode(facts), *map(encode, episodes), b""])
        # Somebody may remove it while the server runs, to clear it.
        os.makedirs(self._data_dir.path, mode=0o700, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._path, 0o700)
        if self._written % _COUNT_EVERY == 0:
            self._count()
        self._written += 1
        folder = os.open(self._path, FOLDER)
        try:
            write(folder, facts.instance_id, content)
        finally:
            os.close(folder)
        self._owners[facts.instance_id] = facts.owner
        return self._note(facts.instance_id, len(content))

    def _note(self, name: str, size: int) -> list[str]:
        """Count a file, remove those for which there is no room, and return these."""
        number, total = self._rooms
        owner = self._owners[name]
        removed = number.add(name, owner) + total.add(name, owner, size)
        for each in removed:
            number.discard(each)
            total.discard(each)
            self._owners.pop(each, None)
            with contextlib.suppress(OSError):
                os.unlink(f"{self._path}/{each}")
        return removed

    def _count(self) -> list[Facts]:
        """Count the files of all servers, and remove what killed ones have left.

        Returns:
            The facts of files that were not known, without their logs.
        """
        self._rooms = Retention[str](MAX_INSTANCES), Retention[str](MAX_BYTES)
        known, self._owners, new = self._owners, {}, []
        for name, size in self._files():
            if name in known:
                self._owners[name] = known[name]
            else:
                archived = read_archived(self._data_dir, name, _FIRST_LINE_BYTES)
                self._owners[name] = archived.facts.owner if archived else ""
                if archived:
                    new.append(msgspec.structs.replace(archived.facts, log_tail=""))
            self._note(name, size)
        return new

    def _files(self) -> list[tuple[str, int]]:
        """Return names and sizes, the oldest first; remove incomplete files."""
        found = []
        with contextlib.suppress(OSError), os.scandir(self._path) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if _NAME(entry.name):
                        found.append((status.st_mtime_ns, entry.name, status.st_size))
                    elif _INCOMPLETE(entry.name) and _is_old(status.st_mtime):
                        os.unlink(entry.path)
        return [(name, size) for _, name, size in sorted(found)]


def read_archived(
    data_dir: DataDir, instance_id: str, size: int = MAX_FILE_BYTES
) -> ArchivedInstance | None:
    """Return an instance of the archive; ``None`` if it has none with this ID.

    Args:
        data_dir: The data directory.
        instance_id: The ID from the client.
        size: Bytes of the file to read.
    """
    if not _NAME(instance_id):
        return None
    try:
        with opened(f"{data_dir.path}/{ARCHIVE}", instance_id) as file:
            content = os.read(file, size)
    except OSError:
        return None
    first, *lines = content.split(b"\n")
    try:
        facts = _FACTS.decode(first)
    except _DAMAGED:
        return None
    if facts.instance_id != instance_id:
        return None
    return ArchivedInstance(facts, lines[:-1], data_dir)


def _is_old(modified: float) -> bool:
    # A clock may have been set back since.
    return abs(time.time() - modified) > _LEFT_S
