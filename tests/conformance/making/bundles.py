"""Bundles of batches."""

import struct
from collections.abc import Iterator
from typing import Any

from tests.conformance.making import Case
from tests.conformance.making.forms import compact

DESCRIPTION = (
    "Bundles of batches, as in docs/relay-clients.md, Bundles; with decode_only the "
    "bytes are not those that an encoder writes"
)

_BATCH = 160
_MAX_NUMBER = 2**53 - 1
# SHA-256 of b"abc" (FIPS 180-2, appendix B.1).
_DIGEST = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
# XXH3 of the same bytes, as `xxhsum -H3` prints it.
_CHECKSUM = "78af5f94892f3950"
_FIRST = {"session": "s1", "number": 1, "policy": 0, "count": 2}
# The first batch as a person wrote it: sizes of body and head, status, kind, form and
# number; the head, which needs no blanks; the body.
_BY_HAND = (
    "03000000"
    "30000000"
    "0000"
    "a0"
    "00"
    "00000000"
    "7b2273657373696f6e223a227331222c"  # {"session":"s1",
    "226e756d626572223a312c"  # "number":1,
    "22706f6c696379223a302c"  # "policy":0,
    "22636f756e74223a327d"  # "count":2}
    "616263"  # abc
)


def cases() -> Iterator[Case]:
    """Yield all cases."""
    yield from _valid()
    yield from _read_only()
    for name, data in _refused().items():
        yield {"id": f"refused-{name}", "hex": data.hex(), "refused": True}


def _batch(
    head: dict[str, Any] | bytes,
    body: bytes,
    *,
    status: int = 0,
    kind: int = _BATCH,
    form: int = 0,
    number: int = 0,
) -> bytes:
    """Write a batch."""
    raw = head if isinstance(head, bytes) else compact(head).encode()
    raw += b" " * (-len(raw) % 8)
    start = struct.pack("<IIHBBI", len(body), len(raw), status, kind, form, number)
    return start + raw + body


def _case(name: str, *batches: tuple[dict[str, Any], bytes]) -> Case:
    data = b"".join(_batch(head, body) for head, body in batches)
    shown = [{"head": head, "body": body.hex()} for head, body in batches]
    return {"id": name, "hex": data.hex(), "batches": shown}


def _valid() -> Iterator[Case]:
    """Yield bundles that a client reads and writes."""
    by_hand = _case("one", (_FIRST, b"abc"))
    yield {**by_hand, "hex": _BY_HAND}
    yield _case("none")
    yield _case("body-empty", (_FIRST, b""))
    second = _FIRST | {"number": 2, "policy": 3, "count": 0}
    yield _case("two", (_FIRST, b"abc"), (second, b"\x00" * 8))
    third = second | {"number": 9, "dropped": 6, "content_type": "text/csv"}
    yield _case("three", (_FIRST, b"abc"), (second, b""), (third, b"1,2\n"))
    largest = {"session": "A_b-9" + "z" * 59, "number": _MAX_NUMBER}
    largest |= {"policy": _MAX_NUMBER, "count": _MAX_NUMBER, "dropped": _MAX_NUMBER}
    yield _case("largest-numbers", (largest, b"."))
    packed = {"content_type": "application/vnd.gym-http.binary", "packing": "deflate"}
    body = bytes.fromhex("789c4b4c4a0600024d0127")
    yield _case("packed", (_FIRST | packed | {"unpacked": 3}, body))
    yield _case("digest", (_FIRST | {"digest": _DIGEST}, b"abc"))
    yield _case("checksum", (_FIRST | {"checksum": _CHECKSUM}, b"abc"))
    delivered = {"position": 7, "worker": "w1", "lag": 2, "stale": True}
    delivered |= {"received": 1794999999.5}
    yield _case("delivered", (_FIRST | {"digest": _DIGEST} | delivered, b"abc"))
    leased = {"position": 8, "worker": "w1", "lease": "5f0c2e1d", "delivery": 2}
    yield _case("leased", (_FIRST | leased, b"abc"))
    head = {"session": "s1", "number": 1, "policy": 0, "count": 2, "worker": "\u73af"}
    yield _case("head-unicode", (head, b"abc"))
    # Bodies are never parsed: these bytes look like a batch.
    yield _case("body-is-a-batch", (_FIRST, _batch(_FIRST, b"abc")))


