"""Routes for external environments, and for the JavaScript client that they import."""

from __future__ import annotations

import functools
import importlib.resources
import os
from collections.abc import Iterator
from importlib.resources.abc import Traversable
from pathlib import Path

from gym_http_server.errors import Draining, NotFound
from gym_http_server.external.provider import PATH
from gym_http_server.operations.server import EXTERNAL_REQUEST
from gym_http_server.web.api.exchange import (
    SWITCHED,
    Answer,
    Environ,
    caller_of,
    frame_answer,
    read_body,
    read_parameters,
)
from gym_http_server.web.api.streams import check_framing, switching
from gym_http_server.web.api.web import View, Web
from gym_http_wire.external.handshake import MAX_HELLO_BYTES
from gym_http_wire.handshakes import check_upgrade

__all__ = ["VIEWS", "accept", "connect_in", "take_in"]

PROTOCOL = "gym-http.external.v1"
_CACHED_S = 300
_PROVIDER = os.path.basename(PATH)


def connect_in(web: Web, environ: Environ, hello: str = "") -> Answer:
    """Accept the connection of an external environment.

    Args:
        web: The collaborators of views.
        environ: Its handshake.
        hello: Its hello, if it does not send one itself.

    Raises:
        Problem: It is not accepted.
    """
    greeting = accept(web, environ)
    early = environ["wsgi.input"].reader.unreader.take_buffered()
    take_in(web, environ, greeting, early, hello)
    return SWITCHED


def accept(web: Web, environ: Environ) -> str:
    """Check the handshake of an environment; return what answers it.

    Raises:
        Problem: It is not accepted.
    """
    check_framing(environ)
    digest = check_upgrade(
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
    return switching(digest, chosen, web.proof(environ, digest))


def take_in(
    web: Web, environ: Environ, greeting: str, early: bytes, hello: str = ""
) -> None:
    """Let the broker have the connection of an environment.

    Args:
        web: The collaborators of views.
        environ: Its handshake.
        greeting: What answers the handshake; "" if it was sent.
        early: Bytes that have been received after the handshake.
        hello: Its hello, if it does not send one itself.

    Raises:
        Problem: The broker does not accept it.
    """
    take = web.broker.relay if web.settings.stream_relay else web.broker.pass_on
    take(greeting, environ["gunicorn.socket"], early, caller_of(environ), hello)


def _hello(web: Web, environ: Environ) -> Answer:
    if web.draining:
        raise Draining("the server is stopping and lets no environment in")
    hello = read_body(environ, min(web.settings.max_body, MAX_HELLO_BYTES), "")
    return frame_answer(web.broker.hello(hello, caller_of(environ)))


def _next_request(web: Web, environ: Environ, connection: str) -> Answer:
    read_body(environ, web.settings.max_body)
    given = read_parameters(environ, EXTERNAL_REQUEST)
    wait_s = float(given.get("wait_s", EXTERNAL_REQUEST["wait_s"].default))
    owner = caller_of(environ).only
    return frame_answer(web.broker.next_request(connection, wait_s, owner))


def _answer(web: Web, environ: Environ, connection: str) -> Answer:
    # The limit of all transports, which the welcome has announced.
    body = read_body(environ, web.settings.max_answer, "--max-answer")
    return frame_answer(web.broker.answer(connection, body, caller_of(environ).only))


def _client(web: Web, environ: Environ, name: str) -> Answer:
    """Return a file of the JavaScript client, which pages import from here.

    Or the provider in one file, which people copy to other Pythons.
    """
    source = _sources().get(name)
    if source is None:
        raise NotFound(
            f"there is no file {name!r:.80}: expected serve.js, a file that it "
            f"imports, or {_PROVIDER}"
        )
    kind = "text/x-python" if name == _PROVIDER else "text/javascript"
    headers = [
        ("Content-Type", f"{kind}; charset=utf-8"),
        ("Cache-Control", f"max-age={_CACHED_S}"),
    ]
    return Answer(200, headers, source)


@functools.cache
def _sources() -> dict[str, bytes]:
    folder = importlib.resources.files("gym_http_server.web.api") / "javascript"
    return {**dict(_scripts(folder, "")), _PROVIDER: Path(PATH).read_bytes()}


def _scripts(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    # All names are known beforehand, so no name of a request is looked up on disk.
    for each in folder.iterdir():
        if each.is_dir():
            yield from _scripts(each, f"{path}{each.name}/")
        elif each.name.endswith(".js"):
            yield path + each.name, each.read_bytes()


VIEWS: dict[str, View] = {
    "external_connect": connect_in,
    "external_hello": _hello,
    "external_request": _next_request,
    "external_answer": _answer,
    "external_client": _client,
}
