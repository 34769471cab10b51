"""Dialects by name, as a server has them."""

from __future__ import annotations

from gym_http_server.envhost import plain
from gym_http_wire.external.asks import Dialect
from gym_http_wire.external.binaries import BinaryDialect
from gym_http_wire.external.greetings import TANGO, Hello
from gym_http_wire.external.tango import TangoDialect
from gym_http_wire.external.texts import TextDialect
from gym_http_wire.values import typed

__all__ = ["dialect_of"]


def dialect_of(hello: Hello) -> Dialect:
    """Give the dialect that an environment chose."""
    if hello.dialect == "binary":
        return BinaryDialect()
    if hello.dialect == "typed":
        return TextDialect(typed.encode, typed.decode)
    kind = TangoDialect if hello.dialect == TANGO else TextDialect
    return kind(plain.dumps, plain.loads)
