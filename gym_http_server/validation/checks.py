"""Checks and groups of checks: an ID, and a function that raises or returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from gym_http_server.validation.target import Target

__all__ = ["Check", "CheckGroup", "Checks"]


@dataclass(frozen=True)
class Check:
    """A check of one property of a server.

    Attributes:
        id: Name of the check; unique together with its group's, as in
            ``errors.unknown-env``.
        run: Performs it; raises `Mismatch` or `Absent` unless the server is right.
    """

    id: str
    run: Callable[[Target], None]


class Checks(list[Check]):
    """A list of checks; calling it decorates a function as a further check."""

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
        checks: Returns the checks.
        needs: Raises `Absent` if the server lacks the feature.
    """

    name: str
    checks: Callable[[], Iterable[Check]]
    needs: Callable[[Target], None] = lambda target: None

    def made(self) -> Iterator[Check]:
        """Yield the checks with their unique IDs."""
        for check in self.checks():
            yield Check(f"{self.name}.{check.id}", check.run)
