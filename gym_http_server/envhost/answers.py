"""From the frame of a request to the frame of its answer, around one environment.

A body is decoded here once and its answer encoded here once; web workers pass the
bytes on as they are.
"""

from __future__ import annotations

import importlib.metadata
import platform
import time
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

import gym_http_server
from gym_http_server.envhost import pictures, plain
from gym_http_server.envhost.making import read_seed
from gym_http_server.envhost.monitor import Monitor
from gym_http_wire import legacy
from gym_http_wire.frames import Frame
from gym_http_wire.messages import (
    Form,
    Op,
    answer,
    problem_answer,
    request_head,
)
from gym_http_wire.operations import Operations
from gym_http_wire.problems import (
    AnswerTooLarge,
    BadJSON,
    BadParameter,
    MissingParameter,
    MonitorActive,
    NotAcceptable,
    Problem,
)

__all__ = ["Answers"]

Json = dict[str, Any]


class Answers:
    """Answers the requests for one instance.

    Args:
        operations: The environment.
        instance_id: Its instance ID.
        env_id: The env ID that was asked for.
        data_dir: Directory below which monitors write.
        max_answer: Bytes that an answer's body may have.
    """

    def __init__(
        self,
        operations: Operations,
        *,
        instance_id: str,
        env_id: str,
        data_dir: str,
        max_answer: int,
    ) -> None:
        self.operations = operations
        self.last_used = self._created = time.monotonic()
        self._instance_id = instance_id
        self._env_id = env_id
        self._data_dir = data_dir
        self._max_answer = max_answer
        self._monitor: Monitor | None = None
        self._handlers: dict[int, Callable[[Frame], Frame]] = {
            Op.RESET: self._reset,
            Op.STEP: self._step,
            Op.RENDER: self._render,
            Op.DESCRIBE: self._describe,
            Op.ACTION_SPACE: lambda frame: self._space("action"),
            Op.OBSERVATION_SPACE: lambda frame: self._space("observation"),
            Op.ACTION_SAMPLE: lambda frame: self._sample("action", frame),
            Op.OBSERVATION_SAMPLE: lambda frame: self._sample("observation", frame),
            Op.ACTION_CONTAINS: lambda frame: self._contains("action", frame),
            Op.OBSERVATION_CONTAINS: lambda frame: self._contains("observation", frame),
            Op.MONITOR_START: self._monitor_start,
            Op.MONITOR_CLOSE: self._monitor_close,
        }

    def answer(self, frame: Frame) -> Frame:
        """Answer a request; problems are answers too."""
        try:
            reply = self._handlers[frame.kind](frame)
            if len(reply.body) > self._max_answer:
                raise AnswerTooLarge(
                    f"the answer has {len(reply.body)} bytes; this server gives "
                    f"{self._max_answer} at most"
                )
        except Problem as problem:
            reply = problem_answer(problem)
        except Exception as error:
            import traceback

            traceback.print_exc()
            what = f"the host failed with {type(error).__name__}: {error}"[:500]
            reply = problem_answer(Problem(what))
        return reply._replace(number=frame.number)

    def close(self) -> None:
        """Close monitor and environment."""
        if self._monitor is not None:
            self._monitor.close()
            self._monitor = None
        self.operations.close()

    def _reset(self, frame: Frame) -> Frame:
        given = _optional_object(frame.body)
        seed = read_seed(given)
        options = given.get("options")
        if options is not None and not isinstance(options, dict):
            raise BadParameter(
                f"options is {options!r:.80}: expected an object, or null"
            )
        observation, info = self.operations.reset(seed, options)
        if self._monitor is not None:
            self._monitor.reset(seed)
        return _json({"info": info, "observation": observation})

    def _step(self, frame: Frame) -> Frame:
        action = self.operations.action_of(required(frame.body, "action"))
        observation, reward, terminated, truncated, info = self.operations.step(action)
        terminated, truncated = bool(terminated), bool(truncated)
        if not isinstance(reward, (float, np.floating)):
            reward = float(reward)  # old clients want a float literal
        if self._monitor is not None:
            self._monitor.step(reward, terminated, truncated)
        return _json(
            {
                "done": terminated or truncated,
                "info": info,
                "observation": observation,
                "reward": reward,
                "terminated": terminated,
                "truncated": truncated,
            }
        )

    def _render(self, frame: Frame) -> Frame:
        media = pictures.choose(request_head(frame).accept)
        mode = self.operations.env.render_mode
        if media == pictures.PNG and mode is not None and mode.endswith("_list"):
            # Rendering would throw the frames away.
            raise NotAcceptable(
                f"render_mode is {mode!r}, which gives several frames; "
                f"ask for {pictures.RAW} or {pictures.JSON} with Accept"
            )
        head, body = pictures.encode(self.operations.render(), media)
        return answer(
            200, body, head, form=Form.OTHER if head.content_type else Form.PLAIN
        )

    def _describe(self, frame: Frame) -> Frame:
        env = self.operations.env
        spec, spec_error = _spec(env)
        now = time.monotonic()
        return _json(
            {
                "action_space": self.operations.describe_space("action")["space"],
                "age_s": round(now - self._created, 3),
                "env_id": self._env_id,
                "episodes": self.operations.episodes,
                "idle_s": round(now - self.last_used, 3),
                "instance_id": self._instance_id,
                "metadata": env.metadata,
                "observation_space": self.operations.describe_space("observation")[
                    "space"
                ],
                "render_mode": env.render_mode,
                "spec": spec,
                "spec_error": spec_error,
                "steps": self.operations.steps,
                "versions": _versions(),
            }
        )

    def _space(self, which: str) -> Frame:
        return _json(self.operations.describe_space(which))

    def _sample(self, which: str, frame: Frame) -> Frame:
        given = _loads(frame.body) if frame.body else {}
        if not isinstance(given, dict):
            raise BadJSON("expected an object with seed or mask, or nothing")
        seed = read_seed(given)
        return _json({which: self.operations.sample(which, seed, given.get("mask"))})

    def _contains(self, which: str, frame: Frame) -> Frame:
        value = request_head(frame).value
        if value is not None:
            given = _value_in_path(value)
        else:
            given = _loads(frame.body)
            if isinstance(given, dict):
                if "value" not in given:
                    return self._contains_info(which, given)
                given = given["value"]
        return _json({"member": self.operations.contains(which, given)})

    def _contains_info(self, which: str, given: Json) -> Frame:
        # The old server compared the observation space's description, key by key.
        if which == "action":
            raise MissingParameter("value")
        try:
            member = legacy.same_as_info(self.operations.space(which), given)
        except legacy.UnknownInfoKey as error:
            raise BadParameter(str(error)) from None
        return _json({"member": member})

    def _monitor_start(self, frame: Frame) -> Frame:
        directory = required(frame.body, "directory")
        given = _loads(frame.body)
        if not isinstance(directory, str) or not isinstance(given, dict):
            raise BadParameter(f"directory is {directory!r:.80}: expected a string")
        if self._monitor is not None:
            raise MonitorActive(
                "the instance is being monitored; close the monitor first"
            )
        self._monitor = Monitor(
            self._data_dir,
            directory,
            force=_flag(given, "force"),
            resume=_flag(given, "resume"),
        )
        return answer(204, form=Form.NONE)

    def _monitor_close(self, frame: Frame) -> Frame:
        if self._monitor is not None:
            self._monitor.close()
            self._monitor = None
        return answer(204, form=Form.NONE)


