"""The random generator of an environment elsewhere, as far as its state goes."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["Generator"]


class _HasGenerator(Protocol):
    def generator(self) -> dict[str, Any]:
        """Give seed and state."""

    def set_generator(self, state: Any) -> None:
        """Set the state."""


class Generator:
    """Stands for a generator that is elsewhere; only its state is known."""

    def __init__(self, env: _HasGenerator) -> None:
        self._env = env

    @property
    def bit_generator(self) -> Generator:
        """This, since nothing else of it is asked for."""
        return self

    @property
    def state(self) -> Any:
        """The state."""
        return self._env.generator()["state"]

    @state.setter
    def state(self, state: Any) -> None:
        self._env.set_generator(state)
