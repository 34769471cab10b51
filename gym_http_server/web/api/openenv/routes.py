"""Routes of OpenEnv's protocol: the connection, and what is known of an environment."""

from __future__ import annotations

import os
import socket
from typing import Any

import msgspec

from gym_http_server.access.identities import STEP
from gym_http_server.config.env_commands import EXTERNAL
from gym_http_server.errors import REVOKED, Draining, UnknownEnv
from gym_http_server.operations.members import read_texts
from gym_http_server.operations.openenv import CONNECT
from gym_http_server.web.api.exchange import (
    CALLER,
    MAX_QUERY,
    SWITCHED,
    Answer,
    Environ,
    caller_of,
    empty_answer,
    json_answer,
    read_body,
    read_query,
)
from gym_http_server.web.api.openenv.instance import create, in_new_words
from gym_http_server.web.api.openenv.session import Session
from gym_http_server.web.api.openenv.spaces import schemas
from gym_http_server.web.api.service import (
    check_processes,
    is_registered,
    not_registered,
)
from gym_http_server.web.api.streams import check_framing, switching
from gym_http_server.web.api.web import View, Web
from gym_http_server.web.api.websockets import Ending, KeptSocket
from gym_http_wire.handshakes import check_upgrade
from gym_http_wire.messages import Op
from gym_http_wire.problems import TooManyStreams
from gym_http_wire.websocket import Close

__all__ = ["VIEWS"]

_WORDS = "OpenEnv's clients connect here, each by a WebSocket"
# Their clients append it to whatever address they are given.
_APPENDED = "/ws"


def _connect(web: Web, environ: Environ, env_id: str) -> Answer:
    check_framing(environ)
    accept = check_upgrade(
        environ.get("HTTP_UPGRADE", ""),
        environ.get("HTTP_CONNECTION", ""),
        environ.get("HTTP_SEC_WEBSOCKET_VERSION", ""),
        environ.get("HTTP_SEC_WEBSOCKET_KEY", ""),
        _WORDS,
    )
    query = environ.get("QUERY_STRING", "").removesuffix(_APPENDED)
    given = read_texts(CONNECT, read_query(query, CONNECT, MAX_QUERY))
    caller_of(environ).require(STEP)
    if web.draining:
        raise Draining("the server is stopping and accepts no connections")
    # The others are for requests.
    most = web.under_way.most * 3 // 4
    if len(web.kept) >= most:
        raise TooManyStreams(most, "connections", "this web worker")
    early = environ["wsgi.input"].reader.unreader.take_buffered()
    # The client's own socket has deadlines, and this connection has none.
    sock = socket.socket(fileno=os.dup(environ["gunicorn.socket"].fileno()))
    if sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    session = Session(web, environ, env_id, float(given.get("wait_s", 0.0)))
    ending = _Ending(web, environ).why
    client = KeptSocket(sock, web.settings.max_body, session.end, ending)
    with client, web.kept.keep(client):
        client.begin(switching(accept).encode(), early)
        session.run(client)
    return SWITCHED


class _Ending:
    """Whether a connection has to close, since server or token go."""

    def __init__(self, web: Web, environ: Environ) -> None:
        self._web = web
        self._environ = environ

    def why(self) -> Ending | None:
        """Return status and reason; ``None`` if it need not close.

        If a reload has changed the token's scopes, the caller has the new ones then.
        """
        if self._environ["gunicorn.socket"].limits.last_answers:
            return Close.GOING_AWAY, "the server is stopping"
        guard, name = self._web.guard, caller_of(self._environ).name
        guard.refresh()
        # By its name, which stands for the user, and not by the secret.
        caller = guard.named(name)
        if caller is None:
            return Close.POLICY, REVOKED
        self._environ[CALLER] = caller
        return None


def _health(web: Web, environ: Environ, env_id: str) -> Answer:
    read_body(environ, web.settings.max_body)
    check_processes(web)
    # Whether these exist, only a create can tell.
    tells_later = ":" in env_id or env_id.startswith(EXTERNAL)
    if not tells_later and not is_registered(web, env_id):
        raise not_registered(env_id)
    return _json({"status": "healthy"})


def _metadata(web: Web, environ: Environ, env_id: str) -> Answer:
    read_body(environ, web.settings.max_body)
    known = {each["env_id"]: each for each in web.supervisor.call(Op.REGISTRY)}
    known |= {each["env_id"]: each for each in web.broker.listed()}
    # A module before a colon is imported with the create only.
    if env_id not in known and ":" not in env_id:
        raise in_new_words(UnknownEnv(env_id))
    entry_point = known.get(env_id, {}).get("entry_point")
    return _json(
        {
            "name": env_id,
            "description": ", ".join(filter(None, (env_id, entry_point))),
            "documentation_url": "/docs/",
        }
    )


def _schema(web: Web, environ: Environ, env_id: str) -> Answer:
    read_body(environ, web.settings.max_body)
    instance = create(web, environ, env_id)
    if instance is None:
        return empty_answer()
    instance.check_form()
    instance.end()
    return _json(schemas(instance.described))


def _json(value: dict[str, Any]) -> Answer:
    return json_answer(msgspec.json.encode(value, order="sorted") + b"\n")


VIEWS: dict[str, View] = {
    "openenv_connect": _connect,
    "openenv_health": _health,
    "openenv_metadata": _metadata,
    "openenv_schema": _schema,
}
