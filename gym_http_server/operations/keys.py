"""Idempotency keys, as clients may write them."""

from __future__ import annotations

import re

from gym_http_wire.problems import BadParameter

__all__ = ["check_key"]

MAX_CHARS = 128
_KEY = re.compile(f"[!-~]{{1,{MAX_CHARS}}}").fullmatch


def check_key(key: str, name: str) -> None:
    """Check that a client may give a request this key, in which there is no blank.

    Args:
        key: The key.
        name: Name of the header or member that has it.

    Raises:
        BadParameter: It is malformed.
    """
    if not _KEY(key):
        raise BadParameter(
            f"{name} is {key!r:.80}: expected 1 to {MAX_CHARS} visible characters of "
            "ASCII"
        )
