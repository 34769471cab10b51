"""Runs providers, each in a thread, until they are stopped."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable

from gym_http_client.http.addresses import Address
from gym_http_client.serving.connections import (
    STDIO,
    PollingConnection,
    ProviderConnection,
    StandardStreams,
    open_tcp,
    open_websocket,
)
from gym_http_client.serving.provided_env import ProvidedEnv
from gym_http_client.serving.provider import Provider
from gym_http_client.zeromq import check_installed

__all__ = ["Providers"]


class Providers:
    """Provides environments to a server, each in a thread.

    Args:
        url: The server's address.
        token: Its token; ``None`` for that of the address or the environment variable.
        dialect: ``"binary"`` or ``"typed"``.
        transport: ``"websocket"`` or ``"http"``.
        replace: Whether this program takes the place that an earlier one had.
        stop: Ends `run`.
        on_taken: Called when an agent takes an environment, in its thread.
        on_free: Called when the agent releases it, likewise.

    Raises:
        ModuleNotFoundError: The address is a ZeroMQ address, and pyzmq is not
            installed.
        ValueError: An argument is invalid.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None,
        dialect: str,
        transport: str,
        replace: bool,
        stop: threading.Event | None,
        on_taken: Callable[[], None] | None = None,
        on_free: Callable[[], None] | None = None,
    ) -> None:
        if dialect not in ("binary", "typed"):
            raise ValueError(f"dialect is {dialect!r}: expected 'binary' or 'typed'")
        if transport not in ("websocket", "http"):
            raise ValueError(
                f"transport is {transport!r}: expected 'websocket' or 'http'"
            )
        self._open, self._token = _opener(url, token, transport)
        self._dialect = dialect
        self._replace = replace
        self._stopped = stop or threading.Event()
        self._on_taken = on_taken or _nothing
        self._on_free = on_free or _nothing

    def run(self, makes: dict[str, list[Callable[[], ProvidedEnv]]]) -> None:
        """Provide environments until the event is set.

        Args:
            makes: By name, functions that make the environments of this name, each
                called in the thread of its environment.

        Raises:
            ConnectionRefusedError: The server refuses an environment.
        """
        calls = [
            functools.partial(self._provide, name, make)
            for name, several in makes.items()
            for make in several
        ]
        if len(calls) == 1:
            calls[0]()
            return
        errors: list[Exception] = []

        def provide_in_thread(provide: Callable[[], None]) -> None:
            try:
                provide()
            except Exception as error:
                errors.append(error)
                self._stopped.set()

        threads = [
            threading.Thread(target=provide_in_thread, args=(call,), daemon=True)
            for call in calls
        ]
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads):
                threads[0].join(0.2)
                for thread in threads[1:]:
                    thread.join(0.001)
        finally:
            self._stopped.set()
        if errors:
            raise errors[0]

    def _provide(self, name: str, make: Callable[[], ProvidedEnv]) -> None:
        provided = make()
        provider = Provider(
            provided,
            self._open,
            name=name,
            token=self._token,
            dialect=self._dialect,
            replace=self._replace,
            stopped=self._stopped,
            on_taken=self._on_taken,
            on_free=self._on_free,
        )
        try:
            provider.run()
        finally:
            provided.close()


def _opener(
    url: str, token: str | None, transport: str
) -> tuple[Callable[[], ProviderConnection], str]:
    """Return a function that opens connections, and the token to send in hello."""
    if url == STDIO:
        # At once, since a factory may print.
        return StandardStreams().connection, ""
    if transport == "http":
        return functools.partial(PollingConnection, url, token), ""
    if url.startswith("zmq+tcp://"):
        check_installed()
        from gym_http_client.serving.zeromq_connection import ZeroMQConnection
        from gym_http_client.zeromq.dealer import address_of

        address = address_of(url, token)
        return functools.partial(ZeroMQConnection, address), address.token or ""
    if not url.startswith("tcp://"):
        return functools.partial(open_websocket, Address.parse(url, token)), ""
    address = Address.parse(url.replace("tcp://", "http://", 1), token)
    opener = functools.partial(open_tcp, address.host, address.port)
    return opener, address.token or ""


def _nothing() -> None:
    pass
