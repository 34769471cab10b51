"""The route of streams: a WebSocket that ends in the host, not here."""

from __future__ import annotations

import functools
import re
from urllib.parse import parse_qs

import msgspec

from gym_http_server.access.identities import READ, STEP
from gym_http_server.web.api.exchange import (
    MAX_QUERY,
    SWITCHED,
    Answer,
    Environ,
    caller_of,
    request_id_of,
)
from gym_http_server.web.api.web import View, Web
from gym_http_server.web.backends.handover import pass_socket, relay
from gym_http_wire.handshakes import parse_handshake
from gym_http_wire.messages import NODE_PROOF
from gym_http_wire.problems import BadParameter, UpgradeRequired

__all__ = ["VIEWS", "check_framing", "switching"]

_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?").fullmatch


def _stream(web: Web, environ: Environ, instance_id: str) -> Answer:
    check_framing(environ)
    query = parse_qs(environ.get("QUERY_STRING", "")[:MAX_QUERY])
    hello = parse_handshake(
        environ.get("HTTP_UPGRADE", ""),
        environ.get("HTTP_CONNECTION", ""),
        environ.get("HTTP_SEC_WEBSOCKET_VERSION", ""),
        environ.get("HTTP_SEC_WEBSOCKET_KEY", ""),
        environ.get("HTTP_SEC_WEBSOCKET_PROTOCOL", ""),
        query.get("session", [""])[-1],
        query.get("watch", [""])[-1],
        query.get("form", [""])[-1],
        query.get("fps", [""])[-1],
        query.get("share", [""])[-1],
        query.get("size", [""])[-1],
        query.get("ask", [""])[-1],
    )
    caller = caller_of(environ)
    hello = msgspec.structs.replace(
        hello,
        request_id=request_id_of(environ),
        owner=caller.name,
        proof=web.proof(environ, hello.accept),
    )
    lost_s = _seconds(query.get("lost", [""])[-1])
    caller.require(READ if hello.watch else STEP)
    take = relay if web.settings.stream_relay else pass_socket
    early = environ["wsgi.input"].reader.unreader.take_buffered()
    client = environ["gunicorn.socket"]
    call = functools.partial(take, web.hosts, instance_id, caller.only, hello)
    web.count_stream(caller, client, lambda: call(client, early, lost_s))
    return SWITCHED


def _seconds(lost: str) -> float | None:
    if not lost:
        return None
    if not _SECONDS(lost):
        raise BadParameter(f"lost is {lost!r:.40}: expected seconds, as 0.25")
    return float(lost)


def check_framing(environ: Environ) -> None:
    """Refuse a request that is not a WebSocket handshake.

    Raises:
        UpgradeRequired: Its method, or its version of HTTP, does not allow an upgrade.
        BadParameter: It has a body, which would be mistaken for the stream's beginning.
    """
    method, version = environ["REQUEST_METHOD"], environ["SERVER_PROTOCOL"]
    if method != "GET" or version == "HTTP/1.0":
        raise UpgradeRequired(
            f"a stream is opened by GET and HTTP/1.1, not by {method} and {version}",
            headers={"Upgrade": "websocket"},
        )
    size = environ.get("CONTENT_LENGTH") or "0"
    if size != "0" or "HTTP_TRANSFER_ENCODING" in environ:
        raise BadParameter("the request that opens a stream has a body: expected none")


def switching(accept: str, protocol: str = "", proof: str = "") -> str:
    """Return the head of the answer that begins a WebSocket.

    Args:
        accept: Its Sec-WebSocket-Accept.
        protocol: The subprotocol; "" if none was chosen.
        proof: What shows that a node of a fleet has answered, for another one; or "".
    """
    shown = f"{NODE_PROOF}: {proof}\r\n" if proof else ""
    chosen = f"Sec-WebSocket-Protocol: {protocol}\r\n" if protocol else ""
    return (
        "HTTP/1.1 101 Switching Protocols\r\n"
        "Upgrade: websocket\r\n"
        "Connection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept}\r\n"
        f"{chosen}{shown}"
        "\r\n"
    )


VIEWS: dict[str, View] = {"env_stream": _stream}
