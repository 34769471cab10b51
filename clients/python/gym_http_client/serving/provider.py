"""A provider: keeps one environment connected, and answers the server's requests."""

from __future__ import annotations

import functools
import logging
import random
import threading
import time
from collections.abc import Callable

import msgspec

from gym_http_client.serving.connections import ConnectionLost, ProviderConnection
from gym_http_client.serving.provided_env import ProvidedEnv
from gym_http_wire.external.binary_dialect import BinaryDialect
from gym_http_wire.external.framing import ReceivedMessage
from gym_http_wire.external.handshake import BadHello, Refused, Welcome, parse_reply
from gym_http_wire.external.json_dialect import JSONDialect
from gym_http_wire.external.messages import (
    Answer,
    BadMessage,
    Control,
    Dialect,
    Fault,
    Request,
)
from gym_http_wire.messages import Op
from gym_http_wire.values import UnsupportedValue, typed
from gym_http_wire.values.infos import with_unsent

__all__ = ["Heartbeats", "Provider"]

WELCOME_SECONDS = 10.0
LOOK_SECONDS = 0.25
#: Long enough to be told of an end that has arrived already.
GLANCE_SECONDS = 0.001
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0
#: Codes of temporary refusals.
_PASSING = {"too-many-external"}

log = logging.getLogger("gym_http_client.serving")


class Heartbeats:
    """Decides when to ping a silent server, and when it is lost.

    Args:
        pause_s: Seconds of silence until a ping; after twice as many, the connection
            counts as lost.
    """

    def __init__(self, pause_s: float) -> None:
        self._pause_s = pause_s
        self.begin()

    def begin(self) -> None:
        """Restart the timer: a message arrived, or none could be received until now."""
        self._since = time.monotonic()
        self._pinged = False

    def is_due(self) -> bool:
        """Return whether to send a ping now; returns true only once per silence.

        Raises:
            ConnectionLost: The server did not answer the last ping.
        """
        silent = time.monotonic() - self._since
        if silent > 2 * self._pause_s:
            raise ConnectionLost(f"the server has sent nothing for {silent:.3g} s")
        if self._pinged or silent <= self._pause_s:
            return False
        self._pinged = True
        return True


