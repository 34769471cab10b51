"""The route by which environments that live elsewhere connect in."""

from __future__ import annotations

import functools

import flask

from gym_http_server.api.exchange import SWITCHED, Answer, Environ
from gym_http_server.api.streams import check_framing
from gym_http_server.api.web import Web, add_route
from gym_http_server.errors import Draining
from gym_http_wire.handshakes import accept_for

__all__ = ["add_routes"]

PROTOCOL = "gym-http.external.v1"


def add_routes(app: flask.Flask, web: Web) -> None:
    """Add the route."""
    view = functools.partial(_come, web)
    for websocket in (False, True):
        add_route(app, web, "GET", "/v1/external/", view, websocket=websocket)


def _come(web: Web, environ: Environ) -> Answer:
    check_framing(environ)
    accept = accept_for(
        environ.get("HTTP_UPGRADE", ""),
        environ.get("HTTP_CONNECTION", ""),
        environ.get("HTTP_SEC_WEBSOCKET_VERSION", ""),
        environ.get("HTTP_SEC_WEBSOCKET_KEY", ""),
        "here environments connect in, as a WebSocket each",
    )
    if web.draining:
        raise Draining("the server is stopping and lets no environment in")
    offered = environ.get("HTTP_SEC_WEBSOCKET_PROTOCOL", "").split(",")
    chosen = PROTOCOL if PROTOCOL in map(str.strip, offered) else ""
    take = web.lobby.relay if web.settings.stream_relay else web.lobby.hand_over
    early = environ["wsgi.input"].reader.unreader.take_buffered()
    take(_switching(accept, chosen), environ["gunicorn.socket"], early)
    return SWITCHED


def _switching(accept: str, protocol: str) -> str:
    chosen = f"Sec-WebSocket-Protocol: {protocol}\r\n" if protocol else ""
    return (
        "HTTP/1.1 101 Switching Protocols\r\n"
        "Upgrade: websocket\r\n"
        "Connection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept}\r\n"
        f"{chosen}"
        "\r\n"
    )
