"""Environments of EnvPool: vectors that step in C++ threads of one process.

EnvPool differs from Gymnasium's vectors in spaces, infos, resets and seeds.
`PoolVectorEnv` has Gymnasium's interface.

EnvPool itself is imported late, since that takes a second, and it is an extra.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import secrets
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from gym_http_server.errors import did_you_mean
from gym_http_server.host.create_request import POOLS
from gym_http_wire.problems import BadParameter, InvalidAction, UnsupportedSpace

__all__ = ["PoolEnv", "PoolVectorEnv", "pool_rows", "pool_spec"]

#: EnvPool's integers have 32 bits.
_MOST = 2**31 - 1
# Arguments of EnvPool's that would contradict other members of the request.
_ELSEWHERE = {
    "batch_size": "every step is one of all environments",
    "env_seed": "seed is beside kwargs, or in a reset",
    "gym_reset_return_info": "resets return infos",
    "seed": "seed is beside kwargs, or in a reset",
}
_PLAYERS = (
    "has several players, whose rewards and observations are no batch with one item "
    "for each environment, as Gymnasium's vectors have it"
)


def pool_spec(env_id: str, seed: int | None, max_episode_steps: int | None) -> EnvSpec:
    """Return the spec of which ``gymnasium.make`` and ``make_vec`` make environments.

    Args:
        env_id: ``envpool/`` and an ID that EnvPool lists.
        seed: Seed of the first reset.
        max_episode_steps: Length of an episode; -1 for no limit, ``None`` for that of
            the environment.

    Raises:
        DependencyNotInstalled: EnvPool is not installed.
        NameNotFound: EnvPool does not list the ID.
    """
    if not _is_installed():
        raise gymnasium.error.DependencyNotInstalled(
            "EnvPool is not installed, run "
            "`pip install 'gymnasium-http-server[envpool]'`"
        )
    name = env_id.removeprefix(POOLS)
    known = importlib.import_module("envpool").list_all_envs()
    if name not in known:
        hint = did_you_mean(name, known, POOLS.__add__)
        raise gymnasium.error.NameNotFound(
            f"EnvPool has no environment {name!r}{hint or '; the registry lists all'}"
        )
    found = _Listed(name)
    steps = found.max_episode_steps
    if max_episode_steps is not None:
        steps = None if max_episode_steps < 0 else min(max_episode_steps, _MOST)
    given: dict[str, Any] = {"task_id": name, "first_seed": seed}
    given["max_episode_steps"] = steps or _MOST
    return EnvSpec(
        # Gymnasium's IDs have one slash at most.
        POOLS + name.replace("/", ":"),
        entry_point=functools.partial(PoolEnv, **given),
        vector_entry_point=functools.partial(PoolVectorEnv, **given),
        max_episode_steps=steps,
        reward_threshold=found.reward_threshold,
        # Its warnings are for authors.
        disable_env_checker=True,
    )


def _is_installed() -> bool:
    return importlib.util.find_spec("envpool") is not None


def pool_rows(on_load: Callable[[str], None]) -> list[dict[str, Any]]:
    """Return a row of the registry for each environment of EnvPool, if it is installed.

    Args:
        on_load: Called with each name before its import.
    """
    if not _is_installed():
        return []
    on_load("envpool")
    names: list[str] = importlib.import_module("envpool").list_all_envs()
    rows = []
    for name in names:
        steps, reason = None, None
        try:
            found = _Listed(name)
            steps, reason = found.max_episode_steps, found.reason
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"[:500]
        rows.append(
            {
                "available": reason is None,
                "entry_point": "envpool:make_gymnasium",
                "env_id": POOLS + name,
                "max_episode_steps": steps,
                "reason": reason,
            }
        )
    return rows


class _Listed:
    """The defaults of an environment that EnvPool lists, without making its spec.

    That takes some milliseconds, and there are more than a thousand.

    Raises:
        ImportError: A system library is missing.
    """

    def __init__(self, name: str) -> None:
        registry = importlib.import_module("envpool.registration").registry
        module, kind, kwargs = registry.specs[name]
        config = getattr(importlib.import_module(module), kind).gen_config
        self._defaults = {**config._field_defaults, **kwargs}

    @property
    def max_episode_steps(self) -> int | None:
        steps = self._defaults.get("max_episode_steps", _MOST)
        return None if steps == _MOST else int(steps)

    @property
    def reward_threshold(self) -> float | None:
        return self._defaults.get("reward_threshold")

    @property
    def reason(self) -> str | None:
        return _PLAYERS if self._defaults.get("max_num_players", 1) > 1 else None


class PoolVectorEnv(VectorEnv[Any, Any, Any]):
    """A pool of EnvPool, with the interface of Gymnasium's vectors.

    - It resets an environment in the step after the end of its episode.
    - Spaces are those of the batch, and bounds that EnvPool mistakes are corrected.
    - Infos have Gymnasium's masks: under ``_key`` the environments that have ``key``.
    - EnvPool takes seeds when it makes a pool. So a reset with another seed makes a new
      one. Without any seed, one is drawn, instead of EnvPool's 42.
    - Actions that EnvPool's code would not survive are refused.

    Args:
        task_id: ID of EnvPool.
        num_envs: Number of environments.
        first_seed: Seed of the first environment until a reset has another; the next
            ones get the following integers.
        max_episode_steps: Length of an episode.
        render_mode: ``"rgb_array"`` or ``None``.
        **config: Further arguments of ``envpool.make_gymnasium``, as ``num_threads``.

    Raises:
        BadParameter: An argument contradicts another member of the request.
        UnsupportedSpace: The environment has several players.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - as Gymnasium declares it
        "render_modes": ["rgb_array"],
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        task_id: str,
        num_envs: int = 1,
        *,
        first_seed: int | None = None,
        max_episode_steps: int = _MOST,
        render_mode: str | None = None,
        **config: Any,
    ) -> None:
        for name, reason in _ELSEWHERE.items():
            if name in config:
                raise BadParameter(
                    f"kwargs has {name!r}: expected none, since {reason}"
                )
        threads = config.get("num_threads", 0)
        if type(threads) is not int or not 0 <= threads <= num_envs:
            raise BadParameter(
                f"num_threads in kwargs is {threads!r:.80}: expected an integer from 0 "
                f"to {num_envs} (num_envs), where 0 lets EnvPool choose"
            )
        self.num_envs = num_envs
        self.render_mode = render_mode
        config |= {"num_envs": num_envs, "max_episode_steps": max_episode_steps}
        if render_mode is not None:
            config["render_mode"] = render_mode
        make = importlib.import_module("envpool").make_gymnasium
        self._make = functools.partial(make, task_id, **config)
        self._seed = self._checked_seed(first_seed)
        # ``None`` while a new one could not be made.
        self._pool: Any = self._make(seed=self._seed)
        self._began = False
        self._observations: Any = None
        self._check_players(task_id)
        with warnings.catch_warnings():
            # EnvPool gives the bounds as float64, of which Gymnasium warns.
            warnings.simplefilter("ignore")
            self.single_observation_space = _corrected(self._pool.observation_space)
            self.single_action_space = self._pool.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._is_action = _action_check(self.single_action_space, num_envs)
        self._all = np.ones(num_envs, np.bool_)
        self._all.flags.writeable = False

    def _check_players(self, task_id: str) -> None:
        single = len(self._pool.spec.action_array_spec) == 3
        if self._pool.config.get("max_num_players", 1) > 1 or not single:
            raise UnsupportedSpace(f"{POOLS}{task_id} {_PLAYERS}")

    def _checked_seed(self, seed: Any) -> int | list[int]:
        """Return a seed for EnvPool: an integer, or a list of one for each.

        Raises:
            BadParameter: There is no such seed.
        """
        if seed is None:
            return secrets.randbelow(_MOST - self.num_envs + 1)
        if isinstance(seed, int | np.integer):
            if 0 <= seed <= _MOST - self.num_envs + 1:
                return int(seed)
        elif len(seed) == self.num_envs and all(
            isinstance(each, int | np.integer) and 0 <= each <= _MOST for each in seed
        ):
            return [int(each) for each in seed]
        raise BadParameter(
            f"seed is {seed!r:.80}: expected for EnvPool an integer from 0 to "
            f"{_MOST - self.num_envs + 1}, or a list of {self.num_envs} from 0 to "
            f"{_MOST}"
        )

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all environments, or those that ``reset_mask`` in the options names.

        Args:
            seed: An integer or a list, which makes a new pool; ``None`` does not.
            options: ``reset_mask``, bool (num_envs,); EnvPool has no others.

        Raises:
            BadParameter: An option or seed is none that EnvPool has.
        """
        mask = self._checked_mask(seed, options)
        if mask is not None:
            return self._reset_some(mask)
        if seed is not None:
            seed = self._checked_seed(seed)
        if self._pool is None or (
            seed is not None and (self._began or seed != self._seed)
        ):
            # Two of them may need too much memory.
            self._pool, self._began = None, False
            self._seed = self._checked_seed(None) if seed is None else seed
            self._pool = self._make(seed=self._seed)
        self._observations, info = self._pool.reset()
        self._began = True
        return self._observations, self._masked(info)

    def _checked_mask(self, seed: Any, options: dict[str, Any] | None) -> Any:
        others = sorted(set(options or {}) - {"reset_mask"})
        if others:
            raise BadParameter(
                f"options has {others}: expected reset_mask alone, since EnvPool's "
                "resets take no other options"
            )
        if not options:
            return None
        # It is removed, as Gymnasium does.
        mask = np.asarray(options.pop("reset_mask"))
        if mask.shape != (self.num_envs,) or mask.dtype != np.bool_ or not mask.any():
            raise BadParameter(
                f"reset_mask in options is {mask.tolist()!r:.80}: expected "
                f"{self.num_envs} flags, at least one of them true"
            )
        if seed is not None:
            raise BadParameter(
                f"seed is {seed!r:.80} with a reset_mask: expected null, since EnvPool "
                "seeds all environments together"
            )
        self._check_began()
        return mask

    def _check_began(self) -> None:
        if not self._began:
            raise gymnasium.error.ResetNeeded(
                "Cannot step EnvPool's environments before all of them were reset"
            )

    def _reset_some(self, mask: Any) -> tuple[Any, dict[str, Any]]:
        numbers = np.flatnonzero(mask)
        # EnvPool returns those alone.
        some, info = self._pool.reset(numbers.astype(np.int32))
        self._observations = _replaced(self._observations, some, numbers)
        return self._observations, self._masked(_spread(info, numbers, mask), mask)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all environments; those whose episodes have ended begin new ones.

        Raises:
            InvalidAction: The actions have another shape or dtype, or one is no action.
        """
        self._check_began()
        result = self._pool.step(self._is_action(actions))
        self._observations, rewards, terminations, truncations, info = result
        return (
            self._observations,
            rewards,
            terminations,
            truncations,
            self._masked(info),
        )

    def _masked(self, info: dict[str, Any], mask: Any = None) -> dict[str, Any]:
        """Return an info with a mask after each key."""
        mask = self._all if mask is None else mask
        masked: dict[str, Any] = {}
        for name, value in info.items():
            if isinstance(value, dict):
                value = self._masked(value, mask)
            masked[name] = value
            masked[f"_{name}"] = mask
        return masked

    def render(self) -> tuple[Any, ...]:
        """Return the frame of each environment."""
        self._check_began()
        return tuple(self._pool.render(env_ids=np.arange(self.num_envs)))

    @property  # type: ignore[misc]
    def np_random(self) -> Any:
        """EnvPool's generators are in C++, and cannot be read."""
        raise AttributeError(
            "EnvPool's random generators are in C++: seed them in a reset"
        )

    @property
    def np_random_seed(self) -> Any:
        """The seed of each environment, a tuple."""
        if isinstance(self._seed, list):
            return tuple(self._seed)
        return tuple(range(self._seed, self._seed + self.num_envs))

    def close_extras(self, **kwargs: Any) -> None:
        """End the threads, and drop the environments."""
        self._pool, self._began = None, False


