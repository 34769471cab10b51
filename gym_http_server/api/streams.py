"""The route of streams: a WebSocket that ends in the host, not here."""

from __future__ import annotations

import functools
from urllib.parse import parse_qs

import flask

from gym_http_server.api.exchange import SWITCHED, Answer, Environ
from gym_http_server.api.instances import INSTANCE
from gym_http_server.api.web import Web, add_route
from gym_http_server.instances.handover import hand_over, relay
from gym_http_wire.handshakes import hello_of

__all__ = ["add_routes"]

MAX_QUERY = 1024


def add_routes(app: flask.Flask, web: Web) -> None:
    """Add the route of streams."""
    view = functools.partial(_stream, web)
    for websocket in (False, True):
        add_route(app, web, "GET", INSTANCE + "stream/", view, websocket=websocket)


def _stream(web: Web, environ: Environ, instance_id: str) -> Answer:
    query = parse_qs(environ.get("QUERY_STRING", "")[:MAX_QUERY])
    hello = hello_of(
        environ.get("HTTP_UPGRADE", ""),
        environ.get("HTTP_CONNECTION", ""),
        environ.get("HTTP_SEC_WEBSOCKET_VERSION", ""),
        environ.get("HTTP_SEC_WEBSOCKET_KEY", ""),
        environ.get("HTTP_SEC_WEBSOCKET_PROTOCOL", ""),
        query.get("session", [""])[-1],
    )
    take = relay if web.settings.stream_relay else hand_over
    early = environ["wsgi.input"].reader.unreader.take_buffered()
    take(web.hosts, instance_id, hello, environ["gunicorn.socket"], early)
    return SWITCHED
