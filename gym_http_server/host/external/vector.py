"""A vector of external environments, all of which step at the same time."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import greenlet  # type: ignore[import-untyped]
import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import iterate

from gym_http_server.host.external.connections import Awaited, ExternalConnections
from gym_http_wire.messages import Op
from gym_http_wire.problems import ExternalAway, ResetNeeded
from gym_http_wire.values import binary

__all__ = ["ExternalVectorEnv"]

Env = gymnasium.Env[Any, Any]
Do = Callable[[], Any]


class Outcome(NamedTuple):
    """The outcome of a call: the value returned, or the exception raised.

    Attributes:
        value: The value that it returned.
        error: The exception that it raised instead.
    """

    value: Any
    error: Exception | None = None


def run_concurrently(
    connections: ExternalConnections, calls: Sequence[Callable[[], Any]]
) -> list[Outcome]:
    """Run calls to external environments concurrently, in one thread.

    Each call runs in a greenlet, which yields while its environment works. So wrappers
    and other code around the environment need no change.

    Returns:
        The outcomes, in the order of the calls.
    """
    outcomes: list[Outcome] = [Outcome(None)] * len(calls)
    waiting: dict[Any, Awaited] = {}
    scheduler = greenlet.getcurrent()

    def run(index: int) -> None:
        try:
            outcomes[index] = Outcome(calls[index]())
        except Exception as error:
            outcomes[index] = Outcome(None, error)

    def wait(awaited: Awaited) -> None:
        scheduler.switch((greenlet.getcurrent(), awaited))

    def proceed(runner: Any, *args: Any) -> None:
        waiting.pop(runner, None)
        paused = runner.switch(*args)
        if paused is not None:
            waiting[paused[0]] = paused[1]

    with connections.waiting_by(wait):
        for index in range(len(calls)):
            proceed(greenlet.greenlet(run), index)
        while waiting:
            first = min(awaited.deadline for awaited in waiting.values())
            connections.attend(max(0.0, first - time.monotonic()))
            now = time.monotonic()
            for runner, awaited in list(waiting.items()):
                if awaited.over or now >= awaited.deadline:
                    proceed(runner)
    return outcomes


class ExternalVectorEnv(SyncVectorEnv[Any, Any]):
    """A `SyncVectorEnv` whose environments all step at the same time.

    The environments step concurrently first. Then the base class steps stand-ins that
    replay their outcomes, so that it makes batches and resets as for any vector. If
    some connections are lost meanwhile, the outcomes of the other environments are kept
    for the agent's retry.

    Args:
        connections: The connections.
        makes: Each makes an environment.
        kwargs: Arguments of `SyncVectorEnv`.
    """

    def __init__(
        self,
        connections: ExternalConnections,
        makes: Sequence[Do],
        kwargs: dict[str, Any],
    ) -> None:
        known = {"autoreset_mode", "copy", "observation_mode"}
        kwargs = {name: kwargs[name] for name in known & kwargs.keys()}
        self._connections = connections
        # Outcomes of a call during which other connections were lost, and the call.
        self._kept: dict[int, Outcome] = {}
        self._kept_of = b""
        begun = run_concurrently(connections, makes)
        try:
            made = _given(begun)
            super().__init__([functools.partial(_same, env) for env in made], **kwargs)
        except BaseException:
            # Those that could begin are of no use.
            closes = [each.value.close for each in begun if not each.error]
            run_concurrently(connections, closes)
            raise

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in each, or in those of ``reset_mask``."""
        mask = (options or {}).get("reset_mask")
        rest = {k: v for k, v in (options or {}).items() if k != "reset_mask"}
        given = options if mask is None else rest
        seeds = seed if isinstance(seed, list | tuple) else [seed] * self.num_envs
        if isinstance(seed, int):
            seeds = [seed + i for i in range(self.num_envs)]
        masked = np.ones(self.num_envs, np.bool_) if mask is None else mask
        if len(seeds) == self.num_envs == len(masked):
            calls = {
                i: _resetting(env, each, given)
                for i, (env, each) in enumerate(zip(self.envs, seeds, strict=True))
                if masked[i]
            }
            played = self._all(Op.RESET, {"seed": seed, "options": options}, calls)
        else:
            # The base class raises the error.
            played = {}
        result: Any = self._playing(played, super().reset, seed=seed, options=options)
        return result  # type: ignore[no-any-return]

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take an action in each environment."""
        each = list(iterate(self.action_space, actions))
        calls = {i: self._stepping(i, env, each[i]) for i, env in enumerate(self.envs)}
        played = self._all(Op.STEP, {"actions": actions}, calls)
        result: Any = self._playing(played, super().step, actions)
        return result  # type: ignore[no-any-return]

    def render(self) -> Any:
        """Return the rendered value of each environment."""
        return tuple(
            _given(run_concurrently(self._connections, [e.render for e in self.envs]))
        )

    def close_extras(self, **kwargs: Any) -> None:
        """Send each environment the request to close."""
        if hasattr(self, "envs"):
            run_concurrently(self._connections, [env.close for env in self.envs])

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
        self, op: Op, given: dict[str, Any], calls: dict[int, Do]
    ) -> dict[int, list[Any]]:
        """Run calls concurrently, except those whose outcomes have been kept."""
        if self._kept:
            again = self._kept_of == bytes([op]) + binary.encode(given)
            if not again and op != Op.RESET:
                raise ResetNeeded(
                    "the connections of some environments were lost in another call, "
                    "which others have done: send it again as it was, or reset"
                )
            if not again:
                self._kept = {}
        left = [index for index in calls if index not in self._kept]
        outcomes = run_concurrently(self._connections, [calls[index] for index in left])
        found = {**self._kept, **dict(zip(left, outcomes, strict=True))}
        self._kept = {}
        errors = [each.error for each in found.values() if each.error is not None]
        if errors:
            if all(isinstance(error, ExternalAway) for error in errors):
                self._kept = {i: o for i, o in found.items() if o.error is None}
                self._kept_of = bytes([op]) + binary.encode(given)
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
    """Replays the outcomes of an environment."""

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
