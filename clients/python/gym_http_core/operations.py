"""The calls of one environment: values in, values or a `Problem` out.

`Operations` stands between a transport and a `gymnasium.Env`, without sockets or
encodings, so that a host process and a transport within one process behave alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
from gymnasium.error import ResetNeeded as GymnasiumResetNeeded

from gym_http_core import legacy
from gym_http_core.attributes import Attributes
from gym_http_core.env_errors import env_call, env_error, env_exceptions, text_of
from gym_http_core.episode_log import EpisodeLog
from gym_http_core.episodes import plain_reward
from gym_http_core.opaque_calls import call_part, element_check, names_of
from gym_http_core.space_changes import SpaceChanges
from gym_http_wire import elements, spaces
from gym_http_wire.messages import SPACES_VERSION
from gym_http_wire.problems import (
    BadParameter,
    InvalidAction,
    NoRenderMode,
    Problem,
    ResetNeeded,
    UnsupportedSpace,
)

__all__ = ["Operations", "episode_call"]

_UNFIT = (
    elements.NotAnElement,
    gymnasium.error.Error,
    AssertionError,
    TypeError,
    ValueError,
)
# Plain JSON can represent all elements of these spaces, whatever their parameters.
_SIMPLE_SPACES = (
    gymnasium.spaces.Box,
    gymnasium.spaces.Discrete,
    gymnasium.spaces.MultiBinary,
    gymnasium.spaces.MultiDiscrete,
)
MakeReader = Callable[[gymnasium.Space[Any]], Callable[[object], Any]]
_AFTER_ERROR = (
    "the environment raised an exception in its last call and needs a reset first"
)


def episode_call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function of an environment that may need an episode.

    Raises:
        ResetNeeded: There is no episode.
    """
    try:
        return function(*args, **kwargs)
    except GymnasiumResetNeeded as error:
        raise ResetNeeded(str(error)) from None


