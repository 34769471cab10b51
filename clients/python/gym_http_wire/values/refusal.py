"""The errors of values that cannot be sent or read, with the position in the value."""

from typing import Self

from gym_http_wire.spaces import elided


class _Refusal(Exception):
    """An error in a part of a value.

    Attributes:
        problem: The error.
        path: Keys and indices from the whole value to that part, as text.
        root: Name of the whole value in the message.
    """

    def __init__(self, problem: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(problem, path)
        self.problem = problem
        self.path = path
        self.root = "value"

    def __str__(self) -> str:
        """Return position and error."""
        text = f"{self.root}{''.join(self.path)} {self.problem}"
        # A message goes into logs and answers, which lone surrogates would break.
        return text.encode("utf-8", "backslashreplace").decode()

    def under(self, key: object) -> Self:
        """Add the key or index that the value has in a larger one."""
        self.path = (f"[{elided(key)}]", *self.path)
        return self

    def within(self, field: str) -> Self:
        """Add the attribute that the value is of a larger one."""
        self.path = (f".{field}", *self.path)
        return self


class UnsupportedValue(_Refusal, TypeError):
    """A value that cannot be sent, or holds one that cannot."""


class BadValue(_Refusal, ValueError):
    """Bytes that do not encode a value."""
