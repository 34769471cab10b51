"""Looking at an environment: what it is, its spaces, its generator, its attributes."""

from __future__ import annotations

import importlib.metadata
import platform
import time
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

import gym_http_server
from gym_http_server.envhost.bodies import path_value, read
from gym_http_server.envhost.making import read_seed
from gym_http_wire import legacy
from gym_http_wire.frames import Frame
from gym_http_wire.messages import Op, request_head
from gym_http_wire.operations import Operations
from gym_http_wire.problems import BadJSON, BadParameter, MissingParameter

__all__ = ["Inspection"]


class Inspection:
    """Answers what is asked about an environment.

    Args:
        operations: The environment.
        instance_id: Its instance ID.
        env_id: The env ID that was asked for.

    Attributes:
        handlers: By operation, what gives the value of the answer to a request.
        last_used: When the last call ended that counts as use, monotonic seconds.
    """

    def __init__(self, operations: Operations, instance_id: str, env_id: str) -> None:
        self.last_used = self._created = time.monotonic()
        self._operations = operations
        self._instance_id = instance_id
        self._env_id = env_id
        self.handlers: dict[int, Callable[[Frame], Any]] = {
            Op.DESCRIBE: self._describe,
            Op.ACTION_SPACE: lambda frame: operations.describe_space("action"),
            Op.OBSERVATION_SPACE: lambda frame: operations.describe_space(
                "observation"
            ),
            Op.ACTION_SAMPLE: lambda frame: self._sample("action", frame),
            Op.OBSERVATION_SAMPLE: lambda frame: self._sample("observation", frame),
            Op.ACTION_CONTAINS: lambda frame: self._contains("action", frame),
            Op.OBSERVATION_CONTAINS: lambda frame: self._contains("observation", frame),
            Op.GENERATOR: lambda frame: operations.generator(),
            Op.SET_GENERATOR: self._set_generator,
            Op.ATTRIBUTE: self._attribute,
            Op.SET_ATTRIBUTE: self._set_attribute,
            Op.CALL_ATTRIBUTE: self._call_attribute,
        }

    def _describe(self, frame: Frame) -> Any:
        operations = self._operations
        env = operations.env
        spec, spec_error = _spec(env)
        now = time.monotonic()
        return {
            "action_space": operations.describe_space("action")["space"],
            "age_s": round(now - self._created, 3),
            "env_id": self._env_id,
            "episodes": operations.episodes,
            "idle_s": round(now - self.last_used, 3),
            "instance_id": self._instance_id,
            "metadata": env.metadata,
            "observation_space": operations.describe_space("observation")["space"],
            "render_mode": env.render_mode,
            "spec": spec,
            "spec_error": spec_error,
            "steps": operations.steps,
            "versions": _versions(),
        }

    def _sample(self, which: str, frame: Frame) -> Any:
        given = _object(frame) if frame.body else {}
        seed = read_seed(given)
        return {which: self._operations.sample(which, seed, given.get("mask"))}

    def _contains(self, which: str, frame: Frame) -> Any:
        value = request_head(frame).value
        if value is not None:
            given = path_value(value)
        else:
            given = read(frame)
            if isinstance(given, dict):
                if "value" not in given:
                    return {"member": self._has_info(which, given)}
                given = given["value"]
        return {"member": self._operations.contains(which, given)}

    def _has_info(self, which: str, given: dict[str, Any]) -> bool:
        # The old server compared the observation space's description, key by key.
        if which == "action":
            raise MissingParameter("value")
        try:
            return legacy.same_as_info(self._operations.space(which), given)
        except legacy.UnknownInfoKey as error:
            raise BadParameter(str(error)) from None

    def _set_generator(self, frame: Frame) -> Any:
        given = _object(frame)
        if "state" not in given:
            raise MissingParameter("state")
        self._operations.set_generator(given["state"])
        return {}

    def _attribute(self, frame: Frame) -> Any:
        value = self._operations.attribute(request_head(frame).value or "")
        if callable(value):
            return {"callable": True}
        return {"callable": False, "value": value}

    def _set_attribute(self, frame: Frame) -> Any:
        given = _object(frame)
        if "value" not in given:
            raise MissingParameter("value")
        name = request_head(frame).value or ""
        force = given.get("force", True)
        if not isinstance(force, bool):
            raise BadParameter(f"force is {force!r:.80}: expected true or false")
        done = self._operations.set_attribute(name, given["value"], force=force)
        return {"set": done}

    def _call_attribute(self, frame: Frame) -> Any:
        given = _object(frame) if frame.body else {}
        args, kwargs = given.get("args", []), given.get("kwargs", {})
        if not isinstance(args, list | tuple) or not isinstance(kwargs, dict):
            raise BadParameter("expected args as a list and kwargs as an object")
        name = request_head(frame).value or ""
        return {"value": self._operations.call_attribute(name, list(args), kwargs)}


def _object(frame: Frame) -> dict[str, Any]:
    given = read(frame)
    if not isinstance(given, dict):
        raise BadJSON("expected an object")
    return given


def _spec(env: Any) -> tuple[Any, str | None]:
    if env.spec is None:
        return None, "the environment has no spec"
    try:
        return msgspec.json.decode(env.spec.to_json()), None
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"[:500]


def _versions() -> dict[str, str]:
    return {
        "gym_http_server": gym_http_server.__version__,
        "gymnasium": importlib.metadata.version("gymnasium"),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
