"""Authenticate callers by token, and limit how fast wrong tokens can be tried.

Wrong tokens are logged and counted by address. A right token is always accepted: tokens
are compared before anything is counted.
"""

from __future__ import annotations

import functools
import hashlib
import ipaddress
import logging
import mmap
import secrets
import time
from collections.abc import Callable, Mapping
from typing import NoReturn

from gym_http_server.access.identities import EVERYONE, RUN_TOKEN_PREFIX, Identity, Keys
from gym_http_server.errors import TooManyWrongTokens, Unauthorized
from gym_http_server.processes.log_lines import LimitedLog

__all__ = ["Authenticator", "WrongTokens", "shared_count"]

#: Wrong tokens a second and address, beyond which they are refused with 429.
MOST_A_SECOND = 10
#: Addresses that fall into the same slot share it.
SLOTS = 1 << 16
_SECOND_NS = 10**9
_SPACING_NS = _SECOND_NS // MOST_A_SECOND
_BURST_NS = _SECOND_NS - _SPACING_NS
_LOCAL = "a local socket"

log = logging.getLogger("gym_http_server.tokens")


class WrongTokens:
    """Counts wrong tokens by address, in memory that forks of this process share.

    This is a token bucket (GCRA). For each address it stores the time at which the last
    wrong token would have arrived at the permitted rate. If that time is about a second
    ahead of the clock, there were too many. The size is fixed for any number of
    addresses.

    Args:
        clock: Returns nanoseconds, the same in all processes.
    """

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._times = memoryview(mmap.mmap(-1, SLOTS * 8)).cast("Q")
        # Without it, addresses that share a slot could be found by trial.
        self._secret = secrets.token_bytes(16)

    def count(self, source: str) -> bool:
        """Count a wrong token; return whether its source is within the limit.

        Args:
            source: As returned by `source_of`.
        """
        slot, now_ns = self._slot(source), self._clock()
        time_ns = max(self._times[slot], now_ns)
        if time_ns - now_ns > _BURST_NS:
            return False
        self._times[slot] = time_ns + _SPACING_NS
        return True

    def is_within(self, source: str) -> bool:
        """Whether a source is within the limit; this counts nothing."""
        return self._times[self._slot(source)] - self._clock() <= _BURST_NS

    def _slot(self, source: str) -> int:
        digest = hashlib.blake2b(source.encode(), key=self._secret, digest_size=4)
        return int.from_bytes(digest.digest(), "little") % SLOTS


@functools.cache
def shared_count() -> WrongTokens:
    """Return the count of this process and of all forks after the first call."""
    return WrongTokens()


class Authenticator:
    """Checks tokens, and limits how fast wrong ones can be tried.

    Args:
        keys: The tokens; ``None`` accepts every caller.
        wrong: Counts wrong tokens.
        advice: How to send the token; part of the message of `Unauthorized`.
        headers: HTTP headers of the response to a caller without a valid token.
    """

    def __init__(
        self,
        keys: Keys | None,
        wrong: WrongTokens,
        advice: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.keys = keys
        self._wrong = wrong
        self._words = f"the token is missing or wrong; {advice}"
        self._headers = dict(headers or {})
        self._log_wrong, self._log_missing = LimitedLog(log), LimitedLog(log)

    def identify(self, shown: bytes, address: str, request_id: str = "") -> Identity:
        """Return the identity of a caller's token.

        Args:
            shown: The token; empty if there was none.
            address: IP address of the caller; "" for a Unix socket.
            request_id: Of the request, for the log.

        Raises:
            Unauthorized: The token is missing or wrong.
            TooManyWrongTokens: The token is wrong, and so were too many from this
                address in the last second.
        """
        if self.keys is None:
            # A run's token opens nothing here, also where no token is needed.
            if shown.startswith(RUN_TOKEN_PREFIX):
                self.refuse(shown, address, request_id)
            return EVERYONE
        identity = self.keys.identify(shown)
        if identity is not None:
            return identity
        self.refuse(shown, address, request_id)

    def is_within(self, address: str) -> bool:
        """Whether an address may try another token: one with too many may not."""
        return self._wrong.is_within(source_of(address))

    def refuse(self, shown: bytes, address: str, request_id: str = "") -> NoReturn:
        """Refuse a caller without a valid token; log and count a wrong one.

        The arguments and exceptions are those of `identify`.
        """
        source = source_of(address)
        if shown:
            self._log_wrong.warning(f"wrong token from {source}", request_id=request_id)
            self._count(source)
        else:
            self._log_missing.warning(f"no token from {source}", request_id=request_id)
        raise Unauthorized(self._words, headers=dict(self._headers))

    def _count(self, source: str) -> None:
        if not self._wrong.count(source):
            raise TooManyWrongTokens(
                f"more than {MOST_A_SECOND} wrong tokens a second came from this "
                "address; the right one is accepted at any time"
            )


def source_of(address: str) -> str:
    """Return the source that a wrong token counts for: IPv4 address or IPv6 /64."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return _LOCAL
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((parsed, 64), strict=False))
