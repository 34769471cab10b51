"""Routes for environments that live elsewhere: to connect in, and to learn how."""

from __future__ import annotations

import functools
import importlib.resources
from collections.abc import Iterator
from importlib.resources.abc import Traversable

import flask

from gym_http_server.api.exchange import SWITCHED, Answer, Environ
from gym_http_server.api.streams import check_framing
from gym_http_server.api.web import Web, add_route
from gym_http_server.errors import Draining, NotFound
from gym_http_wire.handshakes import accept_for

__all__ = ["add_routes"]

PROTOCOL = "gym-http.external.v1"
CLIENT = "/v1/external/client/"
_CACHED_S = 300


def add_routes(app: flask.Flask, web: Web) -> None:
    """Add the routes."""
    view = functools.partial(_come, web)
    for websocket in (False, True):
        add_route(app, web, "GET", "/v1/external/", view, websocket=websocket)
    add_route(app, web, "GET", f"{CLIENT}<path:name>/", _client)


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


def _client(environ: Environ, name: str) -> Answer:
    """Give a file of the JavaScript client, which pages import from here."""
    source = _sources().get(name)
    if source is None:
        raise NotFound(f"the client has no file {name!r:.80}; it begins with serve.js")
    headers = [
        ("Content-Type", "text/javascript; charset=utf-8"),
        ("Cache-Control", f"max-age={_CACHED_S}"),
        ("X-Content-Type-Options", "nosniff"),
    ]
    return Answer(200, headers, source)


@functools.cache
def _sources() -> dict[str, bytes]:
    folder = importlib.resources.files("gym_http_server.api") / "javascript"
    return dict(_scripts(folder, ""))


def _scripts(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    # All names are known beforehand, so what is asked for is never looked up on disk.
    for each in folder.iterdir():
        if each.is_dir():
            yield from _scripts(each, f"{path}{each.name}/")
        elif each.name.endswith(".js"):
            yield path + each.name, each.read_bytes()
