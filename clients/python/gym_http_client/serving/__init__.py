"""`serve_env`: provides environments in this process to a server."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import gymnasium

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

__all__ = ["serve_env"]

Env = gymnasium.Env[Any, Any]


def serve_env(
    env_or_factory: Env | Callable[..., Env],
    url: str,
    *,
    name: str,
    n: int = 1,
    token: str | None = None,
    dialect: str = "binary",
    transport: str = "websocket",
    replace: bool = False,
    stop: threading.Event | None = None,
    on_taken: Callable[[], None] | None = None,
    on_free: Callable[[], None] | None = None,
) -> None:
    """Provide one or more environments to a server, until `stop` is set.

    Agents create it as ``external/NAME``. Lost connections are opened again and resume
    their session. The logger ``gym_http_client.serving`` logs a line for each event;
    ``logging.basicConfig(level="INFO")`` shows them.

    Args:
        env_or_factory: An environment, which only this function may use from now on.
            Or a function that creates one from the arguments of an agent.
        url: The server's address, as for `Server`. Or ``tcp://HOST:PORT``, if the
            server was started with ``--external-tcp``; or ``zmq+tcp://HOST:PORT``, if
            it was started with ``--zmq``, which needs pyzmq. Or ``stdio:``, if the
            server starts this program (``--env-command``): then the program ends when
            its standard input does, and its prints go to standard error.
        name: A letter or digit, then up to 63 of ``A-Za-z0-9_.-``.
        n: Number of environments; more than one needs a factory. Each has a thread.
        token: The server's token; else the one in the address, else the one in the
            environment variable ``GHS_TOKEN``.
        dialect: ``"binary"``, or ``"typed"`` for readable JSON.
        transport: ``"websocket"``, or ``"http"`` for networks that permit nothing
            else, which is slower. Other URL schemes determine the transport.
        replace: Whether this program, once it was started again, takes the place that
            it had in a running instance, whose episode ends then as truncated.
        stop: An event; when it is set, this function returns.
        on_taken: Called when an agent takes an environment, in that environment's
            thread. Its exceptions are logged.
        on_free: Called when the agent releases the environment, likewise.

    Raises:
        ConnectionRefusedError: The server refuses this environment; the message has
            the reason.
        ModuleNotFoundError: The address is a ZeroMQ address, and pyzmq is not
            installed.
        ValueError: An argument is invalid.
    """
    if dialect not in ("binary", "typed"):
        raise ValueError(f"dialect is {dialect!r}: expected 'binary' or 'typed'")
    own = isinstance(env_or_factory, gymnasium.Env)
    if n < 1 or (n > 1 and own):
        raise ValueError(f"n is {n}: expected 1, or more with a factory")
    if transport not in ("websocket", "http"):
        raise ValueError(f"transport is {transport!r}: expected 'websocket' or 'http'")
    open_connection, shown = _opener(url, token, transport)
    if url == STDIO and n > 1:
        raise ValueError(
            f"n is {n}: expected 1 with {STDIO}, as the server starts more"
        )
    stopped = stop or threading.Event()

    def provide() -> None:
        if isinstance(env_or_factory, gymnasium.Env):
            provided = ProvidedEnv(env_or_factory, None)
        else:
            provided = ProvidedEnv(None, env_or_factory)
        provider = Provider(
            provided,
            open_connection,
            name=name,
            token=shown,
            dialect=dialect,
            replace=replace,
            stopped=stopped,
            on_taken=on_taken or _nothing,
            on_free=on_free or _nothing,
        )
        try:
            provider.run()
        finally:
            provided.close()

    if n == 1:
        provide()
        return
    errors: list[Exception] = []

    def provide_in_thread() -> None:
        try:
            provide()
        except Exception as error:
            errors.append(error)
            stopped.set()

    threads = [
        threading.Thread(target=provide_in_thread, daemon=True) for _ in range(n)
    ]
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads):
            threads[0].join(0.2)
            for thread in threads[1:]:
                thread.join(0.001)
    finally:
        stopped.set()
    if errors:
        raise errors[0]


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
