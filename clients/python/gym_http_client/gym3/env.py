"""`Gym3Env`: a vector of environments with gym3's interface."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv

from gym_http_client.envs.vector_infos import split_infos, split_observations
from gym_http_client.gym3.agents_vector import AgentsVectorEnv
from gym_http_client.gym3.types import Env, types_of

__all__ = ["Gym3Env"]

# Methods with one argument, a name. They change nothing, so each can be called for all
# environments with the same name.
_READS = frozenset({"get_wrapper_attr", "has_wrapper_attr"})

Observed = tuple[npt.NDArray[np.float32], Any, npt.NDArray[np.bool_]]


class Gym3Env(Env):
    """A vector of environments with gym3's interface: `observe` and `act`.

    There is no reset: after an episode's end, the next one begins. The vector's
    autoreset mode determines how:

    - ``SAME_STEP`` is gym3's own way: an act that ends an episode begins the next one.
      The last observation of an episode is in its info only, as ``final_obs``.
    - ``DISABLED``: the same. This class resets ended environments at once, with one
      more request. ``final_obs`` and ``final_info`` are as in ``SAME_STEP``.
    - ``NEXT_STEP`` returns the last observation, with ``first`` false. The next act is
      ignored and begins the next episode, with the reward 0.

    ``terminated`` and ``truncated``, which gym3 does not have, are in the infos.

    Args:
        env: A `RemoteVectorEnv`, or any other vector; or a world with several agents,
            with PettingZoo's interface, of which each agent is an environment. From now
            on, use it only through this object.
        seed: Seed of its first reset: an integer, or a list with one for each
            environment.
        options: Options of each reset.

    Attributes:
        env: The vector.
        num: Number of environments.
        ob_space: gym3's type of the observations.
        ac_space: gym3's type of the actions.

    Raises:
        TypeError: ``env`` is not a vector, or gym3 has no type for one of its spaces.
        ValueError: The vector's metadata has no autoreset mode.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any] | Any,
        *,
        seed: Any = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        if hasattr(env, "possible_agents"):
            env = AgentsVectorEnv(env)
        observed, acted = types_of(env)
        super().__init__(ob_space=observed, ac_space=acted, num=env.num_envs)
        try:
            self._mode = AutoresetMode(env.metadata.get("autoreset_mode"))
        except ValueError:
            raise ValueError(
                f"{env} has no autoreset_mode in its metadata: expected one of "
                f"{[each.value for each in AutoresetMode]}"
            ) from None
        self.env: Any = env
        self._options = options
        # Not all vectors can step asynchronously, or take many steps at a time.
        self._sends = hasattr(env, "step_async") and hasattr(env, "step_wait")
        self._queue: deque[Any] = deque()
        self._sent = False
        self._error: Exception | None = None
        observation, infos = self.env.reset(seed=seed, options=_copied(options))
        nothing = np.zeros(self.num, np.bool_)
        reward = np.zeros(self.num, np.float32)
        self._observed: Observed = (reward, observation, ~nothing)
        self._infos = (infos, nothing, nothing)
        self._done = nothing
        # Of what was observed last, once they were rendered.
        self._pictures: Sequence[Any] | None = None

    def observe(self) -> Observed:
        """Return the results of the last act; repeated calls return the same.

        Returns:
            Rewards, float32 (num,); observations, in arrays with the environments along
            the first axis; and where an episode has just begun, bool (num,).

        Raises:
            Exception: An exception of an act since the last observation.
        """
        self._finish()
        return self._observed

    def get_info(self) -> list[dict[str, Any]]:
        """Return the info of each environment at the time of `observe`.

        If the environments render with ``"rgb_array"``, the picture is ``rgb``.

        Raises:
            Exception: As `observe`, or an exception of rendering.
        """
        self._finish()
        infos, terminated, truncated = self._infos
        infos_of_each = split_infos(infos, self.num)
        for index, info in enumerate(infos_of_each):
            info.setdefault("terminated", bool(terminated[index]))
            info.setdefault("truncated", bool(truncated[index]))
        for info, picture in zip(infos_of_each, self._rendered(), strict=False):
            info.setdefault("rgb", picture)
        return infos_of_each

    def _rendered(self) -> Sequence[Any]:
        """Return the picture of each environment; nothing if they render none."""
        if getattr(self.env, "render_mode", None) != "rgb_array":
            return ()
        if self._pictures is None:
            self._pictures = self.env.render()
        return self._pictures

    def act(self, ac: Any) -> None:
        """Take an action in each environment, without waiting for the results.

        Acts are executed in order. The next `observe` raises the exception of an act
        that fails; later acts are dropped.

        Args:
            ac: Actions, in arrays with the environments along the first axis.
        """
        self._queue.append(copy.deepcopy(ac))
        if self._sends and not self._sent:
            self._send()

    def callmethod(
        self, method: str, *args: Sequence[Any], **kwargs: Sequence[Any]
    ) -> list[Any]:
        """Call a method of each environment.

        Args:
            method: Name of the method.
            *args: For each argument, a list with its value for each environment.
            **kwargs: The same for keyword arguments.

        Returns:
            The result of each environment.

        Raises:
            ValueError: The length of a list is not the number of environments.
            NotImplementedError: Values differ, and the vector can only call all of its
                environments in the same way.
            Exception: As `observe`, or an exception of the method.
        """
        self._finish()
        for values in (*args, *kwargs.values()):
            if len(values) != self.num:
                raise ValueError(
                    f"an argument of {method} has {len(values)} values: expected "
                    f"{self.num}, one for each environment"
                )
        if hasattr(self.env, "call") and all(map(_are_same, (*args, *kwargs.values()))):
            same = [values[0] for values in args]
            named = {name: values[0] for name, values in kwargs.items()}
            return list(self.env.call(method, *same, **named))
        if method in _READS and hasattr(self.env, "call"):
            return self._read_each(method, *args, *kwargs.values())
        envs = getattr(self.env, "envs", None)
        if not isinstance(envs, list):
            raise NotImplementedError(
                f"{self.env} calls {method} in the same way for all environments: "
                "expected the same arguments for each"
            )
        return [
            each.get_wrapper_attr(method)(
                *(values[index] for values in args),
                **{name: values[index] for name, values in kwargs.items()},
            )
            for index, each in enumerate(envs)
        ]

    def _read_each(self, method: str, *args: Sequence[Any]) -> list[Any]:
        """Call a method without side effects once per name, and select the results."""
        rows = list(zip(*args, strict=True))
        values = {row: self.env.call(method, *row) for row in dict.fromkeys(rows)}
        return [values[row][index] for index, row in enumerate(rows)]

    def close(self) -> None:
        """Close the environments."""
        self._queue.clear()
        self.env.close()

    def _send(self) -> None:
        try:
            self.env.step_async(self._queue[0])
            self._sent = True
        except Exception as error:
            self._fail(error)

    def _finish(self) -> None:
        """Execute all pending acts.

        Raises:
            Exception: An exception of an act; raised once, since the state did not
                change.
        """
        while self._queue and self._error is None:
            if self._sends and not self._sent:
                self._send()
                continue
            try:
                self._take(self._waited())
                self._queue.popleft()
            except Exception as error:
                self._fail(error)
        failure, self._error = self._error, None
        if failure is not None:
            try:
                raise failure
            finally:
                # The traceback of the exception refers to this frame.
                del failure

    def _waited(self) -> Any:
        self._sent = False
        env = self.env
        return env.step_wait() if self._sends else env.step(self._queue[0])

    def _fail(self, error: Exception) -> None:
        self._error = error
        self._queue.clear()

    def _take(self, row: Any) -> None:
        observation, rewards, terminated, truncated, infos = row
        done = np.logical_or(terminated, truncated)
        first = done
        if self._mode is AutoresetMode.NEXT_STEP:
            first, self._done = self._done, done
        elif self._mode is AutoresetMode.DISABLED and done.any():
            observation, infos = self._begin_anew(done, observation, infos)
        reward = np.array(rewards, np.float32)
        self._observed = (reward, observation, np.array(first, np.bool_))
        self._infos = (infos, terminated, truncated)
        self._pictures = None

    def _begin_anew(self, done: Any, observation: Any, infos: Any) -> tuple[Any, Any]:
        options = {**(_copied(self._options) or {}), "reset_mask": done.copy()}
        last = split_observations(observation, self.num)
        observation, begun = self.env.reset(options=options)
        before, after = split_infos(infos, self.num), split_infos(begun, self.num)
        merged = []
        for index, ended in enumerate(done):
            final = {"final_obs": last[index], "final_info": before[index]}
            merged.append(after[index] | final if ended else before[index])
        return observation, merged


def _copied(options: dict[str, Any] | None) -> dict[str, Any] | None:
    # Vectors remove entries from it.
    return None if options is None else dict(options)


def _are_same(values: Sequence[Any]) -> bool:
    first = values[0]
    return all(
        value is first or (type(value) is type(first) and np.array_equal(value, first))
        for value in values
    )
