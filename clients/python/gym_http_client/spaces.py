"""Spaces: the calls that describe an instance's two spaces, sample and test them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gym_http_client.connection import Connection
from gym_http_client.instances import given, instance_route

__all__ = ["SpaceCalls"]

_NOT_GIVEN: Any = object()


class SpaceCalls:
    """The part of ``Client`` that concerns spaces."""

    _connection: Connection

    def env_action_space(self, instance_id: str) -> dict[str, Any]:
        """Describe the action space in full."""
        return self._describe(instance_id, "action_space", "space")

    def env_observation_space(self, instance_id: str) -> dict[str, Any]:
        """Describe the observation space in full."""
        return self._describe(instance_id, "observation_space", "space")

    def env_action_space_info(self, instance_id: str) -> dict[str, Any]:
        """Describe the action space as gym-http-api did, ``{"name", "n"}`` or so."""
        return self._describe(instance_id, "action_space", "info")

    def env_observation_space_info(self, instance_id: str) -> dict[str, Any]:
        """Describe the observation space as gym-http-api did."""
        return self._describe(instance_id, "observation_space", "info")

    def env_action_space_sample(
        self, instance_id: str, *, seed: int | None = None, mask: Any = None
    ) -> Any:
        """Return a random action.

        Args:
            instance_id: The instance.
            seed: Seeds the space first, so that the same action comes each time.
            mask: What to sample from, as for the ``sample`` of Gymnasium's spaces.
        """
        return self._sample(instance_id, "action_space", seed, mask)["action"]

    def env_observation_space_sample(
        self, instance_id: str, *, seed: int | None = None, mask: Any = None
    ) -> Any:
        """Return a random observation; arguments as for ``env_action_space_sample``."""
        return self._sample(instance_id, "observation_space", seed, mask)["observation"]

    def env_action_space_contains(self, instance_id: str, x: Any) -> bool:
        """Tell whether a value is an action, whatever it is."""
        return self._contains(instance_id, "action_space", {"value": x})

    def env_observation_space_contains(
        self, instance_id: str, params: Any = None, *, value: Any = _NOT_GIVEN
    ) -> bool:
        """Tell whether a value is an observation, or a space is described rightly.

        Args:
            instance_id: The instance.
            params: A mapping is compared with ``env_observation_space_info``, key
                by key, as by gym-http-api. Anything else is taken as the value.
            value: The value. Use this one for observations that are mappings.
        """
        if value is _NOT_GIVEN and isinstance(params, Mapping):
            body = dict(params)
        else:
            body = {"value": params if value is _NOT_GIVEN else value}
        return self._contains(instance_id, "observation_space", body)

    def _describe(self, instance_id: str, space: str, how: str) -> dict[str, Any]:
        answer = self._connection.get(instance_route(instance_id, f"{space}/"))
        return dict(answer[how])

    def _sample(self, instance_id: str, space: str, seed: int | None, mask: Any) -> Any:
        route = instance_route(instance_id, f"{space}/sample")
        return self._connection.post(route, given(seed=seed, mask=mask))

    def _contains(self, instance_id: str, space: str, body: dict[str, Any]) -> bool:
        route = instance_route(instance_id, f"{space}/contains")
        return bool(self._connection.post(route, body)["member"])
