"""The record of a node, which its member writes to the store each second.

A program that can write to the store can write any record. So each is signed with the
fleet token, and one that is malformed, too large, or without a good signature is
ignored.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import msgspec

from gym_http_server.config.settings import is_local
from gym_http_server.fleet.signatures import Signatures

__all__ = [
    "NAME",
    "BadRecord",
    "Record",
    "is_loopback",
    "is_url",
    "port_of",
    "read",
    "write",
]

MAX_BYTES = 256 * 1024
_URL = re.compile(
    r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?/?"
)
_PORTS = range(1, 65536)
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}").fullmatch
NUMBER = re.compile(r"[0-9a-f]{3}").fullmatch
_PURPOSE = "record"


class BadRecord(Exception):
    """A record in the store cannot be used; the message has the reason."""


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node, as the others see it.

    Attributes:
        numbers: Its numbers; new instances have the last one.
        boot: Random name of this start of its server.
        name: Its name.
        url: Where the others reach it.
        version: Of its server.
        slots: Instances that it may have.
        free: Slots that are free.
        draining: Whether it makes no new instances.
        external: Free external environments, by name.
        owners: Instances of each token, by its name.
    """

    numbers: tuple[str, ...]
    boot: str
    name: str
    url: str
    version: str
    slots: int
    free: int
    draining: bool = False
    external: dict[str, int] = {}
    owners: dict[str, int] = {}


def is_url(url: str) -> bool:
    """Whether a text is the URL of a node: a scheme, a host and perhaps a port."""
    found = _URL.fullmatch(url) if len(url) < 300 else None
    return found is not None and int(found["port"] or 1) in _PORTS


def port_of(url: str) -> int:
    """Return the port in a URL of a node, or that of its scheme."""
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def is_loopback(url: str) -> bool:
    """Whether a URL is of this machine."""
    return is_local(urlsplit(url).hostname or "")


def write(record: Record, signatures: Signatures) -> bytes:
    """Return a record as the store has it: its signature, and JSON."""
    body = msgspec.json.encode(record, order="deterministic")
    return f"{signatures.sign(_PURPOSE, body.decode())} ".encode() + body


def read(number: str, data: bytes, signatures: Signatures) -> Record:
    """Read a record from the store.

    Args:
        number: The number under which it was found.
        data: The record.
        signatures: Checks its signature.

    Raises:
        BadRecord: It is malformed, or no node of this fleet has written it.
    """
    if len(data) > MAX_BYTES:
        raise BadRecord(f"it has {len(data)} bytes: expected {MAX_BYTES} at most")
    try:
        signature, _, body = data.decode().partition(" ")
        if not signatures.check(signature, _PURPOSE, body):
            raise BadRecord("it is not signed with this fleet's token")
        record: Any = msgspec.json.decode(body, type=Record)
    except (UnicodeDecodeError, msgspec.MsgspecError, RecursionError) as error:
        raise BadRecord(f"it is malformed: {error}") from None
    if number not in record.numbers or not all(map(NUMBER, record.numbers)):
        raise BadRecord(f"it is of the numbers {record.numbers!r:.80}")
    if not is_url(record.url) or not NAME(record.name):
        raise BadRecord(f"its URL is {record.url!r:.80}, its name {record.name!r:.80}")
    return record  # type: ignore[no-any-return]
