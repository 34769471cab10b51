"""``gym_http/Remote-v0``: remote environments by way of ``gymnasium.make``."""

from __future__ import annotations

from typing import Any

import gymnasium

from gym_http_client.addresses import Address
from gym_http_client.remote_env import RemoteEnv

__all__ = ["make", "register"]

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
    if Address.parse(url, "").url != url.rstrip("/"):
        raise ValueError(
            "url has a token, or is not written plainly, and gymnasium.make would keep "
            "it in the spec: put the token into the environment variable GHS_TOKEN"
        )
    return RemoteEnv(url, env_id, **options)


def register() -> None:
    """Register it with Gymnasium, once."""
    if ENV_ID not in gymnasium.registry:
        gymnasium.register(
            id=ENV_ID,
            entry_point="gym_http_client.registration:make",
            # The server's gymnasium.make has put on what these would.
            order_enforce=False,
            disable_env_checker=True,
        )
