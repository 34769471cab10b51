"""`serve_env` and `serve_agents`: provide environments in this process to a server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import gymnasium

from gym_http_client.serving.agents import serve_agents
from gym_http_client.serving.connections import STDIO
from gym_http_client.serving.provided_env import ProvidedEnv
from gym_http_client.serving.providers import Providers

__all__ = ["serve_agents", "serve_env"]

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
        TypeError: ``env_or_factory`` is neither.
        ValueError: An argument is invalid.
    """
    own = isinstance(env_or_factory, gymnasium.Env)
    if not own and not callable(env_or_factory):
        raise TypeError(
            f"env_or_factory is a {type(env_or_factory).__name__}: expected an "
            "environment or a function that creates one, and then the server's "
            "address, as serve_env(env, 'http://127.0.0.1:5000', name='mine')"
        )
    if n < 1 or (n > 1 and own):
        raise ValueError(f"n is {n}: expected 1, or more with a factory")
    if url == STDIO and n > 1:
        raise ValueError(
            f"n is {n}: expected 1 with {STDIO}, as the server starts more"
        )
    providers = Providers(
        url,
        token=token,
        dialect=dialect,
        transport=transport,
        replace=replace,
        stop=stop,
        on_taken=on_taken,
        on_free=on_free,
    )

    def make() -> ProvidedEnv:
        if isinstance(env_or_factory, gymnasium.Env):
            return ProvidedEnv(env_or_factory, None)
        return ProvidedEnv(None, env_or_factory)

    providers.run({name: [make] * n})
