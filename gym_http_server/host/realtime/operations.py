"""The calls of an environment that has a clock: its clock resets and steps it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded as GymnasiumResetNeeded

from gym_http_core.env_errors import env_error, env_exceptions
from gym_http_core.lossless_calls import LosslessCalls
from gym_http_core.operations import Operations
from gym_http_server.host.realtime.limits import ActionCheck
from gym_http_server.host.realtime.mode import Event, Mode, Result
from gym_http_wire.elements import NotAnElement
from gym_http_wire.problems import InvalidAction, Problem, ResetNeeded

__all__ = ["ClockedCalls", "ClockedOperations"]

Values = dict[str, Any]


class ClockedOperations(Operations):
    """One environment, whose resets and steps are those of its clock.

    Args:
        env: The environment, with the spaces that the clock gives it.
        mode: The clock.
        first_seed: Seed of the first reset without a seed.

    Attributes:
        mode: The clock.
        caller: The session of the present request.
        max_hz: The highest rate that the server permits.
        scheduler: Policy and priority of this process, for statistics.
        result: The result of the last reset or step.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        mode: Mode,
        *,
        first_seed: int | None = None,
    ) -> None:
        self.mode = mode
        strict = mode.settings.strict_actions
        super().__init__(env, first_seed=first_seed, strict_actions=strict)
        self.caller = ""
        self.max_hz = 0.0
        self.scheduler: dict[str, Any] = {}
        self.result: Result | None = None

    def _read_action_space(self) -> None:
        super()._read_action_space()
        limits = self.mode.settings.limits
        bounds = limits is None or not limits.clips
        check = ActionCheck(self.space("action"), bounds=bounds)
        self._check: ActionCheck | None = check if self.strict_actions else None

    def reset(
        self, seed: int | None, options: dict[str, Any] | None
    ) -> tuple[Any, Any]:
        """Begin an episode, or join the one that runs."""
        given = self.first_seed if seed is None else seed
        with _translated("reset"):
            result = self.mode.reset(given, options, self.caller)
        self.reset_seed, self.first_seed = given, None
        self.result = result
        return result.observation, result.info

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Take a step with an action; it is executed when its time has come."""
        with _translated("step"):
            result = self.mode.step(action, self.caller)
        self.result = result
        return result[:5]

    def record(self, event: Event, seed: int | None = None) -> None:
        """Count a reset or step of the world.

        Args:
            event: The reset or step.
            seed: The seed of a reset.
        """
        if event.kind == "reset":
            self._ended = False
            self.episode_log.begin(seed)
            return
        update = event.update
        self.count(event.reward, update.terminated, update.truncated)

    def check_action(self, action: Any) -> None:
        """Refuse an action that is not in the action space, unless that is permitted.

        Raises:
            InvalidAction: It is not, or not finite.
        """
        if self._has_other_space:
            self._read_action_space()
        check = self._check or self._check_opaque
        if check is None:
            return
        try:
            check(action)
        except NotAnElement as error:
            raise InvalidAction(str(error)) from None

    def check_element(self, action: Any) -> Any:
        """Return an action that was sent in a lossless form, if the world can take it.

        Raises:
            InvalidAction: It is not in the action space. If that is permitted: nor an
                array of the right shape with values beyond its bounds.
        """
        space = self.env.action_space
        if self.strict_actions:
            self.check_action(action)
        elif not self.has("action", action) and not _is_like(action, space):
            raise InvalidAction(f"the action {action!r:.80} is not in {space}")
        return action


class ClockedCalls(LosslessCalls):
    """The lossless calls of an environment that has a clock.

    Args:
        operations: The environment.
    """

    _operations: ClockedOperations

    def __init__(self, operations: ClockedOperations) -> None:
        super().__init__(operations)

    def describe(self) -> Values:
        """Describe the environment, and that it has a clock."""
        mode = self._operations.mode.settings.mode
        return {**super().describe(), "realtime": {"mode": mode}}

    def reset(self, given: Any) -> Values:
        """Begin an episode with ``seed`` and ``options``."""
        return {**super().reset(given), **self._timing()}

    def take(self, action: Any) -> Values:
        """Take an action."""
        action = self._operations.check_element(action)
        return {**super().take(action), **self._timing()}

    def _timing(self) -> Values:
        result = self._operations.result
        if result is None:
            return {}
        if result.rewards is None:
            return {"realtime": result.realtime}
        return {"realtime": result.realtime, "rewards": result.rewards}


def _is_like(action: Any, space: gymnasium.Space[Any]) -> bool:
    """Whether an action has the shape of a Box, and numbers for values."""
    if not isinstance(space, gymnasium.spaces.Box):
        return False
    if not isinstance(action, np.ndarray):
        return False
    if action.shape != space.shape or action.dtype.kind not in "biuf":
        return False
    return bool(np.isfinite(action).all())


@contextlib.contextmanager
def _translated(call: str) -> Iterator[None]:
    """Turn exceptions of the world into problems."""
    try:
        yield
    except Problem:
        raise
    except GymnasiumResetNeeded as error:
        raise ResetNeeded(str(error)) from None
    except env_exceptions() as error:
        raise env_error(call, error) from error
