"""Divides large create requests: most members are small, and arguments may be large.

The supervisor reads the small members, in JSON. The arguments are read by the host that
makes the environment, in memory whose descriptor the supervisor passes on.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from typing import IO, NamedTuple

import msgspec

from gym_http_wire.messages import Form
from gym_http_wire.outline import OutlineError, outline
from gym_http_wire.problems import BadJSON, BadParameter

__all__ = [
    "ARGUMENTS",
    "INLINE_BYTES",
    "Divided",
    "divide",
    "is_large",
    "sealed",
    "small_members",
]

#: Members that hosts read, if the request is divided.
ARGUMENTS = ("kwargs", "wrappers")
#: Bytes that the supervisor reads of a request at most.
INLINE_BYTES = 16 * 1024
_SEALS = (
    fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
)
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Divided(NamedTuple):
    """A create request in two parts.

    Attributes:
        members: All members but those of `ARGUMENTS`, as JSON.
        memory: Sealed memory with the unchanged body, which the caller closes.
        digest: SHA-256 of the body, in hex.
    """

    members: bytes
    memory: IO[bytes]
    digest: str


def is_large(body: bytes, form: int) -> bool:
    """Whether a body has to be divided.

    Args:
        body: The body of a create request.
        form: Its form, and in the high half that of the answer.
    """
    return len(body) > INLINE_BYTES or form & 0xF == Form.BINARY


def divide(body: bytes, form: int) -> Divided:
    """Divide the body of a create request.

    Args:
        body: The body.
        form: Its form, and in the high half that of the answer.

    Raises:
        BadJSON: It is neither a JSON object nor a dict in the binary form.
        BadParameter: The other members are too large.
    """
    members = small_members(body, form)
    if len(members) > INLINE_BYTES:
        raise BadParameter(
            f"the create request has {len(members)} bytes besides kwargs and wrappers: "
            f"expected {INLINE_BYTES} at most"
        )
    digest = hashlib.sha256(body).hexdigest()
    return Divided(members, sealed(body), digest)


def small_members(body: bytes, form: int) -> bytes:
    """Return all members of a body but those of `ARGUMENTS`, as JSON.

    Args:
        body: The body.
        form: Its form, and in the high half that of the answer.

    Raises:
        BadJSON: It is neither a JSON object nor a dict in the binary form.
    """
    if form & 0xF == Form.BINARY:
        try:
            return msgspec.json.encode(outline(body, ARGUMENTS))
        except OutlineError as error:
            raise BadJSON(str(error)) from None
    try:
        found = _decode_members(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadJSON(str(error)) from None
    return msgspec.json.encode(
        {name: value for name, value in found.items() if name not in ARGUMENTS}
    )


def sealed(body: bytes) -> IO[bytes]:
    """Return sealed memory with bytes."""
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    memory = os.fdopen(os.memfd_create("arguments", flags), "wb")
    try:
        memory.write(body)
        memory.flush()
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        memory.close()
        raise
    return memory
