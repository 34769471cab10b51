"""Records statistics of an instance's episodes, and writes them to a file.

A monitor changes nothing about the environment. An episode is a line of
``episodes.jsonl``, a JSON object with return, length and seconds. An episode that
cannot be written, for example to a full disk, is counted as lost.
"""

from __future__ import annotations

import os
import time
from collections import deque
from typing import Any

import orjson

from gym_http_core.episode_log import Ending, VectorEpisodeLog
from gym_http_core.returns import added, plain_return
from gym_http_server.datadir.recording_files import EPISODES_FILE, path_parts
from gym_http_server.host import plain_json
from gym_http_wire.problems import DiskFull

__all__ = ["NO_MONITOR", "Monitor", "VectorMonitor"]

#: Episodes that a monitor keeps for its report; the file has all of them.
MAX_REPORTED = 1000
_LINE = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SORT_KEYS
#: The report of an instance that was never monitored.
NO_MONITOR: dict[str, Any] = {
    "active": False,
    "directory": None,
    "episodes": [],
    "episodes_lost": 0,
    "episodes_written": 0,
}


class Monitor:
    """Writes the statistics of one instance's episodes.

    Args:
        file: Descriptor of the file to append to; the monitor closes it.
        directory: The path that the client named.

    Attributes:
        directory: The file's directory, below the data directory.
        written: Number of episodes written.
        error: How many episodes were not written, and why; "" if all were.
    """

    def __init__(self, file: int, directory: str) -> None:
        self._file = file
        # A host in the sandbox cannot read the file.
        self._episodes: deque[dict[str, Any]] = deque(maxlen=MAX_REPORTED)
        self.directory = "/".join(path_parts(directory))
        self.written = 0
        self.error = ""
        self._lost = 0
        self._begun = time.monotonic()
        self._seed: int | None = None
        self._return: Any = 0.0
        self._length = 0
        self._active = False

    def descriptors(self) -> list[int]:
        """Return the descriptors of its files."""
        return [self._file]

    def reset(self, seed: int | None) -> None:
        """Record that an episode begins, and write the one that it cuts short."""
        self._write(terminated=False, truncated=False)
        self._begun = time.monotonic()
        self._seed = seed
        self._return = 0.0
        self._length = 0
        self._active = True

    def go_on(self, log: Any) -> None:
        """Go on with the episode that an environment is in.

        Args:
            log: The episodes of that environment.
        """
        for episode in log.current():
            self.reset(episode["seed"])
            self._return, self._length = log.returned, log.length

    def step(self, reward: Any, terminated: bool, truncated: bool) -> None:
        """Record a step, and write the episode that it ends."""
        if not self._active:
            return
        if isinstance(reward, float):
            self._return += reward
        else:
            self._return = added(self._return, reward)
        self._length += 1
        if terminated or truncated:
            self._write(terminated=terminated, truncated=truncated)

    def report(self) -> dict[str, Any]:
        """Return the directory, the last episodes, and how many there were."""
        return {
            "directory": self.directory,
            "episodes": list(self._episodes),
            "episodes_lost": self._lost,
            "episodes_written": self.written,
        }

    def close(self) -> None:
        """Write the remaining episodes and close the file.

        Raises:
            DiskFull: Episodes were not written, now or earlier.
        """
        self._write(terminated=False, truncated=False)
        try:
            os.close(self._file)
        except OSError as error:
            # Network file systems may report a failed write only here.
            self._lose(error)
        if self._lost:
            raise DiskFull(
                f"the monitor is closed; it wrote {self.written} of "
                f"{self.written + self._lost} episodes: {self.error}",
                extras={"episodes_lost": self._lost, "episodes_written": self.written},
            )

    def _write(self, *, terminated: bool, truncated: bool) -> None:
        if not self._active or not self._length:
            return
        self._active = False
        self._write_line(
            {
                "length": self._length,
                "return": plain_return(self._return),
                "seconds": round(time.monotonic() - self._begun, 6),
                "seed": self._seed,
                "terminated": bool(terminated),
                "truncated": bool(truncated),
            }
        )

    def _write_line(self, episode: dict[str, Any]) -> None:
        episode["ended_at"] = round(time.time(), 3)
        try:
            self._append(_line_of(episode))
        except OSError as error:
            # The environment matters more than its statistics.
            self._lose(error)
        else:
            self.written += 1
            self._episodes.append(episode)

    def _append(self, line: bytes) -> None:
        """Write a whole line, or no part of it.

        Raises:
            OSError: There is no room.
        """
        written = 0
        try:
            while written < len(line):
                written += os.write(self._file, line[written:])
        except OSError:
            if written:
                self._cut_back(written)
            raise

    def _cut_back(self, size: int) -> None:
        """Remove the bytes written last, unless another monitor has added more."""
        end = os.lseek(self._file, 0, os.SEEK_CUR)
        if os.fstat(self._file).st_size == end:
            os.ftruncate(self._file, end - size)

    def _lose(self, error: OSError) -> None:
        self._lost += 1
        count = f"{self._lost} episode{'s' if self._lost > 1 else ''}"
        self.error = (
            f"{count} could not be written to {EPISODES_FILE}: {error.strerror}"
        )


def _line_of(episode: dict[str, Any]) -> bytes:
    try:
        # The members are plain but for some seeds: a tenth of the time.
        return orjson.dumps(episode, option=_LINE)
    except orjson.JSONEncodeError:
        return plain_json.dumps(episode)


class VectorMonitor(Monitor):
    """Writes the statistics of a vector's episodes, as its log counts them.

    A line has a further member, ``env``, the number of the environment. Episodes that
    began before the monitor are left out.

    Args:
        file: Descriptor of the file to append to; the monitor closes it.
        directory: The path that the client named.
        log: The vector's episodes.
    """

    def __init__(self, file: int, directory: str, log: VectorEpisodeLog) -> None:
        super().__init__(file, directory)
        self._log = log
        self._earlier = {each["env"] for each in log.current() if each["length"]}
        self._before, log.on_end = log.on_end, self._add

    def go_on(self, log: Any) -> None:
        """Write the episodes that run, too, as they have been monitored before."""
        self._earlier.clear()

    def reset(self, seed: Any) -> None:
        """Do nothing: the log reports the episodes."""

    def step(self, reward: Any, terminated: Any, truncated: Any) -> None:
        """Do nothing: the log reports the episodes."""

    def close(self) -> None:
        """Write the remaining episodes and close the file.

        Raises:
            DiskFull: Episodes were not written, now or earlier.
        """
        self._log.on_end = self._before
        for episode in self._log.current():
            if episode["length"] and episode["env"] not in self._earlier:
                self._write_episode(episode)
        super().close()

    def _add(self, endings: list[Ending]) -> None:
        self._before(endings)
        for ending in endings:
            if ending.env in self._earlier:
                self._earlier.discard(ending.env)
            else:
                self._write_episode(ending.described())

    def _write_episode(self, episode: dict[str, Any]) -> None:
        flags = {name: episode.get(name, False) for name in ("terminated", "truncated")}
        kept = ("env", "length", "return", "seconds", "seed")
        self._write_line({name: episode[name] for name in kept} | flags)
