"""`VecEnvCore`: the logic of Stable-Baselines3's ``VecEnv``, without that package.

`gym_http_client.sb3.RemoteVecEnv` combines this logic with SB3's base class.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode

from gym_http_client.envs.remote import read_only
from gym_http_client.envs.remote_vector_env import RemoteVectorEnv
from gym_http_client.envs.vector_infos import split_infos

__all__ = ["Indices", "VecEnvCore"]

#: Selects environments of a vector: all of them, one, or some.
Indices = None | int | Iterable[int]

_FINAL = frozenset({"final_info", "_final_info", "final_obs", "_final_obs"})


class VecEnvCore:
    """A remote vector with the return values of SB3's ``DummyVecEnv``.

    Args:
        env: A remote vector with ``autoreset_mode="same_step"``.

    Attributes:
        env: The vector.
        reset_infos: The info of each environment's last reset.

    Raises:
        ValueError: The vector has another autoreset mode.
    """

    def __init__(self, env: RemoteVectorEnv) -> None:
        mode = env.metadata.get("autoreset_mode")
        if mode not in (AutoresetMode.SAME_STEP, AutoresetMode.SAME_STEP.value):
            raise ValueError(f"autoreset_mode is {mode!r}: expected 'same_step'")
        self.env = env
        self.reset_infos: list[dict[str, Any]] = [{} for _ in range(env.num_envs)]

    def reset(
        self, seeds: Sequence[int | None], options: Sequence[dict[str, Any]]
    ) -> Any:
        """Reset all environments.

        Args:
            seeds: A seed for each, or ``None`` to continue its generator.
            options: Options for each; they have to be equal.

        Returns:
            Observations: an array, or a dict of arrays, with the environments along
            the first axis.

        Raises:
            ValueError: The options of two environments differ.
        """
        first = options[0]
        for index, each in enumerate(options):
            if each != first:
                raise ValueError(
                    f"options of environment {index} are {each!r:.80}, and of "
                    f"environment 0 {first!r:.80}: a remote vector takes the same "
                    "options for all"
                )
        observations, infos = self.env.reset(seed=list(seeds), options=first or None)
        self.reset_infos = split_infos(infos, self.env.num_envs)
        return observations

    def step_async(self, actions: npt.NDArray[Any]) -> None:
        """Send an action to each environment, without waiting for the results."""
        self.env.step_async(actions)

    def step_wait(
        self,
    ) -> tuple[Any, npt.NDArray[np.float32], npt.NDArray[np.bool_], list[Any]]:
        """Wait for the results of `step_async`.

        An environment whose episode ended has been reset: its observation is the first
        of the next episode, and its info has the last one as ``terminal_observation``.

        Returns:
            Observations; rewards, float32 (num_envs,); dones, bool (num_envs,); and an
            info for each environment, with ``TimeLimit.truncated``.
        """
        observations, rewards, terminated, truncated, given = self.env.step_wait()
        dones = terminated | truncated
        infos = [
            {"TimeLimit.truncated": cut} for cut in (truncated > terminated).tolist()
        ]
        if given:
            infos = self._with_infos(infos, given, dones)
        return observations, rewards.astype(np.float32), dones, infos

    def _with_infos(
        self, infos: list[dict[str, Any]], given: dict[str, Any], dones: Any
    ) -> list[dict[str, Any]]:
        """Add the infos of a step; for an ended episode, its last ones."""
        count = self.env.num_envs
        ended = dones.nonzero()[0].tolist()
        present = {name: each for name, each in given.items() if name not in _FINAL}
        if present:
            split = split_infos(present, count)
            for index in ended:
                self.reset_infos[index], split[index] = split[index], {}
            infos = [each | info for each, info in zip(split, infos, strict=True)]
        else:
            for index in ended:
                self.reset_infos[index] = {}
        final = given.get("final_info")
        lasts = split_infos(final, count) if final else None
        for index in ended:
            info = {"terminal_observation": given["final_obs"][index]} | infos[index]
            infos[index] = info if lasts is None else lasts[index] | info
        return infos

    def get_attr(self, name: str, indices: Indices = None) -> list[Any]:
        """Get an attribute of some environments or their wrappers.

        Arrays are read-only copies.
        """
        values: list[Any] = read_only(self.env_method(name, indices=indices))
        return values

    def set_attr(self, name: str, value: Any, indices: Indices = None) -> None:
        """Set an attribute of some environments, in the wrapper that has it."""
        self.env_method("set_wrapper_attr", name, value, indices=indices)

    def env_method(
        self, name: str, *args: Any, indices: Indices = None, **kwargs: Any
    ) -> list[Any]:
        """Call a method of some environments.

        Returns:
            The results, in the order of the indices.
        """
        chosen = self._chosen(indices)
        return list(self.env.call_some(chosen, name, *args, **kwargs)) if chosen else []

    def count(self, indices: Indices) -> int:
        """Return the number of environments that the indices select."""
        return len(self._chosen(indices))

    def images(self) -> list[npt.NDArray[np.uint8]]:
        """Render each environment."""
        return list(self.env.render())

    def _chosen(self, indices: Indices) -> list[int]:
        if indices is None:
            return list(range(self.env.num_envs))
        if isinstance(indices, int):
            return [indices]
        return [int(index) for index in indices]
