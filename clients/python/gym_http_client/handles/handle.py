"""A handle: what an adapter holds of one instance, however that is reached."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from gym_http_client.processes import PerProcess
from gym_http_client.sessions import Session

__all__ = ["Handle"]

_S = TypeVar("_S", bound=Session)


class Handle(ABC, Generic[_S]):
    """One instance on a server.

    Args:
        session: Makes a session of it.
    """

    def __init__(self, session: Callable[[], _S]) -> None:
        self._session = PerProcess(session, Session.abandon)

    @property
    def transport(self) -> str:
        """What steps go over: ``"stream"``, ``"rest"`` or ``"zeromq"``.

        It is ``"rest"`` without a stream, and before there is one.
        """
        return self._session.get().transport

    def ask(self, method: str, path: str, given: Any = None) -> Any:
        """Ask something of the instance, in the binary form both ways.

        Args:
            method: ``GET`` or ``POST``.
            path: What follows the instance in the path.
            given: What is sent with a POST.

        Returns:
            What was answered, as it left the environment.

        Raises:
            ServerUnreachable: There is no answer.
            ServerError: The server refuses.
            Exception: What the environment raised.
        """
        session = self._session.get()
        if session.carries(method, path):
            return session.ask(path, given)
        return self._ask_other(session, method, path, given)

    def send(self, path: str, given: Any) -> None:
        """Ask for a reset, a step or a picture, and return at once.

        Args:
            path: What follows the instance in the path.
            given: What is sent.
        """
        self._session.get().send(path, given)

    def receive(self) -> Any:
        """Give the answer to the oldest `send` whose answer was not given yet.

        Raises:
            ServerUnreachable: There is no answer.
            ServerError: The server refuses.
            Exception: What the environment raised.
        """
        return self._session.get().receive()

    @abstractmethod
    def end(self) -> None:
        """End the instance, if it has not ended yet."""

    @abstractmethod
    def _ask_other(self, session: _S, method: str, path: str, given: Any) -> Any:
        """Ask what is no reset, step or picture; as `ask`."""
