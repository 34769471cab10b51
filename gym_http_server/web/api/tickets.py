"""Tickets: each opens one stream, for clients that cannot send the token in a header.

A web page cannot set headers of a WebSocket, and the token is never part of an address.
So the page requests a ticket, with the token, and puts the ticket into the address of
the stream. A used ticket in a log or a history cannot open another stream.

An unused ticket is a symbolic link in the run directory, which all web workers share.
To use a ticket is to unlink it, which succeeds once. The link's name is a digest:
neither the name nor the duration of a search for it reveals the ticket. The link's
target has the time at which the ticket expires, the name of the token that it was
issued to, and the instance whose stream it opens, if it is only for one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Container
from typing import NamedTuple

from gym_http_server.access.shares import share_used_up
from gym_http_server.errors import ShareUsedUp, TooManyTickets
from gym_http_wire.problems import DiskFull

__all__ = ["LIFETIME_S", "MAX_TICKETS", "TicketHolder", "Tickets"]

LIFETIME_S = 30
#: Limit of unused tickets, so that they fill neither disk nor memory.
MAX_TICKETS = 1024
_BYTES = 24
_TICKET = re.compile(r"[A-Za-z0-9_-]{32}").fullmatch


class TicketHolder(NamedTuple):
    """The right to open streams in place of a token.

    Attributes:
        name: Name of the token that the ticket stands for.
        instance_id: The instance; "": any.
    """

    name: str
    instance_id: str = ""


class Tickets:
    """The tickets of one server.

    Args:
        folder: Directory of unused tickets; created when it is needed.
        clock: Returns nanoseconds, the same in all web workers.
    """

    def __init__(
        self, folder: str, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._folder = folder
        self._clock = clock

    def issue(self, name: str = "", instance_id: str = "", number: str = "") -> str:
        """Make a ticket.

        Args:
            name: Name of the token that it stands for.
            instance_id: The instance whose stream it opens; "": that of any.
            number: The number of this server in its fleet, with which it begins.

        Raises:
            TooManyTickets: Too many tickets are unused.
            ShareUsedUp: Too many of them are this token's.
            DiskFull: It cannot be stored.
        """
        ticket = number + secrets.token_urlsafe(_BYTES)[len(number) :]
        expires_ns = self._clock() + LIFETIME_S * 10**9
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            self._make_room(name)
            # A link is created with its target in one step, unlike a file with content.
            os.symlink(f"{expires_ns} {name} {instance_id}", self._path(ticket))
        except OSError as error:
            raise DiskFull(f"the ticket cannot be stored: {error.strerror}") from None
        return ticket

    def take(self, ticket: str) -> TicketHolder | None:
        """Use a ticket up; return ``None`` if it is not valid."""
        if not _TICKET(ticket):
            return None
        path = self._path(ticket)
        try:
            expires_ns, holder = _read(path)
            os.unlink(path)
        except (OSError, ValueError):
            return None
        return holder if self._clock() < expires_ns else None

    def revoke(self, names: Container[str]) -> None:
        """Remove the tickets that stand for tokens of these names."""
        with contextlib.suppress(FileNotFoundError):
            for file in os.listdir(self._folder):
                path = f"{self._folder}/{file}"
                with contextlib.suppress(OSError, ValueError):
                    if _read(path)[1].name in names:
                        os.unlink(path)

    def _path(self, ticket: str) -> str:
        return f"{self._folder}/{hashlib.sha256(ticket.encode()).hexdigest()}"

    def _make_room(self, token: str) -> None:
        links = os.listdir(self._folder)
        # Until then, no token can hold as many as are left.
        if len(links) < MAX_TICKETS // 2:
            return
        held = self._sweep(links)
        taken, after = held.total(), {"Retry-After": "5"}
        if taken >= MAX_TICKETS:
            raise TooManyTickets(
                f"there are {MAX_TICKETS} unused tickets; each is "
                f"forgotten after {LIFETIME_S} s",
                headers=after,
            )
        counts = {"held": held[token], "taken": taken, "most": MAX_TICKETS}
        if why := share_used_up(token, "unused tickets", **counts):
            raise ShareUsedUp(why, headers=after)

    def _sweep(self, links: list[str]) -> Counter[str]:
        """Remove expired tickets; return the number of others by token."""
        held: Counter[str] = Counter()
        for link in links:
            path = f"{self._folder}/{link}"
            try:
                expires_ns, (name, _) = _read(path)
                if expires_ns <= self._clock():
                    os.unlink(path)
                    continue
            except FileNotFoundError:  # taken, or swept by another
                continue
            except (OSError, ValueError):  # none of ours
                name = ""
            held[name] += 1
        return held


def _read(path: str) -> tuple[int, TicketHolder]:
    """Read when a ticket expires, and what it is for."""
    expires_ns, name, instance_id = os.readlink(path).split(" ")
    return int(expires_ns), TicketHolder(name, instance_id)
