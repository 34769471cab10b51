"""Answers of other nodes, and how their heads are read."""

from __future__ import annotations

import functools
import re
from http import HTTPStatus
from typing import NamedTuple

from gym_http_server.web.backends.arriving_answer import ArrivingAnswer
from gym_http_wire.messages import NODE_PROOF

__all__ = [
    "AnswerHead",
    "NodeAnswer",
    "NodeLost",
    "read_head",
]

_STATUS = re.compile(r"HTTP/1\.1 ([2-5][0-9]{2})(?: .*)?").fullmatch
_LINE = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x1f\x7f]*)").fullmatch
_SIZE = re.compile(r"[0-9]{1,18}").fullmatch
# No body follows the head of such an answer, whatever size it has.
_BODYLESS = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
# Headers that are added here, too: to every answer, or to one that is no problem.
_ADDED_HERE = frozenset({"date", "server", "x-content-type-options"})
_ADDED_TO_RESULTS = "x-request-id"
_PROOF = NODE_PROOF.lower()


class NodeLost(Exception):
    """The node does not answer."""


class AnswerHead(NamedTuple):
    """The head of an answer.

    Attributes:
        status: HTTP status.
        headers: Names and values, without those that are added here.
        size: Bytes of the body.
        kept: Whether the connection may carry another request.
        proof: What shows that a node has answered, or "".
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    size: int
    kept: bool
    proof: str


class NodeAnswer(NamedTuple):
    """A node's answer.

    Attributes:
        status: HTTP status.
        headers: Names and values.
        body: The body; a large one is still arriving.
    """

    status: int
    headers: list[tuple[str, str]]
    body: bytes | ArrivingAnswer


@functools.lru_cache(maxsize=64)
def read_head(head: bytes) -> AnswerHead:
    """Read the head of an answer; those of short answers repeat within a second.

    Raises:
        NodeLost: It is malformed, or no node answers so.
    """
    first, *lines = head.decode("latin-1").split("\r\n")
    status_line = _STATUS(first)
    if status_line is None:
        raise NodeLost
    status, kept, proof = int(status_line[1]), True, ""
    size: int | None = None
    headers = []
    for line in lines:
        match = _LINE(line)
        if match is None:
            raise NodeLost
        name, value = match[1], match[2].rstrip()
        lower = name.lower()
        if lower == "content-length":
            if size is not None or not _SIZE(value):
                raise NodeLost
            size = int(value)
        elif lower == "connection":
            kept = kept and "close" not in map(str.strip, value.lower().split(","))
        elif lower == "transfer-encoding":
            raise NodeLost
        elif lower == _PROOF:
            proof = value
        elif lower == _ADDED_TO_RESULTS and status < 400:
            continue
        elif lower not in _ADDED_HERE:
            headers.append((name, value))
    if status in _BODYLESS:
        size = 0
    if size is None:
        # Such a body has no end but that of the connection.
        raise NodeLost
    return AnswerHead(status, tuple(headers), size, kept, proof)
