"""One check: an ID, something to do, and how that ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gym_http_server.validation.target import Target

__all__ = [
    "Absent",
    "Check",
    "CheckGroup",
    "Checks",
    "Mismatch",
    "equal",
    "one_of",
    "shown",
    "that",
]

MAX_SHOWN = 400


class Mismatch(Exception):
    """What came is not what should have come.

    Attributes:
        expected: What should have come, for a person.
        actual: What came.
    """

    def __init__(self, expected: str, actual: str) -> None:
        super().__init__(f"expected {expected}, actual {actual}")
        self.expected = expected
        self.actual = actual


class Absent(Exception):
    """The server does not have what the check is about, and does not claim to."""


@dataclass(frozen=True)
class Check:
    """Something that is right or wrong about a server.

    Attributes:
        id: Name of the check, its group's first: ``errors.unknown-env``.
        run: Does it; raises `Mismatch` or `Absent`, or returns.
    """

    id: str
    run: Callable[[Target], None]


class Checks(list[Check]):
    """Checks that are written one by one, as functions."""

    def __call__(
        self, id: str
    ) -> Callable[[Callable[[Target], None]], Callable[[Target], None]]:
        """Add the decorated function under an ID."""

        def add(run: Callable[[Target], None]) -> Callable[[Target], None]:
            self.append(Check(id, run))
            return run

        return add


@dataclass(frozen=True)
class CheckGroup:
    """Checks of one topic.

    Attributes:
        name: The topic.
        checks: Gives them.
        needs: Raises `Absent` where there is nothing to check.
    """

    name: str
    checks: Callable[[], Iterable[Check]]
    needs: Callable[[Target], None] = lambda target: None

    def made(self) -> Iterator[Check]:
        """Give the checks, with their whole IDs."""
        for check in self.checks():
            yield Check(f"{self.name}.{check.id}", check.run)


def shown(value: Any) -> str:
    """Show a value to a person, shortened."""
    if isinstance(value, bytes):
        text = value.hex()
    elif isinstance(value, str):
        text = value
    else:
        text = json.dumps(value, default=repr, ensure_ascii=False)
    text = text or "(nothing)"
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


def equal(actual: object, expected: object, what: str) -> None:
    """Demand that a value is another, of the same type: 1 is not 1.0 and not true.

    Raises:
        Mismatch: It is not.
    """
    if not _same(actual, expected):
        raise Mismatch(f"{what}: {shown(expected)}", shown(actual))


def one_of(actual: object, expected: Collection[object], what: str) -> None:
    """Demand that a value is among others.

    Raises:
        Mismatch: It is not.
    """
    if not any(_same(actual, each) for each in expected):
        words = " or ".join(shown(each) for each in expected)
        raise Mismatch(f"{what}: {words}", shown(actual))


def that(holds: object, expected: str, actual: object) -> None:
    """Demand that something holds.

    Raises:
        Mismatch: It does not.
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
