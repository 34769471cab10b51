"""Real-time calls: actions and updates of an instance whose clock does not wait.

They have sessions of their own, so that they do not wait behind a step.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlencode

from gym_http_client.errors import ServerError, WorldEnded
from gym_http_client.http.error_mapping import refuse_unsent
from gym_http_client.http.processes import PerProcess
from gym_http_client.http.server_warnings import show
from gym_http_client.streaming.session import (
    REAL_TIME_OPS,
    Pending,
    Session,
    body_of,
    by_rest,
)
from gym_http_wire.handshakes import new_session
from gym_http_wire.messages import WARNINGS
from gym_http_wire.values import binary

__all__ = [
    "RealTimeCalls",
    "RealTimeSession",
    "Update",
    "Updates",
    "info_of",
]

#: Seconds that the server waits for an update before it answers without one.
_WAIT_S = 10.0
#: Members of an update that are shown within its ``realtime``.
_IN_REALTIME = ("agent_lost", "last", "reset")


class Update(NamedTuple):
    """What an agent learns of the world at one time, as from a step.

    Attributes:
        observation: The newest observation.
        reward: The reward since the last update that this iterator returned.
        terminated: Whether the episode ended.
        truncated: Whether the episode was cut off.
        info: The environment's info, with ``"realtime"`` and, if the instance has
            reward channels, ``"rewards"``.
    """

    observation: Any
    reward: Any
    terminated: bool
    truncated: bool
    info: dict[str, Any]


def info_of(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the info in an answer, with its members ``realtime`` and ``rewards``."""
    members = {name: answer[name] for name in _IN_REALTIME if name in answer}
    info = {**answer["info"], "realtime": {**answer["realtime"], **members}}
    if "rewards" in answer:
        info["rewards"] = answer["rewards"]
    return info


class RealTimeSession(Session):
    """Sends real-time requests to one instance, over a stream if possible."""

    @staticmethod
    def _operation(path: str) -> tuple[int, bytes]:
        """Return the operation of a method and path, and an empty head."""
        return REAL_TIME_OPS[path], b""

    def abandon(self) -> None:
        """Close all connections without waiting for a thread that uses them."""
        super().abandon()
        if self._requester is not None:
            self._requester.abandon()

    def _by_rest(self, pending: Pending) -> Any:
        method, _, path = pending.path.rpartition(" ")
        request, query = pending.request, ""
        if method == "GET" and request.signature:
            query = f"?{urlencode(binary.decode(body_of(request)))}"
        assert self._requester is not None  # noqa: S101 - these have one
        return by_rest(
            self._requester,
            self._path + path + query,
            self._url + path,
            request,
            None,
            method=method,
        )


