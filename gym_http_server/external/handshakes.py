"""Reads and checks the hellos of external environments.

The broker does so for programs that connect, and a host for commands that it starts.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gym_http_wire import space_parsing
from gym_http_wire.external.handshake import CAPABILITIES, BadHello, Hello, parse_hello

__all__ = ["check_spaces", "read_hello"]

#: Longer metadata has no use, and takes many times as much memory once it is parsed.
MAX_METADATA_BYTES = 64 * 1024
MAX_MODES = 64
#: Much less than can be parsed, since a deeper call stack has to encode it again.
MAX_LEVELS = 200
MAX_MODE = 64
MAX_PROGRAM = 200


def read_hello(payload: bytes, max_observation: int) -> Hello:
    """Parse a hello, and drop the capabilities that this server does not support.

    Args:
        payload: The hello, whose token was accepted.
        max_observation: Bytes that an element of each of its spaces may take.

    Raises:
        BadHello: The hello or a space is malformed, or a part is too large.
    """
    hello = parse_hello(payload)
    for each in (
        hello.observation_space,
        hello.action_space,
        hello.metadata,
        hello.realtime,
    ):
        if _is_deep(each):
            raise BadHello(f"it is nested deeper than {MAX_LEVELS} levels")
    check_spaces(hello, max_observation)
    known = set(CAPABILITIES).intersection(hello.capabilities)
    hello.capabilities = sorted(known)
    modes = hello.render_modes
    if len(modes) > MAX_MODES or any(len(each) > MAX_MODE for each in modes):
        raise BadHello(
            f"render_modes are {len(modes)}, the longest of "
            f"{max(map(len, modes))} characters: expected at most {MAX_MODES} of at "
            f"most {MAX_MODE}"
        )
    if len(hello.program) > MAX_PROGRAM or not hello.program.isprintable():
        raise BadHello(
            f"program is {hello.program!r:.80}: expected at most {MAX_PROGRAM} "
            "printable characters"
        )
    size = len(msgspec.json.encode(hello.metadata))
    if size > MAX_METADATA_BYTES:
        raise BadHello(
            f"metadata has {size} bytes: expected at most {MAX_METADATA_BYTES}"
        )
    return hello


def check_spaces(hello: Hello, max_observation: int) -> None:
    """Check the spaces of a hello, beginning with the size of their elements.

    Raises:
        BadHello: A space is malformed or too large.
    """
    for which in ("observation_space", "action_space"):
        try:
            space_parsing.parse_space(getattr(hello, which), max_observation)
        except space_parsing.BadDescription as error:
            raise BadHello(f"{which}: {error}", "bad-space") from None


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_LEVELS):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True
