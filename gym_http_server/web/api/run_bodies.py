"""Bodies of training runs: large uploads, their digests, and ranges of downloads."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import re
from typing import NamedTuple

import msgspec

from gym_http_server.errors import DigestMismatch, RangeNotSatisfiable
from gym_http_server.services.relay.files import INLINE_BYTES
from gym_http_server.services.relay.messages import RelayHead, digests_body, is_bundle
from gym_http_server.web.api.exchange import (
    Environ,
    check_complete,
    check_encoding,
    check_size,
    read_into,
    read_now,
    read_some,
)
from gym_http_server.web.api.web import Web
from gym_http_server.web.backends.downloads import Download
from gym_http_server.web.backends.relay import UploadRoom
from gym_http_server.web.backends.uploads import StoredBody, Upload
from gym_http_wire.bundles import BundleError, split
from gym_http_wire.messages import Op
from gym_http_wire.problems import BadParameter

__all__ = ["ReceivedBody", "cut_to_range", "receive_body"]

_DIGEST_BYTES = 32
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})", re.ASCII).fullmatch
_MEMBER = re.compile(r"\s*([a-z0-9*._-]+)\s*=\s*:([A-Za-z0-9+/=]*):\s*").fullmatch


class ReceivedBody(NamedTuple):
    """A complete body, in memory or in a file of the relay.

    Attributes:
        head: The head of the request, with the body's members.
        data: The body, if it is small.
        stored: The body, if it is large.
        room: The room that the relay keeps for it; `RelayClient.call` closes it.
    """

    head: RelayHead
    data: bytes
    stored: StoredBody | None = None
    room: UploadRoom | None = None


def receive_body(web: Web, op: Op, head: RelayHead, environ: Environ) -> ReceivedBody:
    """Receive the body of an upload, after the relay has admitted it.

    Args:
        web: The collaborators of views.
        op: The operation.
        head: The head of the request, without the body's members.
        environ: The request.

    Raises:
        Problem: The body is refused, incomplete, or not the one of Content-Digest.
    """
    check_encoding(environ)
    expected = _expected_digest(environ.get("HTTP_CONTENT_DIGEST", ""))
    limit, setting = web.settings.max_upload, "--max-upload"
    if op == Op.RECORDS_PUT:
        limit, setting = web.settings.max_body, "--max-body"
    size = _announced(environ)
    unknown = head.token and not web.relay.knows(head.token)
    room = None
    if size < 0 or size > INLINE_BYTES or unknown or "HTTP_EXPECT" in environ:
        room = web.relay.admit(op, msgspec.structs.replace(head, size=size))
    try:
        check_size(size, limit, setting)
        data = b""
        if size <= INLINE_BYTES:
            data = read_some(environ, min(INLINE_BYTES, limit) + 1)
            check_size(len(data), limit, setting)
        if max(size, len(data)) > INLINE_BYTES and room is not None:
            # Batches of a bundle have digests of their own.
            bundle = op == Op.SAMPLES_PUT and is_bundle(head.content_type)
            stored = _store(
                environ,
                room,
                limit=limit,
                setting=setting,
                begun=data,
                hashed=bool(expected) or not bundle,
                bundle=bundle,
            )
            return _large_body(head, stored, expected, room)
        check_complete(environ, len(data))
    except BaseException:
        if room is not None:
            room.close()
        raise
    if room is not None:
        room.close()
    digest = hashlib.sha256(data).hexdigest()
    _compare(digest, expected)
    if op == Op.SAMPLES_PUT and is_bundle(head.content_type):
        head = _with_session(head, _session_of(data))
    small = msgspec.structs.replace(head, size=len(data), digest=digest)
    return ReceivedBody(small, data)


def _session_of(bundle: bytes) -> str:
    """Return the session of the first batch; "" if the bundle is malformed."""
    with contextlib.suppress(BundleError):
        for batch in split(bundle):
            return batch.head.session
    return ""


def _with_session(head: RelayHead, session: str) -> RelayHead:
    """Name the session of a bundle, by which the relay takes turns."""
    if not session or "session" in head.args:
        return head
    return msgspec.structs.replace(head, args={**head.args, "session": session})


def _large_body(
    head: RelayHead, stored: StoredBody, expected: str, room: UploadRoom
) -> ReceivedBody:
    try:
        _compare(stored.digest, expected)
        data = b""
        if is_bundle(head.content_type):
            # Here, since all requests to the relay would wait for its one thread.
            data = digests_body(stored.batch_digests)
            head = _with_session(head, stored.session)
    except BaseException:
        stored.remove()
        raise
    large = msgspec.structs.replace(
        head, file=stored.name, size=stored.size, digest=stored.digest
    )
    return ReceivedBody(large, data, stored, room)


def _store(
    environ: Environ,
    room: UploadRoom,
    limit: int,
    setting: str,
    begun: bytes,
    *,
    hashed: bool,
    bundle: bool,
) -> StoredBody:
    """Write the rest of a body, and what was read of it, to a file."""
    total = len(begun)

    def counted(received: int) -> int:
        nonlocal total
        total += received
        check_size(total, limit, setting)
        if not received:
            # Before the file is synced.
            check_complete(environ, total)
        return received

    def receive(memory: memoryview) -> int:
        return counted(read_into(environ, memory))

    def receive_now(memory: memoryview) -> int | None:
        received = read_now(environ, memory)
        return None if received is None else counted(received)

    upload = Upload(receive_now, room.folder, room.room, hashed=hashed, bundle=bundle)
    return upload.store(receive, begun)


def cut_to_range(
    download: Download, environ: Environ, etag: str
) -> tuple[int, list[tuple[str, str]]]:
    """Cut a download to the range that a request wants.

    Returns:
        The status of the answer, and headers for it.

    Raises:
        RangeNotSatisfiable: The body has no byte of the range.
    """
    headers = [("Accept-Ranges", "bytes")]
    wanted = environ.get("HTTP_RANGE", "")
    only_if = environ.get("HTTP_IF_RANGE", etag)
    match = _RANGE(wanted)
    if environ["REQUEST_METHOD"] != "GET" or only_if != etag or match is None:
        # A server may answer with the whole body, as it does to several ranges.
        return 200, headers
    size = len(download)
    first, last = match[1], match[2]
    if first:
        start, end = int(first), min(int(last) + 1 if last else size, size)
        if last and int(last) < int(first):
            return 200, headers
    elif last:
        start, end = max(size - int(last), 0), size
    else:
        return 200, headers
    if start >= end:
        download.close()
        raise RangeNotSatisfiable(
            f"the range {wanted:.60} has none of the {size} bytes",
            headers={"Content-Range": f"bytes */{size}"},
        )
    download.cut(start, end)
    headers.append(("Content-Range", f"bytes {start}-{end - 1}/{size}"))
    return 206, headers


def _announced(environ: Environ) -> int:
    """Return the announced size of a body; -1 if it is chunked."""
    if environ.get("HTTP_TRANSFER_ENCODING"):
        return -1
    return int(environ.get("CONTENT_LENGTH") or 0)


def _expected_digest(text: str) -> str:
    """Return the SHA-256 of a Content-Digest in hex; "" without one.

    Raises:
        BadParameter: The header is malformed, or has no SHA-256.
    """
    if not text:
        return ""
    for part in text.split(","):
        match = _MEMBER(part)
        if match is not None and match[1] == "sha-256":
            try:
                digest = base64.b64decode(match[2], validate=True)
            except binascii.Error:
                break
            if len(digest) == _DIGEST_BYTES:
                return digest.hex()
    raise BadParameter(
        f"Content-Digest is {text!r:.120}: expected sha-256=:DIGEST:, the digest in "
        "base64"
    )


def _compare(digest: str, expected: str) -> None:
    if expected and digest != expected:
        raise DigestMismatch(
            f"the SHA-256 of the body is {digest}, and Content-Digest has {expected}; "
            "send the body again"
        )
