"""Handshakes of streams, for the server and for clients."""

from __future__ import annotations

import base64
import binascii
import re
import secrets

import msgspec

from gym_http_wire.messages import Form
from gym_http_wire.problems import BadParameter, UpgradeRequired
from gym_http_wire.websocket import accept_of

__all__ = [
    "BINARY_PROTOCOL",
    "SESSION",
    "TEXT_PROTOCOL",
    "ShowRequest",
    "StreamHandshake",
    "check_upgrade",
    "new_session",
    "parse_handshake",
]

BINARY_PROTOCOL = "gym-http.v1"
TEXT_PROTOCOL = "gym-http.v1.json"
SESSION = re.compile(r"[A-Za-z0-9_-]{1,64}").fullmatch

#: Copies a second that a watcher may request.
MAX_FPS = 1000
_RATE = re.compile(r"[0-9]{1,4}(\.[0-9]{1,3})?", re.ASCII).fullmatch
_SESSION_BYTES = 12
_KEY_BYTES = 16
_VERSION = "13"
# Forms for watchers; the default of the binary dialect is the binary form.
_SHOW = "show"
_FORMS = {
    "": Form.PLAIN,
    "plain": Form.PLAIN,
    "typed": Form.TYPED,
    _SHOW: Form.PLAIN,
}
_PART = re.compile(r"[01]?(\.[0-9]{1,6})?", re.ASCII).fullmatch
_PIXELS = re.compile(r"[0-9]{1,4}", re.ASCII).fullmatch
#: Ranges of what a watcher to be shown an instance may request.
MAX_SHOW_FPS = 60
MIN_SHARE = 0.01
MIN_SIZE, MAX_SIZE = 16, 2048


_REMOVED = (
    "this handshake of a WebSocket lacks 'Upgrade: websocket' and 'Connection: "
    "Upgrade': a proxy between client and server may have removed them. Have the proxy "
    "pass both headers on for this path; for nginx see deploy/nginx.conf"
)


class ShowRequest(msgspec.Struct, frozen=True):
    """What a watcher requests that is to be shown an instance.

    Attributes:
        fps: Updates a second, at most.
        share: Part of the host's time that drawing may take.
        size: Pixels of the longer side of a picture, at most.
    """

    fps: float = 10.0
    share: float = 0.1
    size: int = 640


class StreamHandshake(msgspec.Struct, frozen=True):
    """A client's handshake for a stream.

    Attributes:
        accept: Sec-WebSocket-Accept of the answer.
        protocol: The dialect; "" is the JSON one, for clients that named none.
        session: The session.
        watch: For a watcher, the form of copies; else 0.
        fps: For a watcher, copies a second at most; 0: the default. It has an effect
            on instances with a clock.
        ask: For a watcher, whether copies have the requests, too.
        show: For a watcher that is to be shown the instance; ``None``: it gets copies.
        request_id: ID of the HTTP request, for the log.
        owner: Name of the token that the client showed; "" if the server has no names.
        proof: What shows that a node of a fleet has answered, for another one; or "".
    """

    accept: str
    protocol: str
    session: str
    watch: int = 0
    fps: float = 0.0
    ask: bool = False
    show: ShowRequest | None = None
    request_id: str = ""
    owner: str = ""
    proof: str = ""


def new_session() -> str:
    """Return a random name for a session."""
    return secrets.token_urlsafe(_SESSION_BYTES)


def parse_handshake(
    upgrade: str,
    connection: str,
    version: str,
    key: str,
    protocols: str,
    session: str,
    watch: str = "",
    form: str = "",
    fps: str = "",
    share: str = "",
    size: str = "",
    ask: str = "",
) -> StreamHandshake:
    """Parse a client's handshake.

    Args:
        upgrade: The header Upgrade, or "".
        connection: The header Connection, or "".
        version: The header Sec-WebSocket-Version, or "".
        key: The header Sec-WebSocket-Key, or "".
        protocols: The header Sec-WebSocket-Protocol, or "".
        session: The requested session, or "".
        watch: "1" to watch, or "".
        form: The form that a watcher requests, or "".
        fps: The copies a second that a watcher requests, or "".
        share: The part of the host's time for its pictures, or "".
        size: The pixels of the longer side of its pictures, or "".
        ask: "1" for copies with their requests, or "".

    Raises:
        UpgradeRequired: The request does not begin a WebSocket of version 13.
        BadParameter: The session, the dialect or a parameter of a watcher is invalid.
    """
    words = (
        "this is a stream: open it as a WebSocket, with the subprotocol "
        f"{BINARY_PROTOCOL} or {TEXT_PROTOCOL}"
    )
    accept = check_upgrade(upgrade, connection, version, key, words)
    if session and not SESSION(session):
        raise BadParameter(
            f"session is {session!r:.80}: expected 1 to 64 of A-Z, a-z, 0-9, _ and -"
        )
    protocol = _protocol(protocols)
    watched = _watched(watch, form, protocol)
    show = None
    if form == _SHOW:
        show = _show_request(fps, share, size, protocol)
    elif share or size:
        name, given = ("share", share) if share else ("size", size)
        raise BadParameter(
            f"{name} is {given!r:.80}, and form {form!r}: it is for form=show"
        )
    rate = _rate(fps)
    asked = _asked(ask, watched)
    return StreamHandshake(
        accept, protocol, session or new_session(), watched, rate, asked, show
    )


