"""Why a value cannot be sent or read, and where in it the trouble is."""

from typing import Self

from gym_http_wire.spaces import elided


class _Refusal(Exception):
    """Trouble with a part of a value.

    Attributes:
        problem: What is wrong with that part.
        path: What leads from the whole value to that part, as it is shown.
        root: What the message calls the whole value.
    """

    def __init__(self, problem: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(problem, path)
        self.problem = problem
        self.path = path
        self.root = "value"

    def __str__(self) -> str:
        """Say where in the value the trouble is, and what it is."""
        text = f"{self.root}{''.join(self.path)} {self.problem}"
        # A message goes into logs and answers, which lone surrogates would break.
        return text.encode("utf-8", "backslashreplace").decode()

    def under(self, key: object) -> Self:
        """Say that the value stands under this key or index of a larger one."""
        self.path = (f"[{elided(key)}]", *self.path)
        return self

    def within(self, field: str) -> Self:
        """Say that the value is this attribute of a larger one."""
        self.path = (f".{field}", *self.path)
        return self


class UnsupportedValue(_Refusal, TypeError):
    """A value that cannot be sent, or holds one that cannot."""


class BadValue(_Refusal, ValueError):
    """Bytes that do not say a value."""
