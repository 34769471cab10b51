"""Counts of HTTP requests: each web worker writes a file, and any of them reads all.

A file stays when its web worker dies, so no sum falls. Each number is stored at once,
as on status pages; prometheus-client's own files are written byte by byte, and a reader
could find less than before.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from bisect import bisect_left
from typing import NamedTuple

__all__ = ["SECONDS_BOUNDS", "RequestCounts", "RequestTimes", "read_requests"]

#: Upper bounds of the counts of requests by their time; the last count has no bound.
SECONDS_BOUNDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)

_KEY_BYTES = 160
_NUMBERS = _KEY_BYTES // 8
_COUNTS = len(SECONDS_BOUNDS) + 1
_SUM = _NUMBERS
_FIRST = _NUMBERS + 1
# Stored last: until then, the entry is not there.
_LENGTH = 31
_ENTRY = 32
#: Routes, methods and statuses that a web worker counts apart.
_MOST = 512
_OTHER = ("", "", 0)

Key = tuple[str, str, int]


class RequestTimes(NamedTuple):
    """Requests with one route, method and status.

    Attributes:
        seconds: Their time in all.
        counts: How many took at most as long as each of `SECONDS_BOUNDS`, and longer
            than the bound before; the last number: how many took longer.
    """

    seconds: float
    counts: list[int]


class RequestCounts:
    """Counts the requests of one web worker.

    Args:
        folder: Directory of the files of all web workers.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._pid = 0
        self._numbers: memoryview | None = None
        self._places: dict[Key, int] = {}

    def count(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request.

        Args:
            route: Its route as in OpenAPI, never its path.
            method: Its method.
            status: Status of its answer.
            seconds: Its time.
        """
        if self._pid != os.getpid():
            self._open()
        numbers = self._numbers
        if numbers is None:
            return
        key = (route, method, status)
        place = self._places.get(key)
        if place is None:
            place = self._add(key)
        numbers[place + _SUM] += int(seconds * 1e9)
        numbers[place + _FIRST + bisect_left(SECONDS_BOUNDS, seconds)] += 1

    def close(self) -> None:
        """Close the file, which stays."""
        if self._numbers is not None:
            self._numbers.release()
            self._map.close()
        self._pid, self._numbers = 0, None

    def _add(self, key: Key) -> int:
        if len(self._places) >= _MOST - 1:
            key = _OTHER
            if key in self._places:
                return self._places[key]
        numbers = self._numbers
        place = self._places[key] = len(self._places) * _ENTRY
        route, method, status = key
        text = f"{status} {method} {route}".encode()[:_KEY_BYTES]
        if numbers is not None:
            raw = numbers.cast("B")
            raw[place * 8 : place * 8 + len(text)] = text
            numbers[place + _LENGTH] = len(text)
        return place

    def _open(self) -> None:
        """Make the file of this process."""
        self._pid, self._numbers, self._places = os.getpid(), None, {}
        # Without room for it, requests are answered and not counted.
        with contextlib.suppress(OSError):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            number = 0
            while True:
                name = f"{self._folder}/{self._pid}-{number}"
                try:
                    file = os.open(name, flags, 0o600)
                    break
                except FileExistsError:
                    # An earlier process had this ID.
                    number += 1
            try:
                size = _MOST * _ENTRY * 8
                os.posix_fallocate(file, 0, size)
                self._map = mmap.mmap(file, size)
                self._numbers = memoryview(self._map).cast("Q")
            finally:
                os.close(file)


def read_requests(folder: str) -> dict[Key, RequestTimes]:
    """Add up the requests of all web workers, by route, method and status."""
    found: dict[Key, RequestTimes] = {}
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(folder):
            with open(f"{folder}/{name}", "rb") as file:
                _add_file(file.read(), found)
    return found


def _add_file(content: bytes, found: dict[Key, RequestTimes]) -> None:
    size = len(content) // 8 * 8
    numbers = memoryview(content)[:size].cast("Q")
    for place in range(0, len(numbers) - _ENTRY + 1, _ENTRY):
        length = numbers[place + _LENGTH]
        if not length:
            return
        text = content[place * 8 : place * 8 + min(length, _KEY_BYTES)]
        status, method, route = text.decode(errors="replace").split(" ", 2)
        key = route, method, int(status)
        before = found.get(key, RequestTimes(0.0, [0] * _COUNTS))
        counts = numbers[place + _FIRST : place + _FIRST + _COUNTS]
        found[key] = RequestTimes(
            before.seconds + numbers[place + _SUM] / 1e9,
            [one + more for one, more in zip(before.counts, counts, strict=True)],
        )