def check_upgrade(
    upgrade: str, connection: str, version: str, key: str, words: str
) -> str:
    """Check the WebSocket headers of a handshake.

    Args:
        upgrade: The header Upgrade, or "".
        connection: The header Connection, or "".
        version: The header Sec-WebSocket-Version, or "".
        key: The header Sec-WebSocket-Key, or "".
        words: The message for requests that are not a handshake.

    Returns:
        The Sec-WebSocket-Accept of the answer.

    Raises:
        UpgradeRequired: The request does not begin a WebSocket of version 13.
        BadParameter: The key is invalid.
    """
    tokens = {token.strip().lower() for token in connection.split(",")}
    if upgrade.lower() != "websocket" or "upgrade" not in tokens:
        # Proxies remove hop-by-hop headers, and keep the others.
        message = _REMOVED if key or version else words
        raise UpgradeRequired(message, headers={"Upgrade": "websocket"})
    if version != _VERSION:
        raise UpgradeRequired(
            f"Sec-WebSocket-Version is {version!r:.40}: expected {_VERSION}",
            headers={"Upgrade": "websocket", "Sec-WebSocket-Version": _VERSION},
        )
    if not _is_key(key):
        raise BadParameter(
            f"Sec-WebSocket-Key is {key!r:.40}: expected 16 random bytes"
        )
    return accept_of(key)


def _is_key(key: str) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == _KEY_BYTES
    except (binascii.Error, ValueError):
        return False


def _protocol(offered: str) -> str:
    names = [name.strip() for name in offered.split(",") if name.strip()]
    for name in names:
        if name in (BINARY_PROTOCOL, TEXT_PROTOCOL):
            return name
    if names:
        raise BadParameter(
            f"Sec-WebSocket-Protocol is {offered!r:.80}: expected {BINARY_PROTOCOL} or "
            f"{TEXT_PROTOCOL}"
        )
    return ""


def _rate(fps: str) -> float:
    if not fps:
        return 0.0
    if not _RATE(fps) or not 0 < float(fps) <= MAX_FPS:
        raise BadParameter(
            f"fps is {fps!r:.80}: expected copies a second, up to {MAX_FPS}"
        )
    return float(fps)


def _show_request(fps: str, share: str, size: str, protocol: str) -> ShowRequest:
    if protocol == BINARY_PROTOCOL:
        raise BadParameter(
            f"form is 'show', and the subprotocol {BINARY_PROTOCOL}: expected "
            f"{TEXT_PROTOCOL} or none"
        )
    shown = ShowRequest()
    rate, part, pixels = shown.fps, shown.share, shown.size
    if fps:
        rate = float(fps) if _RATE(fps) else 0.0
        if not 1 <= rate <= MAX_SHOW_FPS:
            raise BadParameter(
                f"fps is {fps!r:.80}: expected updates a second, 1 to {MAX_SHOW_FPS}"
            )
    if share:
        part = float(share) if _PART(share) and share != "." else 0.0
        if not MIN_SHARE <= part <= 1:
            raise BadParameter(
                f"share is {share!r:.80}: expected the part of the host's time for "
                f"pictures, {MIN_SHARE} to 1"
            )
    if size:
        pixels = int(size) if _PIXELS(size) else 0
        if not MIN_SIZE <= pixels <= MAX_SIZE:
            raise BadParameter(
                f"size is {size!r:.80}: expected pixels, {MIN_SIZE} to {MAX_SIZE}"
            )
    return ShowRequest(rate, part, pixels)


def _asked(ask: str, form: int) -> bool:
    if ask not in ("", "0", "1"):
        raise BadParameter(f"ask is {ask!r:.80}: expected 1")
    if ask == "1" and form not in (0, Form.PLAIN):
        raise BadParameter("ask is '1': expected it with form=plain")
    return ask == "1"


def _watched(watch: str, form: str, protocol: str) -> int:
    if watch not in ("", "0", "1"):
        raise BadParameter(f"watch is {watch!r:.80}: expected 1")
    if form not in _FORMS:
        raise BadParameter(f"form is {form!r:.80}: expected plain, typed or show")
    if watch != "1":
        return 0
    if not form and protocol == BINARY_PROTOCOL:
        return Form.BINARY
    return _FORMS[form]
