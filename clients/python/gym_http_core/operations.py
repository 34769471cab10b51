"""Operations: what may be asked of one environment, as calls with values.

`Operations` stands between a transport and a `gymnasium.Env`. It knows neither
sockets nor encodings: values in, values out, and a `Problem` for everything that
goes wrong, so that a host process and an in-process transport behave alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
from gymnasium.error import ResetNeeded as GymnasiumResetNeeded

from gym_http_core import legacy
from gym_http_core.attributes import Attributes
from gym_http_core.env_errors import env_error, text_of
from gym_http_core.lenient import lenient_reader
from gym_http_wire import elements, spaces
from gym_http_wire.problems import (
    BadParameter,
    InvalidAction,
    NoRenderMode,
    Problem,
    ResetNeeded,
    UnsupportedSpace,
)

__all__ = ["Operations"]

_UNFIT = (
    elements.NotAnElement,
    gymnasium.error.Error,
    AssertionError,
    TypeError,
    ValueError,
)
MakeReader = Callable[[gymnasium.Space[Any]], Callable[[object], Any]]
_AFTER_ERROR = (
    "the environment raised an exception in its last call and needs a reset first"
)


class Operations(Attributes):
    """One environment and what may be asked of it.

    Args:
        env: The environment; used from one thread only.
        first_seed: Seed for the first reset that brings none.
        strict_actions: Refuse actions that the action space does not contain.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any] | gymnasium.vector.VectorEnv[Any, Any, Any],
        *,
        first_seed: int | None = None,
        strict_actions: bool = False,
    ) -> None:
        super().__init__(env)
        self.steps = 0
        self.episodes = 0
        self._first_seed = first_seed
        self.strict_actions = strict_actions
        self._failed = False
        self._ended = True
        self._read_action = self._action_reader(elements.reader)
        self._is_action = (
            elements.membership(env.action_space) if strict_actions else None
        )

    def reset(
        self, seed: int | None, options: dict[str, Any] | None
    ) -> tuple[Any, Any]:
        """Begin an episode.

        Returns:
            Observation and info, as the environment gave them.

        Raises:
            EnvError: The environment raised an exception.
        """
        if seed is None:
            seed = self._first_seed
        self._failed = True
        try:
            observation, info = self.env.reset(seed=seed, options=options)
        except Problem:
            raise
        except (Exception, SystemExit) as error:
            raise env_error("reset", error) from error
        self._failed = self._ended = False
        self._first_seed = None
        return observation, info

    def action_of(self, plain: object) -> Any:
        """Cast what a thin client sent to an element of the action space.

        Raises:
            InvalidAction: It cannot be one.
            ResetNeeded: The last call failed, and thin clients are not trusted to
                know what state that left.
        """
        action = self.cast_action(plain)
        if self._failed:
            raise ResetNeeded(_AFTER_ERROR)
        return action

    def cast_action(self, plain: object) -> Any:
        """Cast what a thin client sent, for a step after the next reset.

        Raises:
            InvalidAction: It cannot be one.
        """
        try:
            action = self._read_action(plain)
        except elements.NotAnElement as error:
            action = self._read_leniently(plain, error)
        self.check_action(action)
        return action

    def _read_leniently(self, plain: object, error: elements.NotAnElement) -> Any:
        """Read an action that old clients may send and its space does not have."""
        try:
            if not self.strict_actions:
                return self._action_reader(lenient_reader)(plain)
        except elements.NotAnElement:
            pass
        raise InvalidAction(str(error)) from None

    def check_action(self, action: Any) -> None:
        """Refuse what the space does not contain, if this server does.

        Raises:
            InvalidAction: It does, and this is none.
        """
        if self._is_action is not None and not self._is_action(action):
            raise InvalidAction(
                f"the action {action!r:.80} is not in {self.env.action_space}, "
                "and this server takes no others"
            )

    def takes(self, action: Any) -> bool:
        """Tell whether `check_action` would let an action pass."""
        if self._is_action is None:
            return True
        try:
            return self._is_action(action)
        except Exception:
            return False

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Take an action.

        Returns:
            Observation, reward, terminated, truncated and info, as given.

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
            # It lives elsewhere, and knows itself whether it needs a reset.
            raise
        except (Exception, SystemExit) as error:
            self._failed = True
            raise env_error("step", error) from error
        self.count(terminated or truncated)
        return observation, reward, terminated, truncated, info

    def count(self, over: Any) -> None:
        """Count a step, and the episode if it is over."""
        self.steps += 1
        if over and not self._ended:
            self._ended = True
            self.episodes += 1

    def render(self) -> Any:
        """Give what the environment renders.

        Raises:
            ResetNeeded: It renders only after a reset.
            EnvError: The environment raised an exception.
        """
        try:
            return self.env.render()
        except GymnasiumResetNeeded as error:
            raise ResetNeeded(str(error)) from None
        except Problem:
            raise
        except (Exception, SystemExit) as error:
            raise env_error("render", error) from error

    def check_render_mode(self) -> None:
        """Refuse to render what was made without a render mode.

        Raises:
            NoRenderMode: It was.
            EnvError: It does not tell.
        """
        try:
            if self.env.render_mode is not None:
                return
            # "human" would open a window on the server, and is refused.
            known = self.env.metadata.get("render_modes", [])
            modes = [each for each in known if each != "human"]
        except (Exception, SystemExit) as error:
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
        try:
            self.env.close()
        except Problem:
            raise
        except (Exception, SystemExit) as error:
            raise env_error("close", error) from error

    def space(self, which: str) -> gymnasium.Space[Any]:
        """Give the ``"action"`` or the ``"observation"`` space.

        Raises:
            EnvError: There is none, or something else was put in its place.
        """
        name = f"{which}_space"
        try:
            space = getattr(self.env, name)
            if not isinstance(space, gymnasium.Space):
                kind = type(space).__qualname__
                raise TypeError(f"its {name} is no space, but of the type {kind}")
        except (Exception, SystemExit) as error:
            raise env_error(name, error) from error
        return space

    def describe_space(self, which: str) -> dict[str, Any]:
        """Describe a space, for old clients (``info``) and in full (``space``).

        Raises:
            UnsupportedSpace: Its class, or one in it, is none of Gymnasium's.
        """
        space = self.space(which)
        try:
            return {"info": legacy.info(space), "space": spaces.describe(space)}
        except spaces.UnsupportedSpace as error:
            raise UnsupportedSpace(str(error)) from None

    def sample(self, which: str, seed: int | None, mask: object) -> Any:
        """Draw an element of a space, after seeding the space if asked to.

        Raises:
            BadParameter: The mask does not fit the space.
            EnvError: The space raised another exception.
        """
        space = self.space(which)
        try:
            cast = None if mask is None else elements.mask_reader(space)(mask)
            if seed is not None:
                space.seed(seed)
            return space.sample() if cast is None else space.sample(mask=cast)
        except _UNFIT as error:
            raise BadParameter(
                f"cannot sample with this seed and mask: {text_of(error)}"
            ) from None
        except (Exception, SystemExit) as error:
            raise env_error(f"sampling its {which}_space", error) from error

    def contains(self, which: str, plain: object) -> bool:
        """Whether what a thin client sent is an element of a space.

        Raises:
            UnsupportedSpace: The space's class, or one in it, is none of Gymnasium's.
        """
        space = self.space(which)
        try:
            element = elements.reader(space)(plain)
        except elements.NotAnElement:
            return False
        except spaces.UnsupportedSpace as error:
            raise UnsupportedSpace(str(error)) from None
        return bool(space.contains(element))

    def has(self, which: str, value: object) -> bool:
        """Whether a value, as it is, is an element of a space."""
        space = self.space(which)
        try:
            return bool(space.contains(value))
        except Exception:
            # What a space cannot even look at is none of its elements.
            return False

    def about(self) -> dict[str, Any]:
        """Tell what a description says of this kind beside what it says of all."""
        return {}

    def _action_reader(self, make: MakeReader) -> Callable[[object], Any]:
        return make(self.env.action_space)
