"""The error of a value that is not an element of a space."""

from collections.abc import Callable
from typing import Any

from gym_http_wire.spaces import elided

Read = Callable[[object], Any]
"""Reads an element, or raises `NotAnElement`."""


class NotAnElement(ValueError):
    """A value that is not an element of the space it was sent for.

    Attributes:
        value: The wrong part of the value.
        expected: A description of correct values.
        path: The keys and indices from the whole value to that part.
        root: Name of the whole value in the message.
    """

    def __init__(
        self, value: object, expected: str, path: tuple[str | int, ...] = ()
    ) -> None:
        super().__init__(value, expected, path)
        self.value = value
        self.expected = expected
        self.path = path
        self.root = "action"

    def __str__(self) -> str:
        """Return the position, the value and the expected value."""
        keys = "".join(f"[{elided(key)}]" for key in self.path)
        shown = elided(self.value)
        return f"{self.root}{keys} is {shown}, but must be {self.expected}"

    def under(self, key: str | int) -> "NotAnElement":
        """Add the key that the value has in a larger one."""
        self.path = (key, *self.path)
        return self
