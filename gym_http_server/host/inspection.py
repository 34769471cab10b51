"""Describes an environment: its spaces, random generator and attributes."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from gymnasium.vector import AutoresetMode

import gym_http_server
from gym_http_core import legacy
from gym_http_core.lossless_calls import LosslessCalls
from gym_http_core.operations import Operations
from gym_http_server.host import env_warnings
from gym_http_server.host.activity import Activity
from gym_http_server.host.codec import lossless, path_value, read, read_members
from gym_http_server.operations.instances import (
    CALL,
    CONTAINS,
    SAMPLE,
    SET_ATTRIBUTE,
    SET_GENERATOR,
)
from gym_http_wire.frames import Frame
from gym_http_wire.messages import Op, request_head
from gym_http_wire.problems import BadParameter, MissingParameter

__all__ = ["HandlerTable", "Inspection"]

#: By operation, the method that answers it.
HandlerTable = dict[int, Callable[[Any, Frame], Any]]

#: Members of a description that only some kinds of environments have.
_OF_KIND = (
    "api",
    "possible_agents",
    "single_action_space",
    "single_observation_space",
)


class Inspection:
    """Answers requests for information about an environment, or to set it.

    Args:
        operations: The environment.
        exact: Its lossless calls.
        activity: Records how much it is used.
        instance_id: Its instance ID.
        env_id: The env ID of the create request.
        label: The label that it was created with; ``None`` if it has none.
        program: The versions of the program of an external environment, or "".
        stepped: Members of the description about how a vector steps.

    Attributes:
        resumed: What the instance has resumed; ``None`` if it has not.
    """

    def __init__(
        self,
        operations: Operations,
        exact: LosslessCalls,
        activity: Activity,
        instance_id: str,
        env_id: str,
        label: str | None = None,
        program: str = "",
        stepped: dict[str, Any] | None = None,
    ) -> None:
        self._operations = operations
        self._exact = exact
        self._activity = activity
        self._instance_id = instance_id
        self._env_id = env_id
        self._label = label
        self._program = program
        self._stepped = stepped or {}
        self.resumed: dict[str, Any] | None = None

    def answer(self, frame: Frame) -> Any:
        """Return the value of the answer to a request."""
        return self._HANDLERS[frame.kind](self, frame)

    def _describe(self, frame: Frame) -> Any:
        activity = self._activity
        resumed = {} if self.resumed is None else {"resumed": self.resumed}
        return {
            **resumed,
            **self._exact.describe(),
            **self._stepped,
            "age_s": round(activity.age_s, 3),
            "env_id": self._env_id,
            "idle_s": round(activity.idle_s, 3),
            "instance_id": self._instance_id,
            "label": self._label,
            "streams": activity.streams,
            "versions": self._versions(),
            "watchers": activity.watchers,
        }

    def recorded(self) -> dict[str, Any]:
        """Return what the header of a recording says about the instance."""
        about = self._exact.describe()
        return {
            **{name: about[name] for name in _OF_KIND if name in about},
            "action_space": about["action_space"],
            "autoreset_mode": _autoreset_mode(about["metadata"]),
            "env_id": self._env_id,
            "instance_id": self._instance_id,
            "label": self._label,
            "num_envs": about.get("num_envs"),
            "observation_space": about["observation_space"],
            "spec": about["spec"],
            "versions": self._versions(),
        }

    def _versions(self) -> dict[str, str]:
        """Return versions of this process, and of the program that it steps."""
        package = _package_of(self._operations.env)
        given = {"package": package, "program": self._program}
        return {**_versions(), **{name: each for name, each in given.items() if each}}

    def _sample(self, which: str, frame: Frame) -> Any:
        given = read_members(frame, SAMPLE, "the sample")
        seed, mask = given.get("seed"), given.get("mask")
        return {which: self._operations.sample(which, seed, mask)}

    def _contains(self, which: str, frame: Frame) -> Any:
        value = request_head(frame).value
        if value is not None:
            given = path_value(value)
        else:
            given = read(frame)
            if isinstance(given, dict):
                if "value" not in given:
                    return {"member": self._has_info(which, given)}
                env_warnings.add_unknown(CONTAINS, given, "the request")
                given = given["value"]
            if lossless(frame):
                return {"member": self._operations.has(which, given)}
        return {"member": self._operations.contains(which, given)}

    def _set_generator(self, frame: Frame) -> Any:
        given = read_members(frame, SET_GENERATOR, "the request")
        return self._exact.set_generator(given)

    def _set_attribute(self, frame: Frame) -> Any:
        given = read_members(frame, SET_ATTRIBUTE, "the request")
        return self._exact.set_attribute(_name(frame), given)

    def _call_attribute(self, frame: Frame) -> Any:
        given = read_members(frame, CALL, "the call")
        return self._exact.call_attribute(_name(frame), given)

    def _has_info(self, which: str, given: dict[str, Any]) -> bool:
        # The old server compared the description of the observation space by its keys.
        if which == "action":
            raise MissingParameter("value")
        try:
            return legacy.same_as_info(self._operations.space(which), given)
        except legacy.UnknownInfoKey as error:
            raise BadParameter(str(error)) from None

    # One table for all instances: with one of its own, a host would write to the memory
    # of each operation and function in it.
    _HANDLERS: ClassVar[HandlerTable] = {
        Op.DESCRIBE: _describe,
        Op.ACTION_SPACE: lambda self, frame: self._operations.describe_space("action"),
        Op.OBSERVATION_SPACE: lambda self, frame: self._operations.describe_space(
            "observation"
        ),
        Op.ACTION_SAMPLE: lambda self, frame: self._sample("action", frame),
        Op.OBSERVATION_SAMPLE: lambda self, frame: self._sample("observation", frame),
        Op.ACTION_CONTAINS: lambda self, frame: self._contains("action", frame),
        Op.OBSERVATION_CONTAINS: lambda self, frame: self._contains(
            "observation", frame
        ),
        Op.GENERATOR: lambda self, frame: self._exact.generator(),
        Op.SET_GENERATOR: _set_generator,
        Op.ATTRIBUTE: lambda self, frame: self._exact.attribute(_name(frame)),
        Op.SET_ATTRIBUTE: _set_attribute,
        Op.CALL_ATTRIBUTE: _call_attribute,
    }


def _package_of(env: Any) -> str:
    """Return name and version of the package that an environment comes from, or ""."""
    name = type(getattr(env, "unwrapped", env)).__module__.partition(".")[0]
    if name in ("gymnasium", "gym_http_core", "gym_http_server"):
        return ""
    version = getattr(sys.modules.get(name), "__version__", None)
    if not isinstance(version, str):
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return ""
    return f"{name} {version}"[:100]


def _name(frame: Frame) -> str:
    return request_head(frame).value or ""


def _autoreset_mode(metadata: dict[str, Any]) -> str | None:
    """Return ``next_step``, ``same_step`` or ``disabled``; ``None`` for no vector."""
    mode = metadata.get("autoreset_mode")
    return mode.name.lower() if isinstance(mode, AutoresetMode) else None


def _versions() -> dict[str, str]:
    return {
        "gym_http_server": gym_http_server.__version__,
        "gymnasium": importlib.metadata.version("gymnasium"),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
