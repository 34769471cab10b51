"""Headers: the heads of answers, read once for all answers alike."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from gym_http_client.bodies import BadAnswer

__all__ = ["AnswerHead", "read_head"]

_STATUS_LINE = re.compile(r"HTTP/1\.[0-9] ([1-9][0-9][0-9])(?: [^\r\n]*)?")
_HEADER_LINE = re.compile(r"([!#-'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*)")
_BODYLESS = (204, 304)


class AnswerHead(NamedTuple):
    """What the head of an answer says.

    Attributes:
        status: HTTP status.
        headers: By lower-case name; what was sent several times is one value, with
            commas between.
        size: Bytes of the body, if they are known.
        chunked: Whether the body comes in chunks.
        keep_alive: Whether the connection stays open.
    """

    status: int
    headers: Mapping[str, str]
    size: int | None
    chunked: bool
    keep_alive: bool


# A server's answers have few heads: within a second only their lengths differ.
@lru_cache(maxsize=64)
def read_head(head: bytes) -> AnswerHead:
    """Read the head of an answer.

    Args:
        head: Without the line breaks at its end.

    Raises:
        BadAnswer: It is none.
    """
    line, *lines = head.decode("latin-1").split("\r\n")
    match = _STATUS_LINE.fullmatch(line)
    if match is None:
        raise BadAnswer("it is not HTTP/1")
    headers = _headers(lines)
    status = int(match[1])
    size = headers.get("content-length")
    coding = headers.get("transfer-encoding")
    if coding is not None and (size is not None or coding.lower() != "chunked"):
        raise BadAnswer("nobody can tell where its body ends")
    count = None if size is None else _number(size)
    stays = _stays(line, headers.get("connection", ""))
    if status in _BODYLESS:
        # A body against the rules would be taken for the next answer.
        stays = stays and (status == 304 or not (count or coding))
        count, coding = 0, None
    return AnswerHead(
        status=status,
        headers=MappingProxyType(headers),
        size=count,
        chunked=coding is not None,
        keep_alive=stays,
    )


def _headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        match = _HEADER_LINE.fullmatch(line)
        if match is None:
            raise BadAnswer("there is a line among its headers that is none")
        name, value = match[1].lower(), match[2].rstrip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _number(text: str) -> int:
    # The length first: long numbers take long to read, and Python refuses some.
    if len(text) > 18 or not (text.isascii() and text.isdigit()):
        raise BadAnswer("its Content-Length is none")
    return int(text)


def _stays(line: str, connection: str) -> bool:
    words = {word.strip() for word in connection.lower().split(",")}
    if "close" in words:
        return False
    return "keep-alive" in words or not line.startswith("HTTP/1.0")
