"""Handles of one instance, whatever carries their requests."""

from __future__ import annotations

from typing import Any, Protocol

from gym_http_client.http.error_mapping import refuse_unsent

__all__ = ["ACTS", "AnyHandle", "StrictHandle"]

#: Paths of the calls that change an environment, below its instance.
ACTS = ("reset/", "step/")


class AnyHandle(Protocol):
    """A handle that calls one instance, over any transport."""

    @property
    def transport(self) -> str:
        """The transport of steps."""

    def capabilities(self) -> frozenset[str]:
        """Return what the server can do."""

    def call(self, method: str, path: str, given: Any = None) -> Any:
        """Send a request of the instance, and return its answer."""

    def send(self, path: str, given: Any) -> None:
        """Send a reset, a step or a render, and return at once."""

    def receive(self) -> Any:
        """Return the answer to the oldest `send` without a returned answer."""

    def release(self) -> None:
        """Close all connections; the instance stays."""

    def end(self) -> None:
        """End the instance."""


class StrictHandle:
    """A handle that refuses infos with values that could not be sent.

    Args:
        handle: The handle of the instance.
    """

    def __init__(self, handle: AnyHandle) -> None:
        self._handle = handle

    @property
    def transport(self) -> str:
        """The transport of steps."""
        return self._handle.transport

    def capabilities(self) -> frozenset[str]:
        """Return what the server can do."""
        return self._handle.capabilities()

    def call(self, method: str, path: str, given: Any = None) -> Any:
        """Send a request of the instance, and return its answer.

        Raises:
            ServerError: `Unsent` stands for a value of its info.
        """
        return self._checked(self._handle.call(method, path, given), path)

    def receive(self) -> Any:
        """Return the answer to the oldest `send` without a returned answer.

        Raises:
            ServerError: `Unsent` stands for a value of its info.
        """
        return self._checked(self._handle.receive(), "step/")

    def _checked(self, answer: Any, path: str) -> Any:
        if path in ACTS:
            refuse_unsent(answer["info"], path)
        return answer

    def send(self, path: str, given: Any) -> None:
        """Send a reset, a step or a render, and return at once."""
        self._handle.send(path, given)

    def release(self) -> None:
        """Close all connections; the instance stays."""
        self._handle.release()

    def end(self) -> None:
        """End the instance."""
        self._handle.end()
