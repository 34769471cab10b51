"""The session of a connection: its messages, and the answers to them."""

from __future__ import annotations

import base64
import logging
from typing import Any

import msgspec

from gym_http_server.access.identities import CREATE, STEP
from gym_http_server.errors import (
    EnvCrashed,
    InstanceEnded,
    ServerRestarted,
    StepDeadline,
    TooManyInstances,
    UnknownInstance,
)
from gym_http_server.operations.members import read
from gym_http_server.operations.openenv import EPISODE, MADE_WITH
from gym_http_server.operations.table import OPERATIONS
from gym_http_server.web.api.exchange import Environ, caller_of, request_id_of
from gym_http_server.web.api.openenv.instance import HeldInstance, create
from gym_http_server.web.api.web import Web
from gym_http_server.web.api.websockets import KeptSocket
from gym_http_wire.messages import Op
from gym_http_wire.problems import BadParameter, NoRenderMode, Problem, ResetNeeded
from gym_http_wire.websocket import Close, Opcode

__all__ = ["Session"]

log = logging.getLogger("gym_http_server.api")

_decode = msgspec.json.decode
_encode = msgspec.json.encode
#: After these the instance does not exist any more.
_GONE = frozenset(
    each.default_code
    for each in (
        EnvCrashed,
        InstanceEnded,
        ServerRestarted,
        StepDeadline,
        UnknownInstance,
    )
)
#: OpenEnv's names of the limit that a create has reached, of server or token.
_LIMIT = (("active_sessions", "instances"), ("max_sessions", "max_instances"))
#: Raised by decoders.
_UNDECODABLE = (msgspec.MsgspecError, ValueError, RecursionError)
#: Statuses of requests that could not be read, and that have had no effect.
_UNREAD = (400, 413, 422)


