"""Comparisons for checks, and the exceptions that end a check."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

__all__ = ["Absent", "Mismatch", "equal", "one_of", "shown", "that"]

MAX_SHOWN = 400


class Mismatch(Exception):
    """Raised if an answer is not the expected one.

    Attributes:
        expected: The expectation, as text.
        actual: The answer.
    """

    def __init__(self, expected: str, actual: str) -> None:
        super().__init__(f"expected {expected}, actual {actual}")
        self.expected = expected
        self.actual = actual


class Absent(Exception):
    """Raised if the server lacks the checked feature, and does not claim it."""


def shown(value: Any) -> str:
    """Return a value as text for a person, shortened."""
    if isinstance(value, bytes):
        text = value.hex()
    elif isinstance(value, str):
        text = value
    else:
        text = json.dumps(value, default=repr, ensure_ascii=False)
    text = text or "(nothing)"
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


def equal(actual: object, expected: object, what: str) -> None:
    """Expect a value and its type: 1 is neither 1.0 nor true.

    Raises:
        Mismatch: The value is another.
    """
    if not _same(actual, expected):
        raise Mismatch(f"{what}: {shown(expected)}", shown(actual))


def one_of(actual: object, expected: Collection[object], what: str) -> None:
    """Expect one of several values.

    Raises:
        Mismatch: The value is not among them.
    """
    if not any(_same(actual, each) for each in expected):
        words = " or ".join(shown(each) for each in expected)
        raise Mismatch(f"{what}: {words}", shown(actual))


def that(holds: object, expected: str, actual: object) -> None:
    """Expect that a condition holds.

    Raises:
        Mismatch: It does not hold.
    """
    if not holds:
        raise Mismatch(expected, shown(actual))


def _same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            _same(item, other[key]) for key, item in one.items()
        )
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, float):
        # Of zeros, the sign counts as well.
        return repr(one) == repr(other)
    return bool(one == other)
