"""Headers: those of an answer, taken from its bytes when they are asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gym_http_client.bodies import BadAnswer

__all__ = ["Headers"]

_LINE = re.compile(rb"[!#-'*+.^_`|~0-9A-Za-z-]+:[^\r\n\0]*")


class Headers(Mapping[str, str]):
    """The headers of an answer by lower-case name.

    What was sent several times is one value, with commas between.

    Args:
        head: The head of the answer, without the line breaks at its end.
    """

    __slots__ = ("_head", "_lower")

    def __init__(self, head: bytes) -> None:
        self._head = head
        self._lower = head.lower()

    def __getitem__(self, name: str) -> str:
        value = self.find(b"\r\n%b:" % name.encode("latin-1"))
        if value is None:
            raise KeyError(name)
        return value.decode("latin-1")

    def __iter__(self) -> Iterator[str]:
        lines = self._lower.decode("latin-1").split("\r\n")[1:]
        return iter(dict.fromkeys(line.partition(":")[0] for line in lines))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"Headers({dict(self)!r})"

    def find(self, mark: bytes) -> bytes | None:
        """Return the value of a header, or None.

        Args:
            mark: Its name in lower case, between a line break and a colon.
        """
        at = self._lower.find(mark)
        if at < 0:
            return None
        values = []
        while at >= 0:
            at += len(mark)
            end = self._head.find(b"\r\n", at)
            values.append(self._head[at : end if end >= 0 else None].strip(b" \t"))
            at = self._lower.find(mark, end) if end >= 0 else -1
        return values[0] if len(values) == 1 else b", ".join(values)

    def check(self) -> None:
        """Make sure that no header is hidden in what is none.

        Raises:
            BadAnswer: There is a line that is no header.
        """
        for line in self._head.split(b"\r\n")[1:]:
            if not _LINE.fullmatch(line):
                raise BadAnswer("there is a line among its headers that is none")
