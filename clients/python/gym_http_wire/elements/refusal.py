"""Why a value is not an element of a space, in words for the one who sent it."""

from collections.abc import Callable
from typing import Any

from gym_http_wire.spaces import elided

Read = Callable[[object], Any]
"""Reads an element, or raises `NotAnElement`."""


class NotAnElement(ValueError):
    """A value that is not an element of the space it was sent for.

    Attributes:
        came: The part of the value that is wrong.
        expected: What it must be.
        path: The keys and indices that lead from the whole value to that part.
        root: What the message calls the whole value.
    """

    def __init__(
        self, came: object, expected: str, path: tuple[str | int, ...] = ()
    ) -> None:
        super().__init__(came, expected, path)
        self.came = came
        self.expected = expected
        self.path = path
        self.root = "action"

    def __str__(self) -> str:
        """Say where the value is wrong, what came and what is expected."""
        keys = "".join(f"[{elided(key)}]" for key in self.path)
        came = elided(self.came)
        return f"{self.root}{keys} is {came}, but must be {self.expected}"

    def under(self, key: str | int) -> "NotAnElement":
        """Say that the value stands under this key of a larger one."""
        self.path = (key, *self.path)
        return self