class PoolEnv(gymnasium.Env[Any, Any]):
    """A single environment of EnvPool: a vector of one.

    It takes the arguments of `PoolVectorEnv`, except for ``num_envs``.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, task_id: str, **arguments: Any) -> None:
        self._vector = PoolVectorEnv(task_id, 1, **arguments)
        self.observation_space = self._vector.single_observation_space
        self.action_space = self._vector.single_action_space
        self.render_mode = self._vector.render_mode
        self._ended = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; a seed makes a new environment."""
        if options:
            raise BadParameter(
                f"options has {sorted(options)}: expected null, since EnvPool's resets "
                "take no options"
            )
        observations, info = self._vector.reset(seed=seed)
        self._ended = False
        return _first(observations), _first_info(info)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take an action.

        Raises:
            ResetNeeded: The episode has ended; EnvPool would begin another.
            InvalidAction: It is no action.
        """
        if self._ended:
            raise gymnasium.error.ResetNeeded(
                "the episode has ended, and EnvPool would begin another in this step"
            )
        observations, rewards, terminations, truncations, info = self._vector.step(
            np.expand_dims(action, 0)
        )
        terminated, truncated = bool(terminations[0]), bool(truncations[0])
        self._ended = terminated or truncated
        return (
            _first(observations),
            float(rewards[0]),
            terminated,
            truncated,
            _first_info(info),
        )

    def render(self) -> Any:
        """Return the frame."""
        return self._vector.render()[0]

    @property  # type: ignore[misc]
    def np_random(self) -> Any:
        """EnvPool's generators are in C++, and cannot be read."""
        return self._vector.np_random

    @property
    def np_random_seed(self) -> int:
        """The seed."""
        return int(self._vector.np_random_seed[0])

    def close(self) -> None:
        """End the thread, and drop the environment."""
        self._vector.close()


