"""Registers remote environments for ``gymnasium.make`` and ``make_vec``.

``gym_http/Remote-v0`` uses HTTP, and ``gym_http/ZeroMQ-v0`` uses ZeroMQ.
``gym_http/RealTime-v0`` has a clock that does not wait for the agent, over either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium

from gym_http_client.envs.real_time_env import RealTimeEnv
from gym_http_client.envs.remote_env import RemoteEnv
from gym_http_client.envs.remote_vector_env import RemoteVectorEnv
from gym_http_client.http.addresses import Address, base_path
from gym_http_client.zeromq import check_installed

__all__ = [
    "make",
    "make_real_time",
    "make_vector",
    "make_vector_zeromq",
    "make_zeromq",
    "register",
]

_REAL_TIME = "_real_time"
ENV_IDS = {
    "gym_http/Remote-v0": "",
    "gym_http/ZeroMQ-v0": "_zeromq",
    "gym_http/RealTime-v0": _REAL_TIME,
}


def make(url: str, env_id: str, **options: Any) -> RemoteEnv:
    """Make a remote environment; the entry point of ``gym_http/Remote-v0``.

    Args:
        url: URL of the server.
        env_id: ID of the environment on the server.
        **options: As for `RemoteEnv`.

    Raises:
        ValueError: The URL contains a token: ``gymnasium.make`` keeps arguments in the
            spec, which recorders write to disk.
    """
    _check_plain(url)
    return RemoteEnv(url, env_id, **options)


def make_vector(
    url: str, env_id: str, server_mode: str | None = None, **options: Any
) -> RemoteVectorEnv:
    """Make a remote vector; the vector entry point of ``gym_http/Remote-v0``.

    Args:
        url: URL of the server.
        env_id: ID of the environment on the server.
        server_mode: The ``vectorization_mode`` on the server. ``make_vec`` does not
            pass on its own argument of that name.
        **options: As for `RemoteVectorEnv`.

    Raises:
        ValueError: The URL contains a token, as for `make`.
    """
    _check_plain(url)
    return RemoteVectorEnv(url, env_id, vectorization_mode=server_mode, **options)


def make_zeromq(url: str, env_id: str, **options: Any) -> RemoteEnv:
    """Make a remote environment; the entry point of ``gym_http/ZeroMQ-v0``.

    Args:
        url: Address of the server's ZeroMQ socket, as ``tcp://127.0.0.1:5556``.
        env_id: ID of the environment on the server.
        **options: As for `RemoteEnv`.

    Raises:
        ModuleNotFoundError: pyzmq is not installed.
        ValueError: The URL is not such an address, or it contains a token.
    """
    _check_zeromq(url)
    return RemoteEnv(url, env_id, **options)


def make_vector_zeromq(
    url: str, env_id: str, server_mode: str | None = None, **options: Any
) -> RemoteVectorEnv:
    """Make a remote vector; the vector entry point of ``gym_http/ZeroMQ-v0``.

    Args:
        url: Address of the server's ZeroMQ socket.
        env_id: ID of the environment on the server.
        server_mode: As for `make_vector`.
        **options: As for `RemoteVectorEnv`.

    Raises:
        ModuleNotFoundError: pyzmq is not installed.
        ValueError: The URL is not such an address, or it contains a token.
    """
    _check_zeromq(url)
    return RemoteVectorEnv(url, env_id, vectorization_mode=server_mode, **options)


def make_real_time(
    url: str, env_id: str, realtime: Mapping[str, Any] | None = None, **options: Any
) -> RealTimeEnv:
    """Make a remote environment in real time; entry point of ``gym_http/RealTime-v0``.

    Args:
        url: URL of the server, or the address of its ZeroMQ socket.
        env_id: ID of the environment on the server.
        realtime: The clock, as for `RealTimeEnv`.
        **options: As for `RealTimeEnv`.

    Raises:
        ValueError: The URL contains a token, as for `make`.
    """
    if url.startswith(("tcp://", "zmq+tcp://")):
        _check_zeromq(url)
    else:
        _check_plain(url)
    return RealTimeEnv(url, env_id, realtime, **options)


def _check_plain(url: str) -> None:
    _check_shown(url, Address.parse(url, "").url)


def _check_zeromq(url: str) -> None:
    check_installed()
    from gym_http_client.zeromq.dealer import address_of

    _check_shown(url.removeprefix("zmq+"), address_of(url, "").url)


def _check_shown(url: str, plain: str) -> None:
    if plain not in (url.rstrip("/"), base_path(url)):
        raise ValueError(
            "url has a token, or is not written plainly, and gymnasium.make would keep "
            "it in the spec: put the token into the environment variable GHS_TOKEN"
        )


def register() -> None:
    """Register the remote environments with Gymnasium, once."""
    for env_id, kind in ENV_IDS.items():
        if env_id not in gymnasium.registry:
            vector = f"gym_http_client.registration:make_vector{kind}"
            gymnasium.register(
                id=env_id,
                entry_point=f"gym_http_client.registration:make{kind}",
                # A clock has one world.
                vector_entry_point=None if kind == _REAL_TIME else vector,
                # gymnasium.make on the server has added these wrappers.
                order_enforce=False,
                disable_env_checker=True,
            )
