"""The agent of the original server, which plays CartPole with the original's client.

The agents for our own server are in `gym_http_client.bench.agents`.
"""

from __future__ import annotations

from benchmarks import original
from gym_http_client.bench.agents import ENV_ID

__all__ = ["OriginalAgent"]


class OriginalAgent:
    """Steps CartPole with the original's client."""

    def __init__(self, url: str, seed: int) -> None:
        self._client = original.Client(url)
        self._instance_id = self._client.create(ENV_ID, seed)

    def reset(self) -> None:
        """Begin an episode."""
        self._client.reset(self._instance_id)

    def step(self, action: int) -> bool:
        """Take a step."""
        return bool(self._client.step(self._instance_id, action)[2])

    def close(self) -> None:
        """End the instance."""
        self._client.close(self._instance_id)
