"""Shares: how much one token may hold of something that all tokens need.

A token may hold as much as is left for others. So one token can hold half of it, two
can hold a third each, and a token that comes later finds some. Neither the number of
tokens nor what they will need has to be known.
"""

from __future__ import annotations

import logging

from gym_http_server.errors import ShareUsedUp
from gym_http_server.processes.log_lines import LimitedLog

__all__ = ["Shares", "share_used_up"]

_log = LimitedLog(logging.getLogger("gym_http_server.shares"))


def share_used_up(
    token: str, what: str, *, held: int, taken: int, most: int
) -> str | None:
    """Return why a token may not hold one more; log it.

    Args:
        token: Name of the token; "" if the server does not distinguish tokens, and any
            number is its share.
        what: What it holds, in the plural.
        held: How many it holds.
        taken: How many all tokens hold.
        most: How many they may hold.
    """
    if not token or held < most - taken:
        return None
    words = (
        f"the token {token!r} holds {held} of {most} {what}, and others hold "
        f"{taken - held}: a token may hold as many as are left"
    )
    _log.warning(words)
    return words


class Shares:
    """Counts what each token holds of something.

    Args:
        what: What it is, in the plural.
        most: How many all tokens may hold.

    Attributes:
        most: The same; it may change.
    """

    def __init__(self, what: str, most: int) -> None:
        self.most = most
        self._what = what
        self._held: dict[str, int] = {}
        self._taken = 0

    def take(self, token: str, shown: str) -> None:
        """Count one more.

        Args:
            token: What distinguishes the token from others.
            shown: Its name; "" if the server does not distinguish tokens.

        Raises:
            ShareUsedUp: The token holds its share.
        """
        held = self._held.get(token, 0)
        why = share_used_up(
            shown, self._what, held=held, taken=self._taken, most=self.most
        )
        if why:
            raise ShareUsedUp(why, headers={"Retry-After": "1"})
        self._held[token] = held + 1
        self._taken += 1

    def release(self, token: str) -> None:
        """Count one less."""
        self._taken -= 1
        self._held[token] -= 1
        if not self._held[token]:
            del self._held[token]
