"""``gym_http/Remote-v0``: remote environments by way of ``make`` and ``make_vec``."""

from __future__ import annotations

from typing import Any

import gymnasium

from gym_http_client.addresses import Address
from gym_http_client.remote_env import RemoteEnv
from gym_http_client.remote_vector_env import RemoteVectorEnv

__all__ = ["make", "make_vector", "register"]

ENV_ID = "gym_http/Remote-v0"


def make(url: str, env_id: str, **options: Any) -> RemoteEnv:
    """Make a remote environment; the entry point of ``gym_http/Remote-v0``.

    Args:
        url: URL of the server.
        env_id: Env ID to make there.
        **options: What `RemoteEnv` takes.

    Raises:
        ValueError: There is a token in the URL: ``gymnasium.make`` keeps arguments
            in the spec, which recorders write to disk.
    """
    _check_plain(url)
    return RemoteEnv(url, env_id, **options)


def make_vector(
    url: str, env_id: str, server_mode: str | None = None, **options: Any
) -> RemoteVectorEnv:
    """Make a remote vector; the vector entry point of ``gym_http/Remote-v0``.

    Args:
        url: URL of the server.
        env_id: Env ID to make there.
        server_mode: The ``vectorization_mode`` in the server: ``make_vec`` keeps the
            argument of that name for itself.
        **options: What `RemoteVectorEnv` takes.

    Raises:
        ValueError: There is a token in the URL, as for `make`.
    """
    _check_plain(url)
    return RemoteVectorEnv(url, env_id, vectorization_mode=server_mode, **options)


def _check_plain(url: str) -> None:
    if Address.parse(url, "").url != url.rstrip("/"):
        raise ValueError(
            "url has a token, or is not written plainly, and gymnasium.make would keep "
            "it in the spec: put the token into the environment variable GHS_TOKEN"
        )


def register() -> None:
    """Register it with Gymnasium, once."""
    if ENV_ID not in gymnasium.registry:
        gymnasium.register(
            id=ENV_ID,
            entry_point="gym_http_client.registration:make",
            vector_entry_point="gym_http_client.registration:make_vector",
            # The server's gymnasium.make has put on what these would.
            order_enforce=False,
            disable_env_checker=True,
        )
