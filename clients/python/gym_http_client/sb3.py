"""`RemoteVecEnv`: a remote vector as Stable-Baselines3's ``VecEnv``.

Needs Stable-Baselines3: ``pip install 'gymnasium-http-client[sb3]'``.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from gym_http_client.envs.remote_vector_env import RemoteVectorEnv
from gym_http_client.envs.server import Server
from gym_http_client.envs.vec_env import Indices, VecEnvCore

try:
    from stable_baselines3.common.vec_env import VecEnv
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "gym_http_client.sb3 needs Stable-Baselines3: "
        "pip install 'gymnasium-http-client[sb3]', or stable-baselines3",
        name=error.name,
    ) from error

__all__ = ["RemoteVecEnv"]


class RemoteVecEnv(VecEnv):  # type: ignore[misc]
    """Environments on a server, with the interface of SB3's ``VecEnv``.

    One request steps all environments. It works with SB3's wrappers, such as
    ``VecMonitor`` and ``VecNormalize``::

        env = RemoteVecEnv("http://127.0.0.1:5000", "CartPole-v1", num_envs=16)
        PPO("MlpPolicy", env).learn(100_000)

    Args:
        server: URL of the server, or a `Server` with a token.
        env_id: ID of the environments, such as ``"CartPole-v1"``.
        num_envs: Number of environments.
        **options: As for `RemoteVectorEnv`: ``hosts``, ``render_mode``, ``wrappers``,
            ``max_episode_steps`` and others, and arguments of the environments.

    Attributes:
        env: The `RemoteVectorEnv`.
        spec: Its spec, for wrappers such as ``VecMonitor``.

    Raises:
        TypeError: ``vectorization_mode`` or ``autoreset_mode`` was given. They are
            ``"sync"`` and ``"same_step"``, as SB3 expects.
        Exception: As `RemoteVectorEnv`.
    """

    def __init__(
        self, server: str | Server, env_id: str, num_envs: int = 1, **options: Any
    ) -> None:
        for name in ("vectorization_mode", "autoreset_mode"):
            if name in options:
                raise TypeError(
                    f"RemoteVecEnv got {name}: SB3 needs vectorization_mode='sync' and "
                    "autoreset_mode='same_step', which it sets itself"
                )
        self._wrappers = options.get("wrappers") or []
        self.env = RemoteVectorEnv(
            server,
            env_id,
            num_envs=num_envs,
            vectorization_mode="sync",
            autoreset_mode="same_step",
            **options,
        )
        self._core = VecEnvCore(self.env)
        super().__init__(
            num_envs, self.env.single_observation_space, self.env.single_action_space
        )
        # Where VecMonitor looks for the ID that it writes into its file.
        self.spec = self.env.spec

    def reset(self) -> Any:
        """Reset all environments, with the values of `seed` and `set_options`.

        Returns:
            Observations.
        """
        observations = self._core.reset(self._seeds, self._options)
        self.reset_infos = self._core.reset_infos
        self._reset_seeds()
        self._reset_options()
        return observations

    def step_async(self, actions: npt.NDArray[Any]) -> None:
        """Send an action to each environment."""
        self._core.step_async(actions)

    def step_wait(self) -> Any:
        """Wait for the results.

        Returns:
            Observations, rewards (float32), dones and infos.
        """
        return self._core.step_wait()

    def close(self) -> None:
        """Close the environments and end their instance."""
        self.env.close()

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """Get an attribute of some environments."""
        return self._core.get_attr(attr_name, indices)

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Set an attribute of some environments."""
        self._core.set_attr(attr_name, value, indices)

    def env_method(
        self, method_name: str, *args: Any, indices: Indices = None, **kwargs: Any
    ) -> list[Any]:
        """Call a method of some environments."""
        return self._core.env_method(method_name, *args, indices=indices, **kwargs)

    def env_is_wrapped(
        self,
        wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]],
        indices: Indices = None,
    ) -> list[bool]:
        """Return whether the environments have a wrapper that ``wrappers`` named."""
        names = [w if isinstance(w, str) else w["name"] for w in self._wrappers]
        is_wrapped = (
            wrapper_class.__module__.startswith("gymnasium.")
            and wrapper_class.__name__ in names
        )
        return [is_wrapped] * self._core.count(indices)

    def get_images(self) -> list[npt.NDArray[np.uint8] | None]:
        """Render each environment, as RGB arrays, or ``None`` without ``rgb_array``."""
        if self.render_mode != "rgb_array":
            return [None] * self.num_envs
        return list(self._core.images())
