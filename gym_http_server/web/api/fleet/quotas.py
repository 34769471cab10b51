"""Quotas of tokens (``max_instances``) that count in a whole fleet.

The records of the nodes have the instances of each token, but are a little old. So the
store counts the creates of the last seconds.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable
from typing import TypeVar

from gym_http_server.errors import TooManyInstances
from gym_http_server.fleet.store import FRESH_SECONDS, StoreAway
from gym_http_server.web.api.exchange import Answer
from gym_http_server.web.api.web import Web
from gym_http_server.web.backends.nodes.fleet import Fleet
from gym_http_server.web.backends.nodes.placement import LOOK_AGAIN_SECONDS
from gym_http_server.web.backends.supervisor_client import Held

__all__ = ["within_quota"]

_Made = TypeVar("_Made", Answer, Held)


def within_quota(
    web: Web, owner: str, create: Callable[[], _Made], *, replaces: bool = False
) -> _Made:
    """Create an instance, unless its owner has as many in the fleet as it may have.

    Args:
        web: The collaborators of views.
        owner: Name of the token that is to own it.
        create: Creates it, and returns the answer.
        replaces: Whether it takes the place of another one, which still counts.

    Raises:
        TooManyInstances: The token has reached its quota.
    """
    token = web.guard.named(owner)
    most = None if token is None else token.max_instances
    if most is None or web.fleet is None:
        return create()
    placed, made = _place(web.fleet, owner, most, int(replaces)), None
    try:
        made = create()
        return made
    finally:
        if made is None or made.status >= 400:
            with contextlib.suppress(StoreAway):
                web.fleet.store.forget_create(owner, placed)


def _place(fleet: Fleet, owner: str, most: int, replaced: int) -> str:
    """Count a create of a token; wait if recent ones could be beyond its quota.

    Args:
        fleet: The fleet.
        owner: Name of the token.
        most: Instances that it may have.
        replaced: Those of its instances that end with the create.

    Returns:
        The name under which it counts.

    Raises:
        TooManyInstances: The token has reached its quota.
    """
    name = secrets.token_hex(8)
    began = time.monotonic()
    while True:
        count = fleet.nodes.owned_by(owner)
        # Ended instances are in the records for a while, and creates in the store.
        wait_s = FRESH_SECONDS
        room = most + replaced - count
        if room > 0:
            try:
                if fleet.store.count_create(owner, name, room):
                    return name
            except StoreAway:
                # Then the records alone count.
                return name
            wait_s = FRESH_SECONDS + 1.0
        if time.monotonic() - began > wait_s:
            break
        time.sleep(LOOK_AGAIN_SECONDS)
    more = " and others that are being made" if room > 0 else ""
    raise TooManyInstances(
        f"the token {owner!r} has {count} instances in this fleet{more}, and may have "
        f"{most} (max_instances in the --tokens file): close one",
        extras={"instances": count, "max_instances": most},
    )
