"""Batches: the calls that take many steps, or step many instances, in one request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gym_http_client.connection import Connection
from gym_http_client.instances import given, instance_route

__all__ = ["BatchCalls"]


class BatchCalls:
    """The part of ``Client`` that concerns more than one step."""

    _connection: Connection

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
        return dict(self._connection.post(route, {"actions": _listed(actions)}))

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
            actions: The actions of each episode; drawn at random if there are none.
            seed: Seed of the first reset, and of the actions if they are drawn.
            options: Options of each reset.
            max_steps: Steps after which an episode is over.

        Returns:
            ``episodes``, each with columns as of ``step_many``, its ``actions``, its
            ``return`` and its ``length``; its ``observations`` and ``infos`` begin with
            those of the reset. ``steps`` is the number of all steps, and ``stopped``
            tells why there are no more: None if all is done that was asked for.

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
        return dict(
            self._connection.post(instance_route(instance_id, "rollout/"), body)
        )

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
            first: How many steps to wait for; all, if that is not told.
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
        return dict(self._connection.post("/v1/batch/step/", body))


def _listed(actions: Sequence[Any]) -> Any:
    # Arrays become lists where the request is written.
    return actions if hasattr(actions, "tolist") else list(actions)