class _Message(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    data: msgspec.Raw = msgspec.Raw()


class _Step(msgspec.Struct, forbid_unknown_fields=True):
    """A step; actions of typed clients have metadata, which has no meaning here."""

    action: msgspec.Raw
    render: bool = False
    metadata: msgspec.Raw = msgspec.Raw()


class _Result(msgspec.Struct):
    """What a host answers to a step or a reset, in plain JSON."""

    observation: msgspec.Raw
    info: msgspec.Raw
    reward: msgspec.Raw = msgspec.Raw(b"null")
    terminated: bool = False
    truncated: bool = False


_message = msgspec.json.Decoder(_Message).decode
_step = msgspec.json.Decoder(_Step).decode
_result = msgspec.json.Decoder(_Result).decode


class _Refused(Exception):
    """A message that is answered with an error.

    Args:
        code: OpenEnv's code.
        message: The error.
        more: Further members of the error.
        closes: Whether the connection ends with it.
    """

    def __init__(
        self, code: str, message: str, *, closes: bool = False, **more: Any
    ) -> None:
        super().__init__(message)
        self.data = {"message": message, "code": code, **more}
        self.closes = closes


class Session:
    """Answers the messages of a connection, and has its instance.

    Args:
        web: The collaborators of views.
        environ: The handshake.
        env_id: The environment.
        wait_s: Seconds to wait for a slot.
    """

    def __init__(self, web: Web, environ: Environ, env_id: str, wait_s: float) -> None:
        self._web = web
        self._environ = environ
        self._env_id = env_id
        self._wait_s = wait_s
        self._instance: HeldInstance | None = None
        self._made_with: dict[str, Any] = {}
        self._episode_id: str | None = None
        self._episodes = 0
        self._steps = 0

    def run(self, client: KeptSocket) -> None:
        """Answer messages until the connection is over; end the instance."""
        try:
            while (text := client.receive()) is not None:
                try:
                    answer = self._answer(text, client)
                except _Refused as refused:
                    client.send(Opcode.TEXT, _reply("error", _encode(refused.data)))
                    if refused.closes:
                        client.close(Close.NORMAL)
                except Exception:
                    extra = {"request_id": request_id_of(self._environ)}
                    log.exception("a message of OpenEnv failed", extra=extra)
                    client.close(Close.INTERNAL, "the server failed")
                else:
                    if answer is not None:
                        client.send(Opcode.TEXT, answer)
        finally:
            # Not only once the client has closed its side, too.
            self.end()

    def end(self) -> None:
        """End the instance, if there is one; a call of it that runs ends, too."""
        if self._instance is not None:
            self._instance.end()

    def _answer(self, text: bytes, client: KeptSocket) -> bytes | None:
        """Return the answer to a message; ``None`` if it needs none.

        Raises:
            _Refused: The answer is an error.
        """
        message = _read_message(text)
        try:
            match message.type:
                case "step":
                    return self._step(message.data)
                case "reset":
                    return self._reset(message.data, client)
                case "state":
                    return _reply("state", _encode(self._state()))
                case "close":
                    client.close(Close.NORMAL)
                    return None
        except Problem as problem:
            row = OPERATIONS["openenv_connect"]
            self._web.log_refusal(problem, self._environ, row)
            code = "EXECUTION_ERROR"
            if problem.status in _UNREAD and problem.code not in _GONE:
                code = "VALIDATION_ERROR"
            raise _Refused(
                code,
                problem.message,
                closes=problem.code in _GONE,
                problem=problem.code,
            ) from None
        raise _unknown_type(message.type)

    def _state(self) -> dict[str, Any]:
        instance = self._instance
        return {
            "env_id": self._env_id,
            "episode_id": self._episode_id,
            "instance_id": None if instance is None else instance.instance_id,
            "step_count": self._steps,
        }

    def _step(self, data: msgspec.Raw) -> bytes:
        caller_of(self._environ).require(STEP)
        instance = self._instance
        if instance is None:
            raise ResetNeeded("there is no episode yet: send a reset before the step")
        step = _read_step(data, instance.action_keys)
        self._check_render(instance, step.render)
        answer = instance.call(Op.STEP, b'{"action":%b}' % bytes(step.action))
        self._steps += 1
        return self._observation(instance, answer, step.render)

    def _reset(self, data: msgspec.Raw, client: KeptSocket) -> bytes:
        caller_of(self._environ).require(STEP)
        members = {**EPISODE, **MADE_WITH}
        data_given = _object_of(data)
        if "num_envs" in data_given:
            raise BadParameter(
                f"num_envs is {data_given['num_envs']!r:.80}: OpenEnv has no form for "
                "a vector; expected a connection for each environment"
            )
        given = read(members, data_given, "the data of the reset")
        made_with = {name: given[name] for name in MADE_WITH if name in given}
        instance = self._instance
        if instance is None or made_with != self._made_with:
            caller_of(self._environ).require(CREATE)
            instance = self._create(made_with, client)
        self._check_render(instance, given.get("render", False))
        episode = {name: given[name] for name in ("seed", "options") if name in given}
        answer = instance.call(Op.RESET, _encode(episode))
        self._episodes += 1
        self._steps = 0
        name = given.get("episode_id")
        self._episode_id = name or f"{instance.instance_id}-{self._episodes}"
        return self._observation(instance, answer, given.get("render", False))

    def _create(self, made_with: dict[str, Any], client: KeptSocket) -> HeldInstance:
        """Create the instance, in the place of an earlier one.

        Raises:
            _Refused: It cannot be created.
        """
        web, replaced = self._web, self._instance
        self._instance = None
        try:
            with client.end_of_client() as end:
                instance = create(
                    web,
                    self._environ,
                    self._env_id,
                    made_with,
                    wait_s=self._wait_s,
                    client=end,
                    gone=lambda: client.left,
                    replaced=replaced,
                )
        except Problem as problem:
            more: dict[str, Any] = {"problem": problem.code}
            code = "FACTORY_ERROR"
            if problem.code == TooManyInstances.default_code:
                code = "CAPACITY_REACHED"
                # Without them, it is the machine that has no room.
                for theirs, ours in _LIMIT:
                    if ours in problem.extras:
                        more[theirs] = problem.extras[ours]
            raise _Refused(code, problem.message, closes=True, **more) from None
        finally:
            if replaced is not None:
                # Unless it made room for the new one.
                replaced.end()
        if instance is not None and client.left:
            instance.end()
            instance = None
        if instance is None:
            raise _Refused("SESSION_ERROR", "the client has left", closes=True)
        instance.check_form()
        self._instance, self._made_with, self._episodes = instance, made_with, 0
        return instance

    def _check_render(self, instance: HeldInstance, wanted: bool) -> None:
        """Check that there can be a frame, before the environment is called.

        Raises:
            NoRenderMode: There can be none.
        """
        mode = instance.described["render_mode"]
        # A list of pictures would lose all but one.
        pictures = mode not in (None, "ansi", "human") and not mode.endswith("_list")
        if wanted and not pictures:
            raise NoRenderMode(
                f"render is true, and the render mode {mode or 'none'}: expected one "
                "with a picture; reset with render_mode, as 'rgb_array'",
                status=400,
            )

    def _observation(
        self, instance: HeldInstance, answer: bytes, render: bool
    ) -> bytes:
        frame = b""
        if render:
            picture = instance.call(Op.RENDER, accept=("image/png",))
            frame = b',"frame":"%b"' % base64.b64encode(picture)
        result = _result(answer)
        flags = result.terminated, result.truncated
        terminated, truncated, done = (_FLAGS[each] for each in (*flags, any(flags)))
        return _reply(
            "observation",
            b'{"observation":{"observation":%b,"terminated":%b,"truncated":%b,'
            b'"info":%b%b},"reward":%b,"done":%b,"metadata":{"instance_id":"%b"}}'
            % (
                *(bytes(result.observation), terminated, truncated),
                *(bytes(result.info), frame, bytes(result.reward), done),
                instance.instance_id.encode(),
            ),
        )


_FLAGS = {False: b"false", True: b"true"}


def _reply(kind: str, data: bytes) -> bytes:
    return b'{"type":"%b","data":%b}' % (kind.encode(), data)


def _read_message(text: bytes) -> _Message:
    try:
        return _message(text)
    except _UNDECODABLE:
        pass
    try:
        given = _decode(text)
    except _UNDECODABLE as error:
        raise _Refused("INVALID_JSON", f"the message is no JSON: {error}") from None
    if not isinstance(given, dict):
        raise _Refused("INVALID_JSON", "the message is no JSON object")
    kind = given.get("type")
    if not isinstance(kind, str):
        raise _unknown_type(kind)
    names = ", ".join(sorted(given.keys() - {"type", "data"}))
    raise _Refused(
        "VALIDATION_ERROR", f"the message has {names:.80}: expected type and data only"
    )


def _unknown_type(kind: Any) -> _Refused:
    known = "expected reset, step, state or close"
    return _Refused("UNKNOWN_TYPE", f"the type is {kind!r:.80}: {known}")


def _object_of(data: msgspec.Raw) -> dict[str, Any]:
    """Return the data of a message, which is an object.

    Raises:
        BadParameter: It is something else, or has a number out of range.
    """
    try:
        given = _decode(bytes(data) or b"{}")
    except _UNDECODABLE as error:
        raise BadParameter(
            f"data cannot be read: {error}; expected integers of at most 4,300 "
            "digits, and other numbers from -1e308 to 1e308"
        ) from None
    if not isinstance(given, dict):
        raise BadParameter(f"data is {given!r:.80}: expected an object")
    return given


def _read_step(data: msgspec.Raw, keys: frozenset[str] | None) -> _Step:
    """Read the data of a step.

    Args:
        data: The data.
        keys: Keys of the action space if it is a Dict, whose action may be the data.

    Raises:
        BadParameter: It has no action, or something else besides.
    """
    if keys is not None:
        given = _object_of(data)
        if "action" in keys or "action" not in given:
            render = "render" not in keys and given.pop("render", False)
            if "metadata" not in keys:
                given.pop("metadata", None)
            data = msgspec.Raw(_encode({"action": given, "render": render}))
    try:
        return _step(data)
    except _UNDECODABLE as error:
        raise BadParameter(
            f"the data of the step: {error}; expected an object with action, and with "
            "render to get a frame"
        ) from None