def _read_only() -> Iterator[Case]:
    """Yield bundles that are read, but that an encoder writes otherwise."""
    batches = [{"head": _FIRST, "body": b"abc".hex()}]

    def case(name: str, head: bytes) -> Case:
        data = _batch(head, b"abc")
        return {"id": name, "hex": data.hex(), "batches": batches, "decode_only": True}

    text = compact(_FIRST).encode()
    yield case("head-other-order", b'{"count":2,"policy":0,"number":1,"session":"s1"}')
    yield case("head-blanks", text.replace(b":", b" : ").replace(b",", b",\n"))
    yield case("head-defaults", text[:-1] + b',"dropped":0,"packing":"","digest":""}')
    yield case("head-unknown-member", text[:-1] + b',"later":{"more":[1]}}')
    yield case("head-escapes", text.replace(b"s1", b"\\u0073\\u0031"))


def _refused() -> dict[str, bytes]:
    whole = _batch(_FIRST, b"abc")
    size = len(whole)

    def head(**changes: Any) -> bytes:
        members = {**_FIRST, **changes}
        return _batch({k: v for k, v in members.items() if v is not ...}, b"abc")

    return {
        "header-cut": whole[:15],
        "head-cut": whole[:20],
        "body-cut": whole[: size - 1],
        "second-cut": whole + whole[: size - 1],
        "more-bytes": whole + b"\x00",
        "no-batch": _batch(_FIRST, b"abc", kind=2),
        "answer": _batch(_FIRST, b"abc", kind=0, status=200),
        "status": _batch(_FIRST, b"abc", status=201),
        "form": _batch(_FIRST, b"abc", form=1),
        "frame-number": _batch(_FIRST, b"abc", number=1),
        "head-absent": _batch(b"", b"abc"),
        "head-not-padded": struct.pack("<IIHBBI", 0, 2, 0, _BATCH, 0, 0) + b"{}",
        "head-over-64-kib": _batch(head(worker="w")[16:-3] + b" " * 65536, b""),
        "head-size-largest": struct.pack("<IIHBBI", 0, 2**32 - 8, 0, _BATCH, 0, 0),
        "body-size-largest": struct.pack("<IIHBBI", 2**32 - 1, 0, 0, _BATCH, 0, 0),
        "head-no-json": _batch(b"{session}", b"abc"),
        "head-no-object": _batch(b"[]", b"abc"),
        "head-no-utf-8": _batch(b'{"session":"\xff"}', b"abc"),
        "session-absent": head(session=...),
        "session-empty": head(session=""),
        "session-path": head(session="../s1"),
        "session-long": head(session="s" * 65),
        "session-number": head(session=1),
        "number-absent": head(number=...),
        "number-zero": head(number=0),
        "number-float": head(number=1.5),
        "number-text": head(number="1"),
        "number-over-2-53": _batch(
            compact(_FIRST).replace('"number":1', f'"number":{2**53}').encode(), b"abc"
        ),
        "policy-absent": head(policy=...),
        "policy-negative": head(policy=-1),
        "count-absent": head(count=...),
        "count-negative": head(count=-1),
        "dropped-negative": head(dropped=-1),
        "digest-short": head(digest=_DIGEST[:-1]),
        "digest-upper-case": head(digest=_DIGEST.upper()),
        "checksum-short": head(checksum=_CHECKSUM[:-1]),
        "checksum-upper-case": head(checksum=_CHECKSUM.upper()),
        "content-type-two-lines": head(content_type="text/csv\r\nx: y"),
        "content-type-empty": head(content_type=""),
        "packing-without-unpacked": head(packing="deflate"),
        "unpacked-without-packing": head(unpacked=3),
        "stale-number": head(stale=1),
    }
