"""Frames and handshakes of WebSocket (RFC 6455)."""

import base64
import hashlib
import struct
from collections.abc import Iterator
from typing import Any

from tests.conformance.making import Case

DESCRIPTION = (
    "WebSocket: masked frames are what a client writes, others what it reads; where "
    "fin is false, an empty last fragment (8000) follows"
)

_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_MASK = "37fa213d"
_TEXT, _BINARY, _CLOSE, _PING, _PONG = 1, 2, 8, 9, 10


def cases() -> Iterator[Case]:
    """Yield all cases."""
    yield from _by_the_book()
    yield from _frames()
    for index, key in enumerate(_KEYS, 1):
        digest = hashlib.sha1((key + _GUID).encode()).digest()
        accept = base64.b64encode(digest).decode()
        yield {"id": f"handshake-{index}", "key": key, "accept": accept}
    for name, raw, messages in _streams():
        found = [{"opcode": opcode, "payload": data.hex()} for opcode, data in messages]
        yield {"id": f"messages-{name}", "from_server": raw.hex(), "messages": found}
    for name, raw in _refused().items():
        yield {"id": f"refused-{name}", "from_server": raw.hex(), "refused": True}


# The first is the RFC's own.
_KEYS = (
    "dGhlIHNhbXBsZSBub25jZQ==",
    "AAAAAAAAAAAAAAAAAAAAAA==",
    "/////////////////////w==",
    "AQIDBAUGBwgJCgsMDQ4PEA==",
)


def frame(opcode: int, payload: bytes, mask: str | None = None, fin: int = 1) -> bytes:
    """Return the bytes of a frame, by section 5.2."""
    size = len(payload)
    masked = 0 if mask is None else 0x80
    if size < 126:
        head = bytes([fin << 7 | opcode, masked | size])
    elif size < 65536:
        head = bytes([fin << 7 | opcode, masked | 126]) + struct.pack(">H", size)
    else:
        head = bytes([fin << 7 | opcode, masked | 127]) + struct.pack(">Q", size)
    if mask is None:
        return head + payload
    key = bytes.fromhex(mask)
    return head + key + bytes(b ^ key[i % 4] for i, b in enumerate(payload))


def _case(name: str, opcode: int, payload: bytes, mask: str | None, fin: int) -> Case:
    fields: dict[str, Any] = {"payload": payload.hex()}
    raw = {"hex": frame(opcode, payload, mask, fin).hex()}
    if len(payload) > 200:
        fields = {"payload_repeat": {"byte": payload[0], "count": len(payload)}}
        raw = {"hex_prefix": raw["hex"][:64]}
    head = {"id": name, "mask": mask, "fin": bool(fin), "opcode": opcode}
    return {**head, **fields, **raw}


def _by_the_book() -> Iterator[Case]:
    """Yield the examples of section 5.7 of the RFC, unchanged."""
    hello = {"opcode": 1, "payload": "48656c6c6f"}
    yield {
        "id": "rfc-hello",
        "mask": None,
        "fin": True,
        **hello,
        "hex": "810548656c6c6f",
    }
    yield {
        "id": "rfc-hello-masked",
        "mask": _MASK,
        "fin": True,
        **hello,
        "hex": "818537fa213d7f9f4d5158",
    }
    yield {
        "id": "rfc-pong-masked",
        "mask": _MASK,
        "fin": True,
        "opcode": 10,
        "payload": "48656c6c6f",
        "hex": "8a8537fa213d7f9f4d5158",
    }


