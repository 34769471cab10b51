"""How a stream begins: the handshake of its WebSocket, seen from both sides."""

from __future__ import annotations

import base64
import binascii
import re
import secrets

import msgspec

from gym_http_wire.messages import Form
from gym_http_wire.problems import BadParameter, Problem
from gym_http_wire.websocket import accept_of

__all__ = [
    "BINARY_PROTOCOL",
    "SESSION",
    "TEXT_PROTOCOL",
    "StreamHandshake",
    "UpgradeRequired",
    "check_upgrade",
    "new_session",
    "parse_handshake",
]

BINARY_PROTOCOL = "gym-http.v1"
TEXT_PROTOCOL = "gym-http.v1.json"
SESSION = re.compile(r"[A-Za-z0-9_-]{1,64}").fullmatch

_SESSION_BYTES = 12
_KEY_BYTES = 16
_VERSION = "13"
# Of what who watches is told; the binary dialect has its own, if none is named.
_FORMS = {"": Form.PLAIN, "plain": Form.PLAIN, "typed": Form.TYPED}


_REMOVED = (
    "this handshake of a WebSocket came without 'Upgrade: websocket' and 'Connection: "
    "Upgrade': a proxy between client and server may have removed them. Have the proxy "
    "pass both headers on for this path; for nginx see deploy/nginx.conf"
)


class UpgradeRequired(Problem):
    """A stream was asked for without the words that begin one."""

    default_status, default_code = 426, "upgrade-required"


class StreamHandshake(msgspec.Struct, frozen=True):
    """How a stream begins.

    Attributes:
        accept: Sec-WebSocket-Accept of the handshake's answer.
        protocol: The dialect; "" is the text one, for who asked for none.
        session: The session.
        watch: The form of what who watches is told; 0 for who does not watch.
    """

    accept: str
    protocol: str
    session: str
    watch: int = 0


def new_session() -> str:
    """Make a session that nobody else has."""
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
) -> StreamHandshake:
    """Read a client's handshake.

    Args:
        upgrade: The header Upgrade, or "".
        connection: The header Connection, or "".
        version: The header Sec-WebSocket-Version, or "".
        key: The header Sec-WebSocket-Key, or "".
        protocols: The header Sec-WebSocket-Protocol, or "".
        session: The session asked for, or "".
        watch: "1" to watch, or "".
        form: The form that who watches wants, or "".

    Raises:
        UpgradeRequired: This begins no WebSocket that the server speaks.
        BadParameter: The session is none, or no dialect is known, or ``watch`` or
            ``form`` is wrong.
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
    return StreamHandshake(accept, protocol, session or new_session(), watched)


def check_upgrade(
    upgrade: str, connection: str, version: str, key: str, words: str
) -> str:
    """Read a client's handshake; give the Sec-WebSocket-Accept of its answer.

    Args:
        upgrade: The header Upgrade, or "".
        connection: The header Connection, or "".
        version: The header Sec-WebSocket-Version, or "".
        key: The header Sec-WebSocket-Key, or "".
        words: What to tell whoever did not ask for a WebSocket.

    Raises:
        UpgradeRequired: This begins no WebSocket that the server speaks.
        BadParameter: The key is none.
    """
    tokens = {token.strip().lower() for token in connection.split(",")}
    if upgrade.lower() != "websocket" or "upgrade" not in tokens:
        # A WebSocket's other headers are for its ends, and proxies keep those.
        said = _REMOVED if key or version else words
        raise UpgradeRequired(said, headers={"Upgrade": "websocket"})
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


def _watched(watch: str, form: str, protocol: str) -> int:
    if watch not in ("", "0", "1"):
        raise BadParameter(f"watch is {watch!r:.80}: expected 1")
    if form not in _FORMS:
        raise BadParameter(f"form is {form!r:.80}: expected plain or typed")
    if watch != "1":
        return 0
    if not form and protocol == BINARY_PROTOCOL:
        return Form.BINARY
    return _FORMS[form]
