"""The random generator of an environment elsewhere, as far as its state goes."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["Generator"]


class _HasGenerator(Protocol):
    def generator(self) -> dict[str, Any]:
        """Describe it."""

    def set_generator(self, given: dict[str, Any]) -> None:
        """Set it as described."""


class Generator:
    """Stands for the generator of an external environment (`FarGenerator`)."""

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
        self._env.set_generator({"state": state})

    def described(self) -> dict[str, Any]:
        """Give what the external environment says of it."""
        return self._env.generator()

    def set_described(self, given: dict[str, Any]) -> None:
        """Set it as described."""
        self._env.set_generator(given)
