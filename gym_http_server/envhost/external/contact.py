"""Contact with an environment elsewhere: there, silent, lost, or back."""

from __future__ import annotations

import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from gym_http_server.envhost.external.dialects import dialect_of
from gym_http_server.envhost.external.lines import Line, Lost
from gym_http_server.envhost.external.state import State
from gym_http_wire.external.framing import framing_of
from gym_http_wire.external.handshake import TANGO, Hello
from gym_http_wire.external.messages import BadMessage, Fault
from gym_http_wire.messages import Op
from gym_http_wire.websocket import Close

__all__ = ["Contact"]


class Contact(ABC):
    """One connection, which may be lost and come back.

    Args:
        state: How to go on.
        line: The socket.
        max_message: Bytes that a message may have.
        watch: Called with the socket when there is another one.

    Attributes:
        away_since: Monotonic seconds; ``None`` while it is there.
    """

    def __init__(
        self,
        state: State,
        line: socket.socket,
        max_message: int,
        watch: Callable[[Any], None],
    ) -> None:
        self.state = state
        self.away_since: float | None = None
        self._max_message = max_message
        self._watch = watch
        self._connect(line)

    @abstractmethod
    def _let_go(self) -> None:
        """Take note that nothing comes any more of what was asked."""

    @property
    def hello(self) -> Hello:
        """What the environment said of itself."""
        return self.state.hello

    def fileno(self) -> int:
        """Give the descriptor; -1 while the connection is lost."""
        return self._line.fileno()

    def come_back(self, state: State, line: socket.socket) -> None:
        """Go on over another connection; what was asked over the last one is lost."""
        self.lose("a newer connection took its place")
        self.state.carrier = state.carrier
        self._connect(line)
        self.away_since = None

    def _connect(self, line: socket.socket) -> None:
        self._line = Line(line)
        self._carrier = framing_of(self.state.carrier, self._max_message)
        self._dialect = dialect_of(self.state.hello)
        self._heard_at = self._owed_until = time.monotonic()
        self._pinged_at: float | None = None
        self._watch(self)

    @property
    def name(self) -> str:
        """The env ID."""
        return f"external/{self.hello.name}"

    @property
    def comes_back(self) -> bool:
        """Whether it could come back, if it were lost; Tango's have no token for it."""
        return self.hello.dialect != TANGO

    def tick(self, now: float, heartbeat_s: float) -> None:
        """Look whether it is still there: it is pinged when it is silent.

        While it owes an answer it may be silent: an environment that computes in its
        only thread cannot say that it lives.
        """
        if self.away_since is not None:
            return
        if now - max(self._heard_at, self._owed_until) <= heartbeat_s:
            return
        if self._pinged_at is not None:
            # From the ping on: it may be this host that stood still before.
            if now - max(self._pinged_at, self._owed_until) > heartbeat_s:
                self._send(self._carrier.farewell("no answer to a ping"))
                self.lose("no answer to a ping")
        else:
            self._pinged_at = now
            ping = self._carrier.ping()
            if ping is None:
                self._say(self._dialect.encode_control(Op.PING))
            else:
                self._send(ping)

    def lose(self, why: str) -> None:
        """Take note that the connection has ended, and end it."""
        if self.away_since is not None:
            return
        print(f"{self.name}, connection {self.state.connection}: {why}", flush=True)
        self.away_since = time.monotonic()
        self._line.close()
        self._let_go()

    def surrender(self) -> socket.socket | None:
        """Give the socket for another process to go on; ``None`` if none could."""
        if self.away_since is not None or not self._carrier.between:
            return None
        return self._line.socket

    def close(self, words: str = "") -> None:
        """End the connection, or let go of the one that another process has."""
        if words and self.away_since is None:
            self._send(self._carrier.farewell(words, Close.GOING_AWAY))
        self._line.close()

    def blame(self, error: BadMessage) -> None:
        """Tell the environment what was wrong with a message of its own."""
        fault = Fault(str(error), error.number, error.field)
        self._say(self._dialect.encode_fault(fault))

    def _read(self, *, wait: bool) -> bytes:
        """Read what has come; nothing, if nothing has or the connection is lost."""
        try:
            data = self._line.read(wait=wait)
        except Lost as lost:
            self.lose(str(lost))
            return b""
        if data:
            self._hear()
        return data

    def _hear(self) -> None:
        """Take note that something has come."""
        self._heard_at = time.monotonic()
        self._pinged_at = None

    def _say(self, payload: bytes, until: float | None = None) -> None:
        self._send(self._carrier.message(payload, text=self._dialect.text), until)

    def _send(self, data: bytes, until: float | None = None) -> None:
        """Send bytes; who does not take them in time is gone.

        Args:
            data: The bytes.
            until: Monotonic seconds; ``None``: it has to take them at once.
        """
        if self.away_since is None:
            try:
                self._line.send(data, until)
            except Lost as lost:
                self.lose(str(lost))
