"""The calls of the lossless forms: an environment used as if it were local.

Values in, values out. Hosts use this, and so do transports within one process; they
encode and send the values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gym_http_core.operations import Operations
from gym_http_wire.problems import (
    BadJSON,
    BadParameter,
    MissingParameter,
    UnrepresentableValue,
)
from gym_http_wire.specs import describe_spec
from gym_http_wire.values import UnsupportedValue
from gym_http_wire.values.signing import MAX_SIGNATURE_BYTES, signed
from gym_http_wire.values.treewriting import write

__all__ = ["LosslessCalls", "sent_spec", "step_values"]

Values = dict[str, Any]


def step_values(
    observation: Any, reward: Any, terminated: Any, truncated: Any, info: Any
) -> Values:
    """Return the result of a step as the value of its answer."""
    return {
        "info": info,
        "observation": observation,
        "reward": reward,
        "terminated": terminated,
        "truncated": truncated,
    }


class LosslessCalls:
    """The calls of one environment.

    Args:
        operations: The environment.

    Attributes:
        on_generator: Called with the request that a state of the generator stands for,
            after it was set because a reset or a step had it.
    """

    def __init__(self, operations: Operations) -> None:
        self.on_generator: Callable[[Values], None] | None = None
        self._operations = operations
        self._glance = operations.space_changes.glance

    def reset(self, given: Any) -> Values:
        """Begin an episode with ``seed`` and ``options``, unchanged."""
        given = _object(given)
        self._set_drawn_generator(given)
        observation, info = self._operations.reset(
            given.get("seed"), given.get("options")
        )
        value = {"info": info, "observation": observation}
        value |= self._operations.further_members()
        return value

    def step(self, given: Any) -> Values:
        """Take an ``action``, unchanged."""
        action = _required(given, "action")
        self._operations.check_action(action)
        self._set_drawn_generator(given)
        return self.take(action)

    def take(self, action: Any) -> Values:
        """Take an action that was checked already."""
        observation, reward, terminated, truncated, info = self._operations.step(action)
        # As `step_values`, without a call.
        value = {
            "info": info,
            "observation": observation,
            "reward": reward,
            "terminated": terminated,
            "truncated": truncated,
        }
        # As a local variable, which Python calls faster than an attribute.
        spaces_may_differ = self._glance
        if spaces_may_differ():
            value |= self._operations.step_members(value)
        return value

    def render(self) -> Values:
        """Render the environment."""
        return {"rendered": self._operations.render()}

    def describe(self) -> Values:
        """Describe the environment: spaces, spec, metadata and counters."""
        operations = self._operations
        env = operations.env
        spec, spec_error = sent_spec(env)
        return {
            "action_space": operations.describe_space("action")["space"],
            "episodes": operations.episodes,
            "metadata": env.metadata,
            "observation_space": operations.describe_space("observation")["space"],
            "render_mode": env.render_mode,
            "spec": spec,
            "spec_error": spec_error,
            "steps": operations.steps,
            **operations.about(),
            **operations.further_members(),
        }

    def generator(self) -> Values:
        """Describe the environment's random generator: seed, state and more."""
        return self._operations.generator()

    def set_generator(self, given: Any) -> Values:
        """Set ``state`` and ``seed_sequence`` of the environment's random generator.

        With ``replace`` the environment gets a new generator, as if ``np_random`` were
        set.
        """
        state = _required(given, "state")
        replace = given.get("replace", False)
        if not isinstance(replace, bool):
            raise BadParameter(f"replace is {replace!r:.80}: expected true or false")
        self._operations.set_generator(
            state, given.get("seed_sequence"), replace=replace
        )
        return {}

    def attribute(self, name: str) -> Values:
        """Return an attribute, or that it can be called.

        Raises:
            UnrepresentableValue: It is a class.
        """
        value = self._operations.attribute(name)
        if isinstance(value, type):
            # Callable, too; but users read the members of an Enum or of constants.
            raise UnrepresentableValue(
                f"the attribute {name} is the class {value.__module__}."
                f"{value.__qualname__}, and classes cannot be sent"
            )
        if callable(value):
            return {"callable": True}
        return {"callable": False, "value": value}

    def set_attribute(self, name: str, given: Any) -> Values:
        """Set an attribute to ``value``; with ``force`` false, only if it exists."""
        value = _required(given, "value")
        force = given.get("force", True)
        if not isinstance(force, bool):
            raise BadParameter(f"force is {force!r:.80}: expected true or false")
        done = self._operations.set_attribute(name, value, force=force)
        return {"set": done, **self._operations.further_members()}

    def call_attribute(self, name: str, given: Any) -> Values:
        """Call a method with ``args`` and ``kwargs``.

        With ``indices``, call the method of these environments of a vector; the value
        is then a list with one item for each. With ``method``, which is ``"sample"``,
        ``"contains"`` or ``"seed"``, the attribute is a space, and the method is one of
        its part at ``path``, a list of keys and indices.
        """
        given = _object(given)
        args, kwargs = given.get("args", []), given.get("kwargs", {})
        if not isinstance(args, list | tuple) or not isinstance(kwargs, dict):
            raise BadParameter("expected args as a list and kwargs as an object")
        operations = self._operations
        if "method" in given:
            path = given.get("path", [])
            value = operations.call_space(
                name, path, given["method"], list(args), kwargs
            )
        elif "indices" in given:
            value = operations.call_some(given["indices"], name, list(args), kwargs)
        else:
            value = operations.call_attribute(name, list(args), kwargs)
        return {"value": value, **operations.further_members()}

    def _set_drawn_generator(self, given: Values) -> None:
        # A client that drew from its copy of the generator sends the new state.
        if "generator" in given:
            self._operations.set_generator(given["generator"])
            if self.on_generator is not None:
                self.on_generator({"state": given["generator"]})


def _object(given: Any) -> Values:
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise BadJSON("expected an object")
    return given


def _required(given: Any, name: str) -> Any:
    if not isinstance(given, dict):
        raise BadJSON("expected an object")
    if name not in given:
        raise MissingParameter(name)
    return given[name]


def sent_spec(env: Any) -> tuple[Any, str | None]:
    """Describe the spec of an environment, without arguments that cannot be sent.

    Returns:
        The description or ``None``, and what is missing from it.
    """
    try:
        if env.spec is None:
            return None, "the environment has no spec"
        spec = describe_spec(env.spec)
        sent = _Sent()
        spec["kwargs"] = {
            name: value
            for name, value in spec["kwargs"].items()
            if sent.has(f"kwargs[{name!r}]", value)
        }
        for wrapper in spec["additional_wrappers"]:
            named = f"the arguments of the wrapper {wrapper['name']}"
            if not sent.has(named, wrapper["kwargs"]):
                # As for wrappers that do not keep their arguments.
                wrapper["kwargs"] = None
        write(spec)
        return spec, "; ".join(sent.missing)[:500] or None
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"[:500]


class _Sent:
    """Decides which arguments a description has, and names the others."""

    def __init__(self) -> None:
        self.missing: list[str] = []
        # The rest of the signature is for the spaces and the metadata.
        self._left = MAX_SIGNATURE_BYTES // 2

    def has(self, name: str, value: Any) -> bool:
        """Check that an argument can be sent, in each form and beside the others."""
        try:
            write(value)
            signature, _leaves = signed(value)
            if len(signature) > self._left:
                raise UnsupportedValue("has more parts than a description may have")
        except UnsupportedValue as error:
            error.root = name
            self.missing.append(str(error))
            return False
        self._left -= len(signature)
        return True
