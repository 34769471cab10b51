"""Checks of what an environment says of itself when it comes."""

from __future__ import annotations

import hashlib
import hmac

from gym_http_wire import rebuilding
from gym_http_wire.external.greetings import BadHello, Hello

__all__ = ["check_spaces", "is_same"]


def is_same(given: str, token: str) -> bool:
    """Whether what was given is the token."""
    # Digests, so that neither length nor characters make a difference in time.
    digests = (hashlib.sha256(each.encode()).digest() for each in (given, token))
    return hmac.compare_digest(*digests)


def check_spaces(hello: Hello) -> None:
    """See to it that the spaces of a hello are some.

    Raises:
        BadHello: One is none.
    """
    for which in ("observation_space", "action_space"):
        try:
            rebuilding.rebuild(getattr(hello, which))
        except rebuilding.BadDescription as error:
            raise BadHello(f"{which}: {error}", "bad-space") from None