def required(body: bytes, name: str) -> Any:
    """Read a required parameter from a JSON object.

    Raises:
        BadJSON: The body is no JSON object.
        MissingParameter: It is absent, null, an empty string or an empty list.
    """
    given = _loads(body)
    if not isinstance(given, dict):
        raise BadJSON()
    value = given.get(name)
    if value is None or value == "" or value == []:
        raise MissingParameter(name)
    return value


def _loads(body: bytes) -> Any:
    try:
        return plain.loads(body)
    except plain.BadJSON as error:
        raise BadJSON(str(error)) from None


def _optional_object(body: bytes) -> Json:
    # Old clients send null, "", {}, [], a form or nothing where nothing is wanted.
    try:
        given = plain.loads(body) if body else None
    except plain.BadJSON:
        return {}
    return given if isinstance(given, dict) else {}


def _value_in_path(text: str) -> Any:
    try:
        return plain.loads(text.encode())
    except (plain.BadJSON, UnicodeEncodeError):
        raise BadParameter(
            f"the path ends in {text!r:.80}: expected a value in JSON, as 1 or [0.5]"
        ) from None


def _flag(given: Json, name: str) -> bool:
    # The old Lua client sends "true" and "false".
    value = given.get(name)
    if value in (None, "", 0):
        return False
    if value in (1, "true", "True"):
        return True
    if value in ("false", "False"):
        return False
    raise BadParameter(f"{name} is {value!r:.80}: expected true or false")


def _json(value: Any) -> Frame:
    return answer(200, plain.dumps(value))


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