class Provider:
    """Keeps one environment connected to a server, and answers requests.

    Args:
        provided: The environment.
        open_connection: Opens a connection, or raises `ConnectionLost`.
        name: The environment's name.
        token: The server's token, if hello must contain it.
        dialect: ``"binary"`` or ``"typed"``.
        replace: Whether it takes the place that an earlier program had.
        stopped: An event that ends `run`.
        on_taken: Called when an agent takes the environment.
        on_free: Called when the agent releases it.
    """

    def __init__(
        self,
        provided: ProvidedEnv,
        open_connection: Callable[[], ProviderConnection],
        *,
        name: str,
        token: str,
        dialect: str,
        replace: bool,
        stopped: threading.Event,
        on_taken: Callable[[], None],
        on_free: Callable[[], None],
    ) -> None:
        self._provided = provided
        self._open = open_connection
        self._name = name
        self._hello = msgspec.structs.replace(
            provided.hello(name, dialect), token=token, replace=replace
        )
        self._stopped = stopped
        self._on_taken = on_taken
        self._on_free = on_free
        self._resume = ""
        # The last answer, to send again if the server did not receive it.
        self._last = Answer(0, None)
        # The last warning, which is not repeated.
        self._last_warning = ""
        # Seconds before the next connection; they double with each refused one.
        self._pause = FIRST_PAUSE
        # A message that arrived while the one before was being answered.
        self._next: ReceivedMessage | None = None

    def run(self) -> None:
        """Serve the environment until `stopped` is set.

        Raises:
            ConnectionRefusedError: The server refuses this environment.
        """
        while not self._stopped.is_set():
            try:
                connection = self._open()
            except ConnectionLost as error:
                self._warn(f"{error}; trying again")
            else:
                try:
                    self._serve(connection)
                except ConnectionLost as error:
                    if not self._stopped.is_set():
                        self._warn(f"{error}; connecting anew")
                finally:
                    connection.close()
            # Many providers may have lost the same server: spread their reconnections.
            self._stopped.wait(self._pause * (0.5 + random.random() / 2))
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
        self._set_free()

    def _serve(self, connection: ProviderConnection) -> None:
        welcome = self._shake_hands(connection)
        self._last_warning = ""
        self._pause = FIRST_PAUSE
        if not welcome.resumed:
            self._last = Answer(0, None)
            self._set_free()
        self._resume = welcome.resume
        how = "resumed" if welcome.resumed else "connected"
        log.info("external/%s %s, connection %s", self._name, how, welcome.connection)
        dialect = _dialect_of(self._hello.dialect)
        beats = Heartbeats(welcome.heartbeat_s)
        self._next = None
        self._provided.attend = functools.partial(self._attend, connection)
        while not self._stopped.is_set():
            message, self._next = self._next, None
            if message is None:
                message = connection.receive(LOOK_SECONDS)
            if message is not None:
                self._take(connection, dialect, message)
                # Nothing could be received while the environment was busy.
                beats.begin()
            elif connection.idles and beats.is_due():
                connection.send(dialect.encode_control(Op.PING), text=dialect.text)

    def _attend(self, connection: ProviderConnection) -> None:
        """Notice the end of the connection while a request is being answered.

        Raises:
            ConnectionLost: The connection has ended, or `stopped` was set.
        """
        if self._stopped.is_set():
            raise ConnectionLost("the program stops")
        # Polled by HTTP, the server would return the same request again.
        if connection.idles and self._next is None:
            self._next = connection.receive(GLANCE_SECONDS)

    def _take(
        self,
        connection: ProviderConnection,
        dialect: Dialect,
        received: ReceivedMessage,
    ) -> None:
        """Handle a message from the server."""
        try:
            message = dialect.decode_request(received.payload)
        except BadMessage as error:
            raise ConnectionLost(
                f"the server sent what is no request: {error}"
            ) from None
        if isinstance(message, Request):
            connection.send(self._answered(dialect, message), text=dialect.text)
        elif isinstance(message, Fault):
            where = f" in {message.field}" if message.field else ""
            log.error("external/%s: fault%s: %s", self._name, where, message.message)
        elif message == Control(Op.PING):
            connection.send(dialect.encode_control(Op.PONG), text=dialect.text)

    def _shake_hands(self, connection: ProviderConnection) -> Welcome:
        hello = msgspec.structs.replace(self._hello, resume=self._resume)
        connection.send(msgspec.json.encode(hello), text=True)
        message = connection.receive(WELCOME_SECONDS)
        if message is None:
            raise ConnectionLost("the server does not answer to hello")
        try:
            reply = parse_reply(message.payload)
        except BadHello as error:
            raise ConnectionLost(str(error)) from None
        if isinstance(reply, Refused):
            if reply.code in _PASSING:
                raise ConnectionLost(f"the server refuses: {reply.message}")
            self._set_free()
            raise ConnectionRefusedError(f"{reply.code}: {reply.message}")
        return reply

    def _answered(self, dialect: Dialect, request: Request) -> bytes:
        """Return the answer to a request; a repeated request is not executed again."""
        last = self._last
        if request.number != last.number:
            taken = self._provided.taken
            last = self._last = self._provided.answer(request)
            if self._provided.taken and not taken:
                log.info("external/%s: an agent arrived", self._name)
                self._call(self._on_taken)
            elif taken and not self._provided.taken:
                self._announce_free()
        try:
            try:
                return dialect.encode_answer(last)
            except UnsupportedValue as error:
                result, replaced = with_unsent(last.result)
                if not replaced:
                    raise error from None
            self._warn(f"{replaced}: the agent gets an Unsent, with its repr")
            last = self._last = last._replace(result=result)
            return dialect.encode_answer(last)
        except UnsupportedValue as error:
            words = f"the environment returned a value that cannot be sent: {error}"
            fields = {"code": "env-error", "message": words}
            return dialect.encode_answer(Answer(request.number, None, fields))

    def _warn(self, words: str) -> None:
        # A server may be unreachable for hours: log each warning once.
        if words != self._last_warning:
            self._last_warning = words
            log.warning("external/%s: %s", self._name, words)

    def _set_free(self) -> None:
        if self._provided.taken:
            self._provided.release()
            self._announce_free()

    def _announce_free(self) -> None:
        log.info("external/%s: the agent left", self._name)
        self._call(self._on_free)

    def _call(self, handler: Callable[[], None]) -> None:
        """Call a handler, and log its exceptions."""
        try:
            handler()
        except Exception:
            log.exception("external/%s: %r failed", self._name, handler)


def _dialect_of(name: str) -> Dialect:
    if name == "binary":
        return BinaryDialect()
    return JSONDialect(typed.encode, typed.decode)