class _Agent:
    """The actions of one process: their session and their numbers.

    Args:
        session: Sends the requests.

    Attributes:
        seen: Number of the last update that this agent received; 0 without one.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.seen = 0
        self._name = new_session()
        self._sequence = 0
        self._lock = threading.Lock()

    def act(self, given: dict[str, Any]) -> dict[str, Any]:
        """Send an action, with the next number."""
        with self._lock:
            self._sequence += 1
            numbered = {**given, "session": self._name, "sequence": self._sequence}
            return _answer(self.session, "POST action/", numbered)


class RealTimeCalls:
    """The real-time calls of one instance.

    Args:
        session: Creates a session of the instance.
        time_limit: Seconds to wait for each answer.

    Attributes:
        strict_infos: Whether values of infos that could not be sent are errors.
    """

    def __init__(self, session: Callable[[], Session], time_limit: float) -> None:
        self.strict_infos = False
        self._session = session
        self._wait_s = min(_WAIT_S, time_limit / 2)
        self._agent = PerProcess(
            lambda: _Agent(session()), lambda agent: agent.session.abandon()
        )
        self._iterators: list[Updates] = []

    def act(self, given: dict[str, Any]) -> dict[str, Any]:
        """Send an action, a chunk, or a sign of life.

        Args:
            given: Members of the request. Without ``for``, it answers the last update
                that this object has received.

        Raises:
            NotRealTime: The instance has no clock.
            ServerError: The server refuses.
        """
        agent = self._agent.get()
        if agent.seen and given and "for" not in given:
            given = {**given, "for": agent.seen}
        return agent.act(given)

    def call(
        self, method: str, path: str, given: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Send another real-time request, and return its answer."""
        return _answer(self._agent.get().session, f"{method} {path}", given)

    def note(self, info: dict[str, Any]) -> dict[str, Any]:
        """Note the update in an info, and return the info.

        Raises:
            ServerError: The infos are strict, and `Unsent` stands for a value.
        """
        if self.strict_infos:
            refuse_unsent(info, "updates/")
        agent = self._agent.get()
        agent.seen = max(agent.seen, info["realtime"]["update"])
        return info

    def updates(self, after: int | None, deliver: str, most: int | None) -> Updates:
        """Return an iterator over the updates after a number; see `Updates`."""
        if after is None:
            after = self._agent.get().seen or None
        made = Updates(self, self._session(), after, deliver, most, self._wait_s)
        self._iterators = [each for each in self._iterators if not each.closed]
        self._iterators.append(made)
        return made

    def close(self) -> None:
        """Close all connections; iterators over updates end."""
        for each in self._iterators:
            each.close()
        self._agent.get().session.abandon()


class Updates:
    """Iterates over the updates of one instance, until its world ends.

    It requests an update when the agent wants one, so it never returns an old one that
    waited in a buffer of the network.

    Args:
        calls: The calls of the instance.
        session: Sends the requests; only this iterator uses it.
        after: Number of the last known update; None to begin with the newest.
        deliver: ``"latest"`` or ``"all"``.
        most: Number of updates in an answer at most.
        wait_s: Seconds that the server waits for an update.

    Attributes:
        lost: Number of updates so far that the server's buffer could not hold.
        closed: Whether the iterator was closed.
    """

    def __init__(
        self,
        calls: RealTimeCalls,
        session: Session,
        after: int | None,
        deliver: str,
        most: int | None,
        wait_s: float,
    ) -> None:
        self.lost = 0
        self.closed = False
        self._calls = calls
        self._session = session
        self._after = after
        self._request: dict[str, Any] = {"deliver": deliver, "wait_s": wait_s}
        if most is not None:
            self._request["max"] = most
        self._arrived: deque[dict[str, Any]] = deque()
        self._ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Update:
        """Wait for the next update.

        Raises:
            StopIteration: All episodes have ended, or the iterator was closed.
            NotRealTime: The instance has no clock.
            ServerUnreachable: There is no answer.
            Exception: The environment raised it.
        """
        while not self._arrived:
            if self._ended or self.closed:
                raise StopIteration
            self._request_more()
        answer = self._arrived.popleft()
        self._after = answer["realtime"]["update"]
        self._ended = bool(answer.get("last"))
        info = self._calls.note(info_of(answer))
        return Update(
            answer["observation"],
            answer["reward"],
            answer["terminated"],
            answer["truncated"],
            info,
        )

    def close(self) -> None:
        """Close the connection, and end the iteration."""
        self.closed = True
        self._arrived.clear()
        self._session.abandon()

    def _request_more(self) -> None:
        request = self._request
        if self._after is not None:
            request = {"after": self._after, **request}
        try:
            answer = _answer(self._session, "GET updates/", request)
        except WorldEnded:
            self._ended = True
            return
        except ServerError:
            if self.closed:
                return
            raise
        self.lost += answer["lost"]
        self._arrived.extend(answer["updates"])
        self._ended = answer["state"] == "ended" and not self._arrived


def _answer(session: Session, path: str, given: Any) -> dict[str, Any]:
    answer: dict[str, Any] = session.call(path, given)
    if WARNINGS in answer:
        show(answer.pop(WARNINGS))
    return answer