def _corrected(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Return a space whose bounds are those that EnvPool meant.

    Its C++ code takes the least positive float for the least one, so that observations
    would not be in their space.
    """
    if isinstance(space, spaces.Dict):
        return spaces.Dict({name: _corrected(each) for name, each in space.items()})
    if not isinstance(space, spaces.Box) or space.dtype.kind != "f":
        return space
    limits = np.finfo(space.dtype)
    low = np.where(space.low == limits.tiny, limits.min, space.low)
    return spaces.Box(low, space.high, dtype=space.dtype.type)


def _action_check(space: spaces.Space[Any], num_envs: int) -> Callable[[Any], Any]:
    """Return a function that returns actions as an array, or refuses them.

    EnvPool checks little: it aborts the process if an action is missing, rounds floats,
    and reads beyond its arrays for an integer that is no action.
    """
    shape: tuple[int, ...] = (num_envs, *(space.shape or ()))
    dtype = np.dtype(space.dtype)
    low: Any = None
    high: Any = None
    if isinstance(space, spaces.Discrete):
        low, high = int(space.start), int(space.start + space.n - 1)
    elif isinstance(space, spaces.Box) and dtype.kind in "iu":
        low, high = space.low, space.high

    def checked(actions: Any) -> Any:
        try:
            given = np.asarray(actions)
        except ValueError:
            raise InvalidAction(
                f"the actions {actions!r:.80} are no array: expected one of shape "
                f"{shape} and dtype {dtype}"
            ) from None
        if given.shape != shape or not np.can_cast(given.dtype, dtype, "same_kind"):
            raise InvalidAction(
                f"the actions are of shape {given.shape} and dtype {given.dtype}: "
                f"expected {shape} and {dtype}, one for each environment"
            )
        if low is not None and ((given < low) | (given > high)).any():
            raise InvalidAction(
                f"the actions {given.tolist()!r:.80} are not all in {space}"
            )
        return given

    return checked


def _replaced(old: Any, new: Any, numbers: Any) -> Any:
    """Return a copy of a batch of observations with some of them replaced."""
    if isinstance(old, dict):
        return {name: _replaced(old[name], new[name], numbers) for name in old}
    whole = old.copy()
    whole[numbers] = new
    return whole


def _spread(info: dict[str, Any], numbers: Any, mask: Any) -> dict[str, Any]:
    """Return an info of some environments as one of all, with zeros for the others."""
    whole: dict[str, Any] = {}
    for name, value in info.items():
        if isinstance(value, dict):
            whole[name] = _spread(value, numbers, mask)
        else:
            whole[name] = np.zeros((len(mask), *value.shape[1:]), value.dtype)
            whole[name][numbers] = value
    return whole


def _first(batch: Any) -> Any:
    """Return the first element of a batch of observations."""
    if isinstance(batch, dict):
        return {name: _first(each) for name, each in batch.items()}
    return batch[0]


def _first_info(info: dict[str, Any]) -> dict[str, Any]:
    """Return the info of the first environment, which has no masks."""
    return {
        name: _first_info(value) if isinstance(value, dict) else value[0]
        for name, value in info.items()
        if f"_{name}" in info
    }
