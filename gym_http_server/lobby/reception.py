"""Checks of what an environment says of itself when it comes."""

from __future__ import annotations

from gym_http_server.tokens import is_same
from gym_http_wire import rebuilding
from gym_http_wire.external.greetings import BadHello, Hello

__all__ = ["check_spaces", "is_same"]


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