def _frames() -> Iterator[Case]:
    for size in (0, 1, 3, 4, 5, 125, 126, 127, 65535, 65536, 70001):
        payload = bytes([0xA5]) * size
        yield _case(f"binary-{size}", _BINARY, payload, None, 1)
        yield _case(f"binary-{size}-masked", _BINARY, payload, "ff00a55a", 1)
    yield _case("mask-of-zeros", _BINARY, b"\x00\x01\x02\x03\x04", "00000000", 1)
    yield _case("mask-of-ones", _BINARY, bytes(range(9)), "ffffffff", 1)
    yield _case("text-unicode", _TEXT, "\u73af\U0001f600".encode(), None, 1)
    yield _case("text-unicode-masked", _TEXT, "\u73af\U0001f600".encode(), _MASK, 1)
    yield _case("text-unfinished", _TEXT, b"abc", None, 0)
    yield _case("binary-unfinished", _BINARY, bytes(200), None, 0)
    yield _case("ping-empty", _PING, b"", None, 1)
    yield _case("ping", _PING, bytes(range(125)), None, 1)
    yield _case("pong-empty-masked", _PONG, b"", _MASK, 1)
    yield _case("close-empty", _CLOSE, b"", None, 1)
    yield _case("close-going-away", _CLOSE, b"\x03\xe9bye", None, 1)
    yield _case("close-normal-masked", _CLOSE, b"\x03\xe8", _MASK, 1)


def _streams() -> Iterator[tuple[str, bytes, list[tuple[int, bytes]]]]:
    one, two = frame(_BINARY, b"one"), frame(_BINARY, b"two")
    yield "two", one + two, [(_BINARY, b"one"), (_BINARY, b"two")]
    parts = frame(_BINARY, b"on", fin=0) + frame(0, b"e")
    yield "fragments", parts, [(_BINARY, b"one")]
    parts = frame(_TEXT, b"\xe7", fin=0) + frame(0, b"\x8e", fin=0) + frame(0, b"\xaf")
    yield "fragments-within-a-character", parts, [(_TEXT, b"\xe7\x8e\xaf")]
    parts = frame(_BINARY, b"", fin=0) + frame(0, b"", fin=0) + frame(0, b"")
    yield "fragments-empty", parts, [(_BINARY, b"")]
    between = frame(_PING, b"?")
    parts = frame(_BINARY, b"on", fin=0) + between + frame(0, b"e") + two
    found = [(_PING, b"?"), (_BINARY, b"one"), (_BINARY, b"two")]
    yield "ping-between-fragments", parts, found
    yield (
        "close-after",
        one + frame(_CLOSE, b"\x03\xe9"),
        [
            (_BINARY, b"one"),
            (_CLOSE, b"\x03\xe9"),
        ],
    )


def _refused() -> dict[str, bytes]:
    return {
        "masked": frame(_BINARY, b"a", _MASK),
        "reserved-bit-1": b"\xc2\x00",
        "reserved-bit-2": b"\xa2\x00",
        "reserved-bit-3": b"\x92\x00",
        "opcode-3": b"\x83\x00",
        "opcode-11": b"\x8b\x00",
        "ping-126": frame(_PING, bytes(126)),
        "ping-in-fragments": frame(_PING, b"", fin=0),
        "close-in-fragments": frame(_CLOSE, b"", fin=0),
        "continuation-of-nothing": frame(0, b"a"),
        "message-in-message": frame(_BINARY, b"a", fin=0) + frame(_BINARY, b"b"),
        "length-not-shortest-16": b"\x82\x7e\x00\x05hello",
        "length-not-shortest-64": b"\x82\x7f" + struct.pack(">Q", 5) + b"hello",
        "length-2-63": b"\x82\x7f" + struct.pack(">Q", 2**63),
        "length-largest": b"\x82\x7f" + struct.pack(">Q", 2**64 - 1),
        "length-2-53": b"\x82\x7f" + struct.pack(">Q", 2**53),
        "text-no-utf-8": frame(_TEXT, b"\xff"),
        "text-utf-8-cut": frame(_TEXT, b"\xe7\x8e"),
        "text-surrogate": frame(_TEXT, b"\xed\xa0\x80"),
        "close-half-a-status": frame(_CLOSE, b"\x03"),
    }
