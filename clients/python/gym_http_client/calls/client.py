"""Client: calls a server over HTTP, with plain JSON values.

An observation is a number or nested lists, not an array. Actions and other arguments
may be NumPy arrays and scalars.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import requests

from gym_http_client.calls.clock_calls import ActionNumbers, ClockCalls
from gym_http_client.calls.instance_calls import InstanceCalls, given, instance_route
from gym_http_client.errors import ServerError
from gym_http_client.http.json_requests import JsonRequests
from gym_http_client.http.retries import Retries

__all__ = ["BatchCalls", "Client", "SpaceCalls"]

_NOT_GIVEN: Any = object()


class SpaceCalls:
    """The methods of ``Client`` for spaces."""

    _requests: JsonRequests

    def env_action_space(self, instance_id: str) -> dict[str, Any]:
        """Describe the action space in full."""
        return self._describe(instance_id, "action_space", "space")

    def env_observation_space(self, instance_id: str) -> dict[str, Any]:
        """Describe the observation space in full."""
        return self._describe(instance_id, "observation_space", "space")

    def env_action_space_info(self, instance_id: str) -> dict[str, Any]:
        """Describe the action space as gym-http-api did, such as ``{"name", "n"}``."""
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
            seed: Seeds the space first, so that the result is reproducible.
            mask: As for the ``sample`` of Gymnasium's spaces.
        """
        return self._sample(instance_id, "action_space", seed, mask)["action"]

    def env_observation_space_sample(
        self, instance_id: str, *, seed: int | None = None, mask: Any = None
    ) -> Any:
        """Return a random observation; arguments as for ``env_action_space_sample``."""
        return self._sample(instance_id, "observation_space", seed, mask)["observation"]

    def env_action_space_contains(self, instance_id: str, x: Any) -> bool:
        """Return whether a value, of any type, is an element of the action space."""
        return self._contains(instance_id, "action_space", {"value": x})

    def env_observation_space_contains(
        self, instance_id: str, params: Any = None, *, value: Any = _NOT_GIVEN
    ) -> bool:
        """Return whether a value is an observation, or a description matches the space.

        Args:
            instance_id: The instance.
            params: A mapping is compared with ``env_observation_space_info``, key
                by key, as in gym-http-api. Anything else is the value to test.
            value: The value to test; use this argument for mappings.
        """
        if value is _NOT_GIVEN and isinstance(params, Mapping):
            body = dict(params)
        else:
            body = {"value": params if value is _NOT_GIVEN else value}
        return self._contains(instance_id, "observation_space", body)

    def _describe(self, instance_id: str, space: str, how: str) -> dict[str, Any]:
        answer = self._requests.get(instance_route(instance_id, f"{space}/"))
        return dict(answer[how])

    def _sample(self, instance_id: str, space: str, seed: int | None, mask: Any) -> Any:
        route = instance_route(instance_id, f"{space}/sample")
        return self._requests.post(route, given(seed=seed, mask=mask))

    def _contains(self, instance_id: str, space: str, body: dict[str, Any]) -> bool:
        route = instance_route(instance_id, f"{space}/contains")
        return bool(self._requests.post(route, body)["member"])


