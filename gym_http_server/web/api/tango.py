"""The route by which Tango's pages connect; they send no hello.

The query of their address, or else the server's settings, describe them.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

import msgspec

from gym_http_server.config.settings import Settings
from gym_http_server.web.api.exchange import MAX_QUERY, Answer, Environ
from gym_http_server.web.api.external import connect_in
from gym_http_server.web.api.web import View, Web
from gym_http_wire.external.handshake import PROTOCOL, is_name
from gym_http_wire.problems import BadParameter

__all__ = ["VIEWS", "name_of"]

_CAPABILITIES = ["options", "reset", "seed"]
_EXAMPLE = '{"type":"Discrete","n":4}'


def _query(environ: Environ) -> dict[str, list[str]]:
    return parse_qs(environ.get("QUERY_STRING", "")[:MAX_QUERY])


def name_of(settings: Settings, environ: Environ) -> str:
    """Return the name under which a page connects."""
    return _query(environ).get("name", [settings.tango_name])[-1]


def _connect(web: Web, environ: Environ) -> Answer:
    settings = web.settings
    query, name = _query(environ), name_of(settings, environ)
    if not is_name(name):
        raise BadParameter(
            f"name is {name!r:.80}: expected a letter or digit, then up to 63 of A-Z, "
            "a-z, 0-9, _, . and -"
        )
    hello = {
        "type": "hello",
        "protocol": PROTOCOL,
        "name": name,
        "capabilities": _CAPABILITIES,
    }
    for which, default in (
        ("observation_space", settings.tango_observation_space),
        ("action_space", settings.tango_action_space),
    ):
        hello[which] = _space(which, query.get(which, [default])[-1])
    return connect_in(web, environ, msgspec.json.encode(hello).decode())


def _space(which: str, text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        flag = f"--tango-{which.replace('_', '-')}"
        fault = f"is {text!r:.80}" if text else "is missing"
        raise BadParameter(
            f"{which} {fault}: expected a space as {_EXAMPLE}, in the address or by "
            f"{flag}"
        ) from None


VIEWS: dict[str, View] = {"tango_connect": _connect}
