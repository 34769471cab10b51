"""Dialects by name, as a server has them."""

from __future__ import annotations

from gym_http_server.envhost import plain_json
from gym_http_wire.external.binary_dialect import BinaryDialect
from gym_http_wire.external.handshake import TANGO, Hello
from gym_http_wire.external.json_dialect import JSONDialect
from gym_http_wire.external.messages import Dialect
from gym_http_wire.external.tango import TangoDialect
from gym_http_wire.values import typed

__all__ = ["dialect_of"]


def dialect_of(hello: Hello) -> Dialect:
    """Give the dialect that an environment chose."""
    if hello.dialect == "binary":
        return BinaryDialect()
    if hello.dialect == "typed":
        return JSONDialect(typed.encode, typed.decode)
    kind = TangoDialect if hello.dialect == TANGO else JSONDialect
    return kind(plain_json.dumps, plain_json.loads)