class Operations(Attributes):
    """One environment and the calls that it takes.

    Args:
        env: The environment; used from one thread only.
        first_seed: Seed of the first reset without a seed.
        strict_actions: Refuse actions that the action space does not contain.

    Attributes:
        reset_seed: Seed of the last reset, which may be ``first_seed``; or ``None``.
        first_seed: Seed of the first reset without a seed; ``None`` after it.
        failed_call: The arguments of a reset or step that raised an exception.
        checks_actions: Whether `check_action` refuses any.
        space_changes: Notices that the environment has other spaces.
    """

    def __init__(
        self,
        env: Any,
        *,
        first_seed: int | None = None,
        strict_actions: bool = False,
    ) -> None:
        super().__init__(env)
        self.steps = 0
        self.episodes = 0
        self.episode_log: Any = self._new_log()
        self.first_seed = first_seed
        self.reset_seed: Any = None
        self.failed_call: dict[str, Any] = {}
        self.strict_actions = strict_actions
        self._failed = False
        self._ended = True
        self.space_changes = self._new_space_changes()
        self._read_action_space()

    def _read_action_space(self) -> None:
        """Make what reads and checks actions."""
        space = self.space("action")
        # Made late if it cannot fail: streams do not need it.
        self._read_action: Callable[[object], Any] = self._read_first_action
        if not isinstance(space, _SIMPLE_SPACES):
            self._read_action = self._action_reader(elements.reader)
        self._is_action = elements.membership(space) if self.strict_actions else None
        # Of a vector, it is Gymnasium that decides which of them remain when batched.
        self._check_opaque = element_check(space)
        self.checks_actions = self.strict_actions or self._check_opaque is not None
        self._has_other_space = False

    def further_members(self) -> dict[str, Any]:
        """Look at the spaces; return what answers have besides results.

        Returns:
            ``{"spaces_version": n}``, or an empty dict if they are those of the start.
        """
        changes = self.space_changes
        if changes.look():
            # It may be no space at all, which the next action will report.
            self._has_other_space = self.checks_actions = True
        return {SPACES_VERSION: changes.version} if changes.version else {}

    def step_members(self, step: dict[str, Any]) -> dict[str, Any]:
        """Return what the answer to a step has besides its results.

        Args:
            step: The results.
        """
        return self.further_members()

    def _new_log(self) -> Any:
        return EpisodeLog()

    def _new_space_changes(self) -> Any:
        return SpaceChanges(self.env)

    def reset(
        self, seed: int | None, options: dict[str, Any] | None
    ) -> tuple[Any, Any]:
        """Begin an episode.

        Returns:
            Observation and info, as the environment returned them.

        Raises:
            EnvError: The environment raised an exception.
        """
        if seed is None:
            seed = self.first_seed
        self._failed = True
        try:
            observation, info = env_call("reset", _reset, self.env, seed, options)
        except BaseException:
            self.failed_call = {"seed": seed, "options": options}
            raise
        self._failed = self._ended = False
        if self.failed_call:
            self.failed_call = {}
        self.episode_log.begin(seed)
        self.reset_seed, self.first_seed = seed, None
        return observation, info

    def action_of(self, plain: object) -> Any:
        """Convert plain JSON to an action for a step now.

        Raises:
            InvalidAction: It is not an action.
            ResetNeeded: The last call failed. Thin clients have to reset then, since
                they cannot know the state of the environment.
        """
        action = self.cast_action(plain)
        if self._failed:
            raise ResetNeeded(_AFTER_ERROR)
        return action

    def cast_action(self, plain: object) -> Any:
        """Convert plain JSON to an action for a step after the next reset.

        Raises:
            InvalidAction: It is not an action.
        """
        if self._has_other_space:
            self._read_action_space()
        try:
            action = self._read_action(plain)
        except elements.NotAnElement as error:
            action = self._read_leniently(plain, error)
        self.check_action(action)
        return action

    def _read_first_action(self, plain: object) -> Any:
        self._read_action = self._action_reader(elements.reader)
        return self._read_action(plain)

    def _read_leniently(self, plain: object, error: elements.NotAnElement) -> Any:
        """Read an action that only gym-http-api accepted."""
        try:
            if not self.strict_actions:
                return self._action_reader(legacy.lenient_reader)(plain)
        except elements.NotAnElement:
            pass
        raise InvalidAction(str(error)) from None

    def check_action(self, action: Any) -> None:
        """Refuse actions outside opaque spaces, and if the server is strict, others.

        Raises:
            InvalidAction: An opaque space does not contain its part of the action, or
                the server is strict and the action space does not contain it.
            EnvError: An opaque space raised an exception.
        """
        if self._has_other_space:
            self._read_action_space()
        if self._check_opaque is not None:
            try:
                self._check_opaque(action)
            except elements.NotAnElement as error:
                raise InvalidAction(str(error)) from None
        if self._is_action is not None and not self._is_action(action):
            raise InvalidAction(
                f"the action {action!r:.80} is not in {self.env.action_space}, "
                "and this server accepts no other actions"
            )

    def takes(self, action: Any) -> bool:
        """Whether `check_action` accepts an action."""
        try:
            self.check_action(action)
        except Exception:
            return False
        return True

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Take an action.

        Returns:
            Observation, reward, terminated, truncated and info, as the environment
            returned them.

        Raises:
            ResetNeeded: There is no episode to act in.
            EnvError: The environment raised an exception.
        """
        try:
            result = self.env.step(action)
            observation, reward, terminated, truncated, info = result
        except GymnasiumResetNeeded as error:
            raise ResetNeeded(str(error)) from None
        except Problem:
            # An external environment raised it, and knows whether it needs a reset.
            raise
        except env_exceptions() as error:
            self._failed = self.episode_log.failed = True
            self.failed_call = {"action": action}
            raise env_error("step", error) from error
        self.count(reward, terminated, truncated)
        return observation, reward, terminated, truncated, info

    def count(self, reward: Any, terminated: Any, truncated: Any) -> None:
        """Count a step, its reward, and its episode if that has ended."""
        self.steps += 1
        if self._ended:
            return
        log = self.episode_log
        log.length += 1
        if isinstance(reward, float):
            log.returned += reward
        else:
            log.add(reward)
        if terminated or truncated:
            self._ended = True
            self.episodes += 1
            log.end(terminated, truncated)

    def episode_end(self, terminated: Any, truncated: Any) -> tuple[Any, Any]:
        """Return whether the last step, which had these flags, has ended the episode.

        Returns:
            Whether the episode has terminated, and whether it was truncated.
        """
        return terminated, truncated

    def make_plain(self, step: dict[str, Any]) -> None:
        """Make flags and reward of a step plain, and add ``done``.

        Raises:
            TypeError, ValueError, OverflowError: Flags or reward are neither.
        """
        step["terminated"] = bool(step["terminated"])
        step["truncated"] = bool(step["truncated"])
        step["done"] = step["terminated"] or step["truncated"]
        step["reward"] = plain_reward(step["reward"])

    def check_plain(self) -> None:
        """Refuse plain JSON if it cannot represent what resets and steps return.

        Raises:
            UnrepresentableValue: It cannot.
        """

    def render(self) -> Any:
        """Render the environment.

        Raises:
            ResetNeeded: It renders only after a reset.
            EnvError: The environment raised an exception.
        """
        return env_call("render", episode_call, self.env.render)

    def check_render_mode(self) -> None:
        """Refuse to render an environment that has no render mode.

        Raises:
            NoRenderMode: It was created without one.
            EnvError: Reading its render mode raised an exception.
        """
        try:
            if self.env.render_mode is not None:
                return
            # "human" would open a window on the server, and is refused.
            known = self.env.metadata.get("render_modes", [])
            modes = [each for each in known if each != "human"]
        except env_exceptions() as error:
            raise env_error("render", error) from error
        if not modes:
            raise NoRenderMode(
                "this environment cannot be rendered on a server: the render_modes in "
                f"its metadata are {known}"
            )
        raise NoRenderMode(
            "the instance was created without a render_mode; create one with "
            f'{{"render_mode": MODE}}, where MODE is one of {modes}'
        )

    def close(self) -> None:
        """Close the environment.

        Raises:
            EnvError: The environment raised an exception.
        """
        env_call("close", self.env.close)

    def space(self, which: str) -> gymnasium.Space[Any]:
        """Return the ``"action"`` or the ``"observation"`` space.

        Raises:
            EnvError: The environment has no such space.
        """
        name = f"{which}_space"
        try:
            space = getattr(self.env, name)
            if not isinstance(space, gymnasium.Space):
                kind = type(space).__qualname__
                raise TypeError(f"its {name} is no space, but of the type {kind}")
        except env_exceptions() as error:
            raise env_error(name, error) from error
        return space

    def describe_space(self, which: str) -> dict[str, Any]:
        """Describe a space, for old clients (``info``) and in full (``space``).

        Raises:
            UnsupportedSpace: It, or a space in it, holds what JSON cannot represent.
        """
        space = self.space(which)
        try:
            return {"info": legacy.info(space), "space": spaces.describe(space)}
        except spaces.UndescribableSpace as error:
            raise UnsupportedSpace(str(error)) from None

    def sample(self, which: str, seed: int | None, mask: object) -> Any:
        """Draw an element of a space, after seeding the space if a seed is given.

        Raises:
            BadParameter: The mask does not fit the space.
            EnvError: The space raised another exception, or any if it is opaque.
        """
        space = self._sampled_space(which)
        try:
            cast = None if mask is None else elements.mask_reader(space)(mask)
            if seed is not None:
                space.seed(seed)
            return space.sample() if cast is None else space.sample(mask=cast)
        except env_exceptions() as error:
            opaque = "" if isinstance(error, elements.NotAnElement) else names_of(space)
            if isinstance(error, _UNFIT) and not opaque:
                raise BadParameter(
                    f"cannot sample with this seed and mask: {text_of(error)}"
                ) from None
            call = f"sampling its {which}_space" + (opaque and f", of {opaque}")
            raise env_error(call, error) from error

    def _sampled_space(self, which: str) -> gymnasium.Space[Any]:
        return self.space(which)

    def call_space(
        self, name: str, path: Any, method: Any, args: list[Any], kwargs: Any
    ) -> Any:
        """Call `sample`, `contains` or `seed` of a space, or of a part of it.

        Args:
            name: Name of the attribute that is the space.
            path: Keys and indices that lead to the part.
            method: Name of the method.
            args: Its arguments.
            kwargs: The same, by name.

        Raises:
            BadParameter: There is no such part or method, or no such space.
            EnvError: The method raised an exception.
        """
        space = self.attribute(name)
        if not isinstance(space, gymnasium.Space):
            raise BadParameter(f"the attribute {name} is no space: expected no method")
        if not isinstance(path, list | tuple):
            raise BadParameter(f"path is {path!r:.80}: expected a list")
        return call_part(space, list(path), method, args, kwargs)

    def contains(self, which: str, plain: object) -> bool:
        """Whether plain JSON is an element of a space.

        Raises:
            UnsupportedSpace: Plain JSON cannot represent the space's elements.
            EnvError: The space is opaque and raised an exception.
        """
        try:
            element = self._reader_of(which)(plain)
        except elements.NotAnElement:
            return False
        except spaces.UndescribableSpace as error:
            raise UnsupportedSpace(str(error)) from None
        return self.has(which, element)

    def has(self, which: str, value: object) -> bool:
        """Whether a value, as it is, is an element of a space.

        Raises:
            EnvError: The space is opaque and raised an exception.
        """
        space = self.space(which)
        try:
            return bool(space.contains(value))
        except env_exceptions() as error:
            if opaque := names_of(space):
                call = f"contains of its {which}_space, of {opaque}"
                raise env_error(call, error) from error
            # Gymnasium's spaces raise on values that they do not know.
            return False

    def about(self) -> dict[str, Any]:
        """Return members of a description that only this kind of environment has."""
        return {}

    def _action_reader(self, make: MakeReader) -> Callable[[object], Any]:
        return self._reader_of("action", make)

    def _reader_of(
        self, which: str, make: MakeReader = elements.reader
    ) -> Callable[[object], Any]:
        return make(self.space(which))


def _reset(env: Any, seed: Any, options: Any) -> tuple[Any, Any]:
    observation, info = env.reset(seed=seed, options=options)
    return observation, info
