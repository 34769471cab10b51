"""Failures: why an exchange brought no answer."""

from __future__ import annotations

import socket
from enum import Enum
from typing import Self

__all__ = ["ABSENT", "Failure", "FailureKind"]

#: What the system raises where there is nobody: the port is closed, the Unix socket is
#: not there, the host has no address.
ABSENT = (ConnectionRefusedError, FileNotFoundError, socket.gaierror)


class FailureKind(Enum):
    """What an exchange failed of."""

    #: There is nobody at the address.
    ABSENT = "absent"
    #: There was no connection, or it ended before the answer was whole.
    LOST = "lost"
    #: A connection that was kept from an earlier exchange had ended meanwhile.
    STALE = "stale"
    #: The answer was not whole within the time limit.
    TIMEOUT = "timeout"
    #: The server could not prove who it is.
    UNTRUSTED = "untrusted"
    #: What came is no answer in the sense of HTTP, or is too large.
    MALFORMED = "malformed"
    #: The server closed the stream because the message was too large for it.
    TOO_LARGE = "too large"
    #: The port is a server's, and of another kind.
    MISTAKEN = "mistaken"


class Failure(Exception):
    """An exchange brought no answer.

    Args:
        kind: What it failed of.
        reason: The same in words.
    """

    def __init__(self, kind: FailureKind, reason: object) -> None:
        super().__init__(str(reason))
        self.kind = kind

    @classmethod
    def of(cls, error: OSError) -> Self:
        """Give what a connection failed of that could not be made, or was lost."""
        if isinstance(error, TimeoutError):
            return cls(FailureKind.TIMEOUT, error)
        absent = isinstance(error, ABSENT)
        return cls(FailureKind.ABSENT if absent else FailureKind.LOST, error)
