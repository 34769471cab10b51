"""A handle: what an adapter holds of one instance, however that is reached."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from gym_http_client.closing import Patience, patience_with
from gym_http_client.errors import ServerError
from gym_http_client.failures import Failure
from gym_http_client.processes import PerProcess
from gym_http_client.sessions import Session
from gym_http_client.warned import show
from gym_http_wire.messages import WARNINGS

__all__ = ["Handle"]

_S = TypeVar("_S", bound=Session)
_logger = logging.getLogger("gym_http_client")


class Handle(ABC, Generic[_S]):
    """One instance on a server.

    Args:
        session: Makes a session of it.
        server_url: URL of the server.
        instance_id: The instance.
    """

    def __init__(
        self, session: Callable[[], _S], server_url: str, instance_id: str
    ) -> None:
        self._session = PerProcess(session, Session.abandon)
        self._server_url = server_url
        self._instance_id = instance_id
        self._ended = False

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
            told = session.ask(path, given)
        else:
            told = self._ask_other(session, method, path, given)
        if WARNINGS in told:
            show(told.pop(WARNINGS))
        return told

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
        told = self._session.get().receive()
        if WARNINGS in told:
            show(told.pop(WARNINGS))
        return told

    def end(self) -> None:
        """End the instance, if it has not ended yet.

        An unreachable server is waited for briefly, and raises nothing; see `Patience`.
        """
        if self._ended:
            return
        self._ended = True
        # By then, what this process made has been ended; see `closing.register`.
        if sys.is_finalizing():
            return
        patience = patience_with(self._server_url)
        seconds = patience.left()
        began = time.monotonic()
        try:
            if seconds > 0:
                self._end(seconds)
                patience.renew()
        except (ServerError, Failure) as error:
            self._give_up(patience, time.monotonic() - began, error)
        finally:
            self._release()

    def begin_end(self, seconds: float) -> None:
        """Ask for the end of the instance at interpreter exit, and do not wait.

        Args:
            seconds: For connecting and sending.
        """
        if self._ended or seconds <= 0:
            return
        # What it raises `finish_end` raises, too.
        with contextlib.suppress(Exception):
            self._begin_end(seconds)

    def finish_end(self, seconds: float) -> None:
        """Wait for the answer to `begin_end`, and raise nothing.

        Args:
            seconds: To wait.
        """
        if self._ended:
            return
        self._ended = True
        try:
            if seconds <= 0:
                raise TimeoutError("there was no time left to wait for the server")
            self._finish_end(seconds)
        except Exception as error:
            self._give_up(patience_with(self._server_url), 0.0, error)

    def _give_up(self, patience: Patience, seconds: float, error: Exception) -> None:
        """Warn that the instance may go on, once for all of a server's."""
        if patience.spend(seconds):
            words = (
                "could not end instance %s, since %s does not answer: %s; it ends by "
                "itself when the server's idle timeout is over"
            )
            _logger.warning(words, self._instance_id, self._server_url, error)

    @abstractmethod
    def _end(self, seconds: float) -> None:
        """End the instance within so many seconds."""

    @abstractmethod
    def _release(self) -> None:
        """Close all connections."""

    @abstractmethod
    def _begin_end(self, seconds: float) -> None:
        """Send the request that ends the instance."""

    @abstractmethod
    def _finish_end(self, seconds: float) -> None:
        """Receive the answer to that."""

    @abstractmethod
    def _ask_other(self, session: _S, method: str, path: str, given: Any) -> Any:
        """Ask what is no reset, step or picture; as `ask`."""
