"""Branches: lists of actions that are played from the present state of an instance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gym_http_client.envs.remote import Remote
from gym_http_client.errors import ServerError

__all__ = ["Branching"]


class Branching(Remote):
    """A remote instance of which branches can be played: no vector."""

    def branches(
        self,
        actions: Sequence[Sequence[Any]] | None = None,
        *,
        count: int | None = None,
        steps: int | None = None,
        seed: int | None = None,
        reseed: bool = False,
        observations: bool = False,
    ) -> list[dict[str, Any]]:
        """Play lists of actions from the present state, which stays as it is.

        Each list is played in a copy of the environment, until the episode ends.

        Args:
            actions: Up to 256 lists, of up to 10,000 actions together.
            count: Number of branches with random actions, instead of ``actions``.
            steps: Steps of each of those.
            seed: Seed of the random actions, and of the generators with ``reseed``.
            reseed: Whether the environment's generator has another state in each
                branch. Else what is random in the environment is the same in all.
            observations: Whether to return the observations of all steps.

        Returns:
            For each branch ``observation``, ``terminated``, ``truncated`` and ``info``
            of its last step; ``rewards`` and ``steps``; ``stopped``, which is
            ``"episode"`` if the episode ended, else None; ``actions`` if they are
            random. If it failed, ``error`` has ``code``, ``message`` and ``status``.

        Raises:
            gymnasium.error.InvalidAction: An action is not in the action space. The
                ``body`` of its cause has ``branch`` and ``index``.
            TypeError: There are neither lists of actions, nor ``count`` and ``steps``.
            ServerError: The environment cannot be copied (``cannot-branch``), or the
                server is too old.
        """
        _check_plan(actions, count, steps)
        if "branches" not in self._open_handle().capabilities():
            raise ServerError(
                "this server has no branches: expected a newer one, over HTTP",
                code="unsupported",
            )
        given = {
            "branches": actions,
            "count": count,
            "steps": steps,
            "seed": seed,
            "reseed": reseed,
            "observations": observations,
        }
        sent = {name: value for name, value in given.items() if value is not None}
        return list(self._request("POST", "rollout/", sent)["branches"])


def _check_plan(
    actions: Sequence[Sequence[Any]] | None, count: int | None, steps: int | None
) -> None:
    """Check that there is something to play, by the names that it has here.

    Raises:
        TypeError: There is not.
    """
    drawn = {"count": count, "steps": steps}
    given = [name for name, value in drawn.items() if value is not None]
    if given != ([] if actions is not None else [*drawn]):
        all_given = (["actions"] if actions is not None else []) + given
        raise TypeError(
            f"branches got {' and '.join(all_given) or 'nothing to play'}: expected "
            "actions, a list of actions for each branch; or count and steps, for "
            "random ones"
        )
    for index, each in enumerate(() if actions is None else actions):
        if not isinstance(each, list | tuple | np.ndarray) or not len(each):
            raise TypeError(
                f"actions[{index}] is {each!r:.80}: expected the list of actions of "
                "one branch, such as [0, 1]"
            )