class BatchCalls:
    """The methods of ``Client`` that take more than one step."""

    _requests: JsonRequests

    def step_many(self, instance_id: str, actions: Sequence[Any]) -> dict[str, Any]:
        """Take several steps in one request, until the episode ends.

        Returns:
            The columns ``observations``, ``rewards``, ``terminated``, ``truncated``,
            ``done`` and ``infos``, each a list with an item for each step; ``steps``,
            the number of steps; and ``stopped``, the reason for the end: None if all
            steps were taken, ``"episode"``, ``"time"`` or ``"answer-size"``.

        Raises:
            ServerError: An action is invalid, and no step was taken. Or a step failed:
                the error's ``body`` has the number of ``steps`` before it, and their
                columns as ``results``.
        """
        route = instance_route(instance_id, "step/")
        return dict(self._requests.post(route, {"actions": _listed(actions)}))

    def rollout(
        self,
        instance_id: str,
        *,
        episodes: int | None = None,
        actions: Sequence[Sequence[Any]] | None = None,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
        max_steps: int | None = None,
    ) -> dict[str, Any]:
        """Play whole episodes in one request, each from its reset on.

        Args:
            instance_id: The instance.
            episodes: Number of episodes; by default the number of lists in
                ``actions``, or one.
            actions: A list of actions for each episode; by default they are random.
            seed: Seed of the first reset, and of random actions.
            options: Options of each reset.
            max_steps: Steps after which an episode is over.

        Returns:
            ``episodes``, each with the columns of ``step_many``, its ``actions``, its
            ``return`` and its ``length``; its ``observations`` and ``infos`` begin with
            those of the reset. ``steps`` is the number of all steps. ``stopped`` is
            the reason for the end: None if all episodes were played.

        Raises:
            ServerError: As ``step_many``.
        """
        body = given(
            episodes=episodes,
            actions=None if actions is None else [_listed(each) for each in actions],
            seed=seed,
            options=options,
            max_steps=max_steps,
        )
        return dict(self._requests.post(instance_route(instance_id, "rollout/"), body))

    def batch_step(
        self,
        actions: Mapping[str, Any],
        *,
        first: int | None = None,
        keys: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Take a step in each of many instances, at the same time.

        Args:
            actions: The action for each instance, by instance ID.
            first: Number of steps to wait for; by default all.
            keys: The keys of steps that were pending, by instance ID. Their actions
                must be the same as before.

        Returns:
            ``results``, in the order of the actions: each has ``instance_id``, ``key``,
            ``status``, ``replayed``, and an ``answer`` or a ``problem``. ``pending``
            has ``instance_id`` and ``key`` of each step without an answer so far.
        """
        keys = keys or {}
        steps = [
            {"instance_id": each, "action": action, **given(key=keys.get(each))}
            for each, action in actions.items()
        ]
        body = {"steps": steps, **given(first=first)}
        return dict(self._requests.post("/v1/batch/step/", body))


def _listed(actions: Sequence[Any]) -> Any:
    # The encoder of the request converts arrays to lists.
    return actions if hasattr(actions, "tolist") else list(actions)


class Client(InstanceCalls, BatchCalls, SpaceCalls, ClockCalls):
    """Uses the environments of one gym_http_server.

    Each method sends a request. It raises ``ServerError`` when the server refuses the
    request, and the subclass ``ServerUnreachable`` when there is no answer. The client
    retries requests whose answers are lost, or have the status 408, 429 or 503; the
    server executes them once. A client is for one thread.

    Args:
        remote_base: The server's address; ``http://:TOKEN@host:5000`` holds a token.
        token: The server's token; else the one in the address, else the one in
            the environment variable ``GHS_TOKEN``. An empty one means none.
        timeout: Seconds that each try of a request waits for the server to accept the
            connection, and then for each part of the answer; None for no limit.
        retries: How and for how long requests are retried.
    """

    def __init__(
        self,
        remote_base: str = "http://127.0.0.1:5000",
        *,
        token: str | None = None,
        timeout: float | None = 60.0,
        retries: Retries | None = None,
    ) -> None:
        self._requests = JsonRequests(
            remote_base, token=token, timeout=timeout, retries=retries
        )
        self._actions = ActionNumbers()

    def __repr__(self) -> str:
        return f"Client({self.remote_base!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def remote_base(self) -> str:
        """The server's address, without the token."""
        return self._requests.base

    @property
    def session(self) -> requests.Session:
        """The ``requests`` session, which sends all requests after its first use.

        Before this attribute is read for the first time, a socket sends them, which is
        faster.
        """
        return self._requests.session

    def close(self) -> None:
        """Close the connection; instances stay open."""
        self._requests.close()

    def server_info(self) -> dict[str, Any]:
        """Return the server's versions, capabilities, limits and count of instances."""
        return dict(self._requests.get("/v1/"))

    def healthy(self) -> bool:
        """Send one request, and return whether the server answered it."""
        try:
            self._requests.send("GET", "/healthz", once=True)
        except ServerError:
            return False
        return True

    def registry(
        self, search: str | None = None, available: bool | None = None
    ) -> list[dict[str, Any]]:
        """List the environments in the server's registry.

        Args:
            search: List only environments with this text in their name.
            available: List only environments that can (or cannot) be created.
        """
        query = {}
        if search is not None:
            query["search"] = search
        if available is not None:
            query["available"] = "true" if available else "false"
        return list(self._requests.get("/v1/registry/", query)["envs"])

    def upload(
        self,
        training_dir: str,
        algorithm_id: str | None = None,
        api_key: str | None = None,
    ) -> None:
        """Raise ServerError: the scoreboard for results does not exist any more.

        This method is for old agents. Its default key is the environment variable
        ``OPENAI_GYM_API_KEY``, as they expect.
        """
        body = {
            "training_dir": training_dir,
            "algorithm_id": algorithm_id,
            "api_key": api_key or os.environ.get("OPENAI_GYM_API_KEY"),
        }
        self._requests.post("/v1/upload/", body)

    def shutdown_server(self) -> None:
        """Stop the server, if it was started with permission for this request."""
        self._requests.send("POST", "/v1/shutdown/")
