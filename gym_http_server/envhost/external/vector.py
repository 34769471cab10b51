"""A vector of environments elsewhere, all of which are asked at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import iterate

from gym_http_server.envhost.external.connections import ExternalConnections
from gym_http_server.envhost.external.run_concurrently import Outcome, run_concurrently
from gym_http_wire.messages import Op
from gym_http_wire.problems import ExternalAway, ResetNeeded
from gym_http_wire.values import binary

__all__ = ["ExternalVectorEnv"]

Env = gymnasium.Env[Any, Any]
Do = Callable[[], Any]


class ExternalVectorEnv(SyncVectorEnv[Any, Any]):
    """Does what `SyncVectorEnv` does, with all environments at the same time.

    They are driven together first; then the base class steps what plays back what they
    gave, so that batches and resets are made as everywhere else. If the connection of
    some is lost meanwhile, what the others gave is kept for when the agent asks again.

    Args:
        outside: The far sides.
        makes: Each makes an environment.
        kwargs: Arguments of `SyncVectorEnv`.
    """

    def __init__(
        self, outside: ExternalConnections, makes: Sequence[Do], kwargs: dict[str, Any]
    ) -> None:
        known = {"autoreset_mode", "copy", "observation_mode"}
        kwargs = {name: kwargs[name] for name in known & kwargs.keys()}
        self._outside = outside
        # What environments gave in a call that others were lost in, and which it was.
        self._kept: dict[int, Outcome] = {}
        self._kept_of = b""
        begun = run_concurrently(outside, makes)
        try:
            made = _given(begun)
            super().__init__([functools.partial(_same, env) for env in made], **kwargs)
        except BaseException:
            # Nobody drives those that could begin.
            run_concurrently(
                outside, [each.value.close for each in begun if not each.error]
            )
            raise

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in each, or where ``reset_mask`` says so."""
        mask = (options or {}).get("reset_mask")
        rest = {k: v for k, v in (options or {}).items() if k != "reset_mask"}
        given = options if mask is None else rest
        seeds = seed if isinstance(seed, list | tuple) else [seed] * self.num_envs
        if isinstance(seed, int):
            seeds = [seed + i for i in range(self.num_envs)]
        masked = np.ones(self.num_envs, np.bool_) if mask is None else mask
        if len(seeds) == self.num_envs == len(masked):
            todo = {
                i: _resetting(env, each, given)
                for i, (env, each) in enumerate(zip(self.envs, seeds, strict=True))
                if masked[i]
            }
            played = self._all(Op.RESET, {"seed": seed, "options": options}, todo)
        else:
            # The base class says what is wrong.
            played = {}
        result: Any = self._playing(played, super().reset, seed=seed, options=options)
        return result  # type: ignore[no-any-return]

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take an action in each."""
        each = list(iterate(self.action_space, actions))
        todo = {i: self._stepping(i, env, each[i]) for i, env in enumerate(self.envs)}
        played = self._all(Op.STEP, {"actions": actions}, todo)
        result: Any = self._playing(played, super().step, actions)
        return result  # type: ignore[no-any-return]

    def render(self) -> Any:
        """Give what each renders."""
        return tuple(
            _given(run_concurrently(self._outside, [e.render for e in self.envs]))
        )

    def close_extras(self, **kwargs: Any) -> None:
        """Tell each that the agent goes."""
        if hasattr(self, "envs"):
            run_concurrently(self._outside, [env.close for env in self.envs])

    def generators(self) -> list[dict[str, Any]]:
        """Describe each environment's random generator."""
        envs: list[Any] = [env.unwrapped for env in self.envs]
        return [env.generator() for env in envs]

    def set_generators(self, given: list[dict[str, Any] | None]) -> None:
        """Set each environment's random generator as described, but for ``None``."""
        for env, new in zip(self.envs, given, strict=True):
            if new is not None:
                env.unwrapped.set_generator(new)  # type: ignore[attr-defined]

    def _stepping(self, index: int, env: Env, action: Any) -> Do:
        if (
            self.autoreset_mode == AutoresetMode.NEXT_STEP
            and self._autoreset_envs[index]
        ):
            return _resetting(env, None, None)
        if self.autoreset_mode != AutoresetMode.SAME_STEP:
            return lambda: [env.step(action)]
        return lambda: _step_and_reset(env, action)

    def _all(
        self, ask: Op, given: dict[str, Any], todo: dict[int, Do]
    ) -> dict[int, list[Any]]:
        """Drive environments together, but for those that have done it already."""
        if self._kept:
            again = self._kept_of == bytes([ask]) + binary.encode(given)
            if not again and ask != Op.RESET:
                raise ResetNeeded(
                    "environments were lost in another call, which others have done: "
                    "send it again as it was, or reset"
                )
            if not again:
                self._kept = {}
        left = [index for index in todo if index not in self._kept]
        outcomes = run_concurrently(self._outside, [todo[index] for index in left])
        found = {**self._kept, **dict(zip(left, outcomes, strict=True))}
        self._kept = {}
        errors = [each.error for each in found.values() if each.error is not None]
        if errors:
            if all(isinstance(error, ExternalAway) for error in errors):
                self._kept = {i: o for i, o in found.items() if o.error is None}
                self._kept_of = bytes([ask]) + binary.encode(given)
            raise next(
                (each for each in errors if not isinstance(each, ExternalAway)),
                errors[0],
            )
        return {index: each.value for index, each in found.items()}

    def _playing(
        self,
        played: dict[int, list[Any]],
        call: Callable[..., Any],
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        envs = self.envs
        self.envs = [_Played(played.get(i, [])) for i in range(len(envs))]  # type: ignore[misc]
        try:
            return call(*args, **kwargs)
        finally:
            self.envs = envs


class _Played:
    """Gives what an environment gave."""

    def __init__(self, outcomes: list[Any]) -> None:
        self._outcomes = iter(outcomes)

    def reset(self, **kwargs: Any) -> Any:
        return next(self._outcomes)

    def step(self, action: Any) -> Any:
        return next(self._outcomes)


def _same(env: Env) -> Env:
    return env


def _resetting(env: Env, seed: Any, options: Any) -> Do:
    return lambda: [env.reset(seed=seed, options=options)]


def _step_and_reset(env: Env, action: Any) -> list[Any]:
    stepped = env.step(action)
    if stepped[2] or stepped[3]:
        return [stepped, env.reset()]
    return [stepped]


def _given(outcomes: list[Outcome]) -> list[Any]:
    for each in outcomes:
        if each.error is not None:
            raise each.error
    return [each.value for each in outcomes]
