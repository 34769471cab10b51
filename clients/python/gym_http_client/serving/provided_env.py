"""A provided environment: executes the server's requests on an environment."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from gym_http_core.lossless_calls import LosslessCalls
from gym_http_core.operations import Operations
from gym_http_wire import elements, spaces
from gym_http_wire.external.handshake import PROTOCOL, Hello
from gym_http_wire.external.messages import Answer, Request
from gym_http_wire.messages import Op
from gym_http_wire.problems import Problem

__all__ = ["ProvidedEnv"]

Env = gymnasium.Env[Any, Any]
Values = dict[str, Any]


class ProvidedEnv:
    """Executes requests on one environment, or on a new one for each agent.

    Args:
        env: The environment; it stays open, and agents cannot pass arguments to it.
            With ``None`` the factory creates one for each agent; the previous one is
            closed at that moment, not when its agent leaves.
        factory: Creates an environment. It is called with the agent's ``render_mode``,
            if any, and the agent's arguments.

    Attributes:
        env: The current environment.
        taken: Whether an agent uses it.
        attend: Called by environments that wait for others within a call. It raises
            `ConnectionLost` if nobody waits for the answer any more.
    """

    attend: Callable[[], None] = staticmethod(lambda: None)

    def __init__(self, env: Env | None, factory: Callable[..., Env] | None) -> None:
        self._factory = factory
        self.env: Env = factory() if env is None and factory is not None else env  # type: ignore[assignment]
        self.taken = False
        self._fresh = True
        self._exact = LosslessCalls(Operations(self.env))
        self._action_space = self.env.action_space
        self._cast = _caster(self._action_space)
        self._calls: dict[Op, Callable[[Values], Values]] = {
            Op.INIT: self._init,
            Op.CLOSE: self._close,
            Op.RESET: lambda given: self._exact.reset(given),
            Op.STEP: self._step,
            Op.RENDER: lambda given: self._exact.render(),
            Op.DESCRIBE: lambda given: self._exact.describe(),
            Op.GENERATOR: lambda given: self._exact.generator(),
            Op.SET_GENERATOR: lambda given: self._exact.set_generator(given),
            Op.ATTRIBUTE: lambda given: self._exact.attribute(given["name"]),
            Op.SET_ATTRIBUTE: lambda given: self._exact.set_attribute(
                given["name"], given
            ),
            Op.CALL_ATTRIBUTE: lambda given: self._exact.call_attribute(
                given["name"], given
            ),
        }

    def hello(self, name: str, dialect: str) -> Hello:
        """Return the hello that describes the environment.

        Raises:
            UndescribableSpace: A space is of a class that cannot be described.
        """
        env = self.env
        modes = [mode for mode in env.metadata.get("render_modes", []) if mode]
        if self._factory is None:
            modes = [env.render_mode] if env.render_mode else []
        return Hello(
            PROTOCOL,
            name,
            spaces.describe(env.observation_space),
            spaces.describe(env.action_space),
            render_modes=[mode for mode in modes if mode != "human"],
            capabilities=[
                "attributes",
                "options",
                "pause",
                "render",
                "replay",
                "reset",
                "seed",
            ],
            dialect=dialect,
            program=f"Python {platform.python_version()}, "
            f"gymnasium {gymnasium.__version__}",
        )

    def answer(self, request: Request) -> Answer:
        """Execute a request, and return its answer."""
        op, number, given = request
        try:
            call = self._calls.get(op)
            if call is None:
                words = f"there is no {op.name.lower()} here"
                raise Problem(words, status=501, code="unsupported")
            return Answer(number, call(given))
        except Problem as problem:
            return Answer(number, None, problem_fields(problem))
        except Exception as error:
            words = f"{op.name.lower()} failed: {type(error).__name__}: {error}"
            return Answer(number, None, {"code": "env-error", "message": words})

    def release(self) -> None:
        """Note that the agent has left."""
        self.taken = False

    def close(self) -> None:
        """Close the environment, if the factory created it."""
        if self._factory is not None:
            self.env.close()

    def _init(self, given: Values) -> Values:
        kwargs = dict(given.get("kwargs") or {})
        render_mode = given.get("render_mode")
        if self._factory is None:
            if kwargs:
                raise Problem(
                    f"kwargs is {kwargs!r:.80}: expected none, since this environment "
                    "is made already",
                    status=400,
                    code="bad-parameter",
                )
        elif kwargs or render_mode is not None or not self._fresh:
            if render_mode is not None:
                kwargs["render_mode"] = render_mode
            self.env.close()
            self.env = self._factory(**kwargs)
        self._fresh = False
        self.taken = True
        self._exact = LosslessCalls(Operations(self.env))
        return {
            "action_space": spaces.describe(self.env.action_space),
            "observation_space": spaces.describe(self.env.observation_space),
        }

    def _step(self, given: Values) -> Values:
        space = self.env.action_space
        if space is not self._action_space:
            # Of another environment, or the environment has replaced it.
            self._action_space, self._cast = space, _caster(space)
        return self._exact.step({**given, "action": self._cast(given["action"])})

    def _close(self, given: Values) -> Values:
        self.taken = False
        return {}


def _caster(space: gymnasium.Space[Any]) -> Callable[[Any], Any]:
    """Make a function that casts plain data, as JSON has it, to elements of a space.

    Arrays and NumPy's scalars have a dtype, which their sender has chosen. They are
    returned unchanged, and so is what cannot be cast: the environment judges it.
    """
    # Not subclasses, which decide about their elements themselves.
    if type(space) is gymnasium.spaces.Dict:
        members = {key: _caster(inner) for key, inner in space.items()}
        return lambda value: _cast_members(members, value)
    if type(space) is gymnasium.spaces.Tuple:
        parts = [_caster(inner) for inner in space]
        return lambda value: _cast_parts(parts, value)
    read = elements.reader(space)

    def cast(value: Any) -> Any:
        if isinstance(value, np.ndarray | np.generic):
            return value
        try:
            return read(value)
        except elements.NotAnElement:
            return value

    return cast


def _cast_members(members: Values, value: Any) -> Any:
    if not isinstance(value, dict) or value.keys() != members.keys():
        return value
    return {key: members[key](each) for key, each in value.items()}


def _cast_parts(parts: list[Callable[[Any], Any]], value: Any) -> Any:
    if not isinstance(value, list | tuple) or len(value) != len(parts):
        return value
    return tuple(cast(each) for cast, each in zip(parts, value, strict=True))


def problem_fields(problem: Problem) -> dict[str, Any]:
    """Convert a problem to the members of an error in an answer."""
    return {
        "code": problem.code,
        "extras": problem.extras,
        "message": problem.message,
        "status": problem.status,
    }
