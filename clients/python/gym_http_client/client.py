"""Client: calls of a server over HTTP, with plain JSON values.

Values are plain JSON values both ways: an observation is a number or nested lists
and not an array. Actions and values may be NumPy arrays and scalars, though.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import requests

from gym_http_client.errors import ServerError
from gym_http_client.instance_calls import InstanceCalls, given, instance_route
from gym_http_client.json_requests import JsonRequests
from gym_http_client.retries import Retries

__all__ = ["BatchCalls", "Client", "SpaceCalls"]

_NOT_GIVEN: Any = object()


class SpaceCalls:
    """The part of ``Client`` that concerns spaces."""

    _requests: JsonRequests

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
            mask: As for the ``sample`` of Gymnasium's spaces.
        """
        return self._sample(instance_id, "action_space", seed, mask)["action"]

    def env_observation_space_sample(
        self, instance_id: str, *, seed: int | None = None, mask: Any = None
    ) -> Any:
        """Return a random observation; arguments as for ``env_action_space_sample``."""
        return self._sample(instance_id, "observation_space", seed, mask)["observation"]

    def env_action_space_contains(self, instance_id: str, x: Any) -> bool:
        """Return whether a value is an action; any value may be tested."""
        return self._contains(instance_id, "action_space", {"value": x})

    def env_observation_space_contains(
        self, instance_id: str, params: Any = None, *, value: Any = _NOT_GIVEN
    ) -> bool:
        """Return whether a value is an observation, or a description is the space's.

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
        answer = self._requests.get(instance_route(instance_id, f"{space}/"))
        return dict(answer[how])

    def _sample(self, instance_id: str, space: str, seed: int | None, mask: Any) -> Any:
        route = instance_route(instance_id, f"{space}/sample")
        return self._requests.post(route, given(seed=seed, mask=mask))

    def _contains(self, instance_id: str, space: str, body: dict[str, Any]) -> bool:
        route = instance_route(instance_id, f"{space}/contains")
        return bool(self._requests.post(route, body)["member"])


class BatchCalls:
    """The part of ``Client`` that concerns more than one step."""

    _requests: JsonRequests

    def step_many(self, instance_id: str, actions: Sequence[Any]) -> dict[str, Any]:
        """Take one step after the other, until the episode ends.

        Returns:
            The columns ``observations``, ``rewards``, ``terminated``, ``truncated``,
            ``done`` and ``infos``, each a list with an item for each step; ``steps``,
            how many were taken; and ``stopped``, why no more were: None if all were,
            ``"episode"``, ``"time"`` or ``"answer-size"``.

        Raises:
            ServerError: One of the actions can be none, and no step was taken; or a
                step failed, and the error's ``body`` has the ``steps`` before and
                their columns as ``results``.
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
        """Play whole episodes, each from its reset on.

        Args:
            instance_id: The instance.
            episodes: How many; one, or as many as there are lists of actions.
            actions: The actions of each episode; drawn at random without them.
            seed: Seed of the first reset, and of the actions if they are drawn.
            options: Options of each reset.
            max_steps: Steps after which an episode is over.

        Returns:
            ``episodes``, each with columns as of ``step_many``, its ``actions``, its
            ``return`` and its ``length``; its ``observations`` and ``infos`` begin with
            those of the reset. ``steps`` is the number of all steps, and ``stopped``
            is the reason for which there are no more: None if all were played.

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
        """Take a step in each of many instances, all at the same time.

        Args:
            actions: The action for each instance, by instance ID.
            first: How many steps to wait for; all by default.
            keys: For instances that were pending, the keys of their steps, whose
                actions have to be the same again.

        Returns:
            ``results``, in the order of the actions: each has ``instance_id``, ``key``,
            ``status``, ``replayed``, and an ``answer`` or a ``problem``. ``pending``
            has ``instance_id`` and ``key`` of each step whose answer is not there yet.
        """
        keys = keys or {}
        steps = [
            {"instance_id": each, "action": action, **given(key=keys.get(each))}
            for each, action in actions.items()
        ]
        body = {"steps": steps, **given(first=first)}
        return dict(self._requests.post("/v1/batch/step/", body))


def _listed(actions: Sequence[Any]) -> Any:
    # Arrays become lists where the request is written.
    return actions if hasattr(actions, "tolist") else list(actions)


class Client(InstanceCalls, BatchCalls, SpaceCalls):
    """Uses the environments of one gym_http_server.

    Its methods are requests. Each raises ``ServerError`` when the server refuses,
    and ``ServerUnreachable``, which is one too, when there is no answer. Requests
    whose answers are lost, or are one of 408, 429 and 503, are sent again for a
    while; the server executes them once. A client serves one thread: give each its
    own.

    Args:
        remote_base: The server's address; ``http://:TOKEN@host:5000`` holds a token.
        token: The server's token; else the one in the address, else the one in
            the environment variable ``GHS_TOKEN``. An empty one means none.
        timeout: Seconds that each try of a request waits for the server to accept the
            connection, and then for each part of the answer; None to wait for ever.
        retries: How requests are sent again, and for how long.
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
        """The session of ``requests`` that carries the calls, from now on.

        Before it is read for the first time, a socket carries them, which takes less
        time.
        """
        return self._requests.session

    def close(self) -> None:
        """Close the connection; instances stay as they are."""
        self._requests.close()

    def server_info(self) -> dict[str, Any]:
        """Return the server's versions, capabilities, limits and count of instances."""
        return dict(self._requests.get("/v1/"))

    def healthy(self) -> bool:
        """Return whether a server answers now; this sends one request."""
        try:
            self._requests.send("GET", "/healthz", once=True)
        except ServerError:
            return False
        return True

    def registry(
        self, search: str | None = None, available: bool | None = None
    ) -> list[dict[str, Any]]:
        """List the environments that the server knows.

        Args:
            search: Only those with this text in their name.
            available: Only those that can, or cannot, be created there.
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
        """Upload results to a scoreboard that is gone: always raises ServerError.

        It is there for old agents, and takes the key, as they expect, from the
        environment variable ``OPENAI_GYM_API_KEY`` when there is none here.
        """
        body = {
            "training_dir": training_dir,
            "algorithm_id": algorithm_id,
            "api_key": api_key or os.environ.get("OPENAI_GYM_API_KEY"),
        }
        self._requests.post("/v1/upload/", body)

    def shutdown_server(self) -> None:
        """Stop the server, which must have been started with leave for it."""
        self._requests.send("POST", "/v1/shutdown/")
