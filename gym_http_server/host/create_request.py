"""Parses create requests. The supervisor does this, before it forks a host."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from gym_http_server.access.allowed_envs import WORLDS, check_allowed
from gym_http_server.config.env_commands import EXTERNAL, command_of
from gym_http_server.config.settings import Settings
from gym_http_server.errors import UnknownEnv
from gym_http_server.host import plain_json
from gym_http_server.host.vector_request import VectorRequest, read_vector
from gym_http_server.operations.create_bodies import ARGUMENTS
from gym_http_server.operations.instances import CREATE
from gym_http_server.operations.members import (
    Choice,
    Integer,
    Member,
    Members,
    Seconds,
    read,
    refusal,
    unknown_members,
)
from gym_http_wire.external.handshake import is_name
from gym_http_wire.messages import Form
from gym_http_wire.problems import BadJSON, BadParameter, MissingParameter
from gym_http_wire.values import binary
from gym_http_wire.values.refusal import BadValue
from gym_http_wire.values.treereading import Reading

__all__ = [
    "POOLS",
    "Arguments",
    "CreateRequest",
    "ResumeRequest",
    "WrapperRequest",
    "decoded",
    "read_request",
    "with_arguments",
]

MAX_ENV_ID_CHARS = 200
# As JSON. A tagged value of typed JSON takes two levels.
MAX_KWARGS_DEPTH = 8
MAX_TYPED_DEPTH = 16
#: Beginning of env IDs of EnvPool's environments.
POOLS = "envpool/"
_ELSE = "; arguments of the environment go into kwargs"
# These write files anywhere, or open windows.
_REFUSED_WRAPPERS = {"RecordVideo", "HumanRendering"}


class WrapperRequest(msgspec.Struct, frozen=True):
    """A wrapper of Gymnasium's, by name, with its arguments."""

    name: str
    kwargs: dict[str, Any] = {}


class Arguments(msgspec.Struct, frozen=True):
    """Arguments that are in memory of their own, since they may be large.

    Attributes:
        form: Form of the body in that memory.
        size: Bytes of that body.
        digest: SHA-256 of that body, in hex.
    """

    form: int
    size: int
    digest: str


class ResumeRequest(msgspec.Struct, frozen=True):
    """The recording that an instance resumes.

    Attributes:
        directory: Its directory, from the client.
        step: Steps to take; ``None``: all recorded ones.
        verify: Whether results must be the recorded ones.
    """

    directory: str
    step: int | None = None
    verify: bool = True


class CreateRequest(msgspec.Struct, frozen=True):
    """The environment to make, and its arguments.

    Attributes:
        api: Interface of an environment of several agents, ``"parallel"`` or
            ``"aec"``; ``None``: the first that it has.
        wait_s: Seconds to wait for external environments to connect.
        for_: Name of the token that is to own the instance; ``None``: the token of the
            request.
        realtime: The settings of a clock; ``None``: the environment waits for its
            agent.
        label: Text by which people find the instance in a list; ``None``: no label.
        typed: Whether arguments, also of wrappers and vectors, are trees of typed JSON.
            The host decodes them, since objects may be large.
        exact_id: Whether a retired version is refused, as ``gymnasium.make`` does,
            instead of replaced by the newest.
        form: Form of the answer.
        arguments: The memory from which the host takes ``kwargs`` and ``wrappers``;
            ``None`` if they are here.
        warnings: Warnings about the request.
        record: Directory in which to record from the beginning; ``None``: no recording.
        resume: The recording to resume; ``None``: the instance is as it is made.
    """

    env_id: str
    kwargs: dict[str, Any] = {}
    seed: int | None = None
    api: str | None = None
    render_mode: str | None = None
    max_episode_steps: int | None = None
    disable_env_checker: bool | None = None
    wrappers: tuple[WrapperRequest, ...] = ()
    vector: VectorRequest | None = None
    wait_s: float = 0.0
    for_: str | None = None
    label: str | None = None
    realtime: dict[str, Any] | None = None
    typed: bool = False
    exact_id: bool = False
    form: int = Form.PLAIN
    arguments: Arguments | None = None
    warnings: tuple[str, ...] = ()
    record: str | None = None
    resume: ResumeRequest | None = None

    @property
    def external(self) -> bool:
        """Whether the environment is external."""
        return self.env_id.startswith(EXTERNAL)

    @property
    def names_world(self) -> bool:
        """Whether a world is made, and no Gymnasium environment."""
        return self.env_id.startswith(WORLDS)

    @property
    def clocked(self) -> bool:
        """Whether the instance has a clock."""
        return self.realtime is not None or self.names_world


def read_request(
    body: bytes,
    settings: Settings,
    form: int = Form.PLAIN,
    *,
    typed: bool = False,
    arguments: Arguments | None = None,
    resumed: bool = False,
) -> CreateRequest:
    """Parse the body of a create request.

    Args:
        body: The body, in JSON.
        settings: The settings with the limits of requests.
        form: Form of the answer.
        typed: Whether the body is typed JSON.
        arguments: The memory with ``kwargs`` and ``wrappers``, if they are not in the
            body.
        resumed: Whether a web worker has made the body from a recording that the
            client may resume.

    Raises:
        BadJSON: The body is not a JSON object.
        MissingParameter: It has no env ID.
        BadParameter: A parameter has an invalid value.
        UnknownEnv: The ID is malformed.
        EnvRefused: The settings forbid this environment.
    """
    try:
        given = plain_json.loads(body)
    except plain_json.BadJSON as error:
        raise BadJSON(str(error)) from None
    if not isinstance(given, dict):
        raise BadJSON()
    found = read(_members(settings), given, "the create request", ignores=True)
    if "resume" in found and not resumed:
        # Web workers check that the rest of the request is the recorded one.
        raise BadParameter("recordings are resumed over HTTP: expected POST /v1/envs/")
    _check_node(found.get("node"), settings)
    if "env_id" not in found:
        raise MissingParameter("env_id")
    env_id = _read_env_id(found["env_id"], settings)
    typed = typed or found.get("typed", CREATE["typed"].default)
    return CreateRequest(
        env_id=env_id,
        kwargs=_read_env_kwargs(found, typed),
        seed=found.get("seed"),
        api=_read_api(found),
        render_mode=_read_render_mode(found.get("render_mode")),
        max_episode_steps=_read_steps(found.get("max_episode_steps")),
        disable_env_checker=found.get("disable_env_checker"),
        wrappers=_read_wrappers(found, typed),
        vector=_read_vector(found, env_id, settings),
        wait_s=_read_wait(found, env_id),
        for_=found.get("for"),
        label=found.get("label"),
        realtime=_read_realtime(found, typed),
        typed=typed,
        exact_id=found.get("exact_id", CREATE["exact_id"].default),
        form=form if form in (Form.TYPED, Form.BINARY) else Form.PLAIN,
        arguments=arguments,
        warnings=tuple(unknown_members(CREATE, given, "the create request", _ELSE)),
        record=found.get("record"),
        resume=_read_resume(found),
    )


def _members(settings: Settings) -> Members:
    """Return the members of a create, with the limits of the settings."""
    wait_s = Seconds(
        0,
        math.nextafter(settings.create_deadline, 0),
        note="(less than --create-deadline)",
    )
    count = Integer(1, settings.max_num_envs, "(--max-num-envs)")
    return {**CREATE, "num_envs": Member(count), "wait_s": Member(wait_s)}


def _read_resume(found: dict[str, Any]) -> ResumeRequest | None:
    if "resume" in found:
        verify = found.get("verify", CREATE["verify"].default)
        return ResumeRequest(found["resume"], found.get("step"), verify)
    for name in ("step", "verify"):
        if name in found:
            raise BadParameter(
                f"{name} is {found[name]!r:.80} without resume: expected with resume, "
                "which is the directory of a recording"
            )
    return None


def _check_node(name: str | None, settings: Settings) -> None:
    """Refuse the name of another server; in a fleet, requests go to the right one."""
    if name not in (None, settings.node_name):
        expected = settings.node_name or "none, as this server is in no fleet"
        raise BadParameter(f"node is {name!r:.80}: expected {expected}")


def _read_env_id(env_id: object, settings: Settings) -> str:
    if not isinstance(env_id, str) or len(env_id) > MAX_ENV_ID_CHARS:
        raise UnknownEnv(f"{env_id!s:.80}", "an env ID is a string as 'CartPole-v1'")
    if not env_id.isprintable():
        raise UnknownEnv(repr(env_id)[1:-1])
    check_allowed(env_id, settings)
    command = command_of(settings.env_commands, env_id)
    if (
        command is None
        and env_id.startswith(EXTERNAL)
        and not is_name(env_id.removeprefix(EXTERNAL))
    ):
        raise UnknownEnv(
            env_id,
            "expected external/ and a letter or digit, then up to 63 of "
            "A-Z, a-z, 0-9, _, . and -",
        )
    return env_id


def _read_vector(
    found: dict[str, Any], env_id: str, settings: Settings
) -> VectorRequest | None:
    vector = read_vector(found, settings)
    if vector is not None and command_of(settings.env_commands, env_id) is not None:
        note = "(--max-vector-processes, since each is a process of the command)"
        most = settings.max_vector_processes
        Integer(1, most, note).read(vector.num_envs, "num_envs")
    return vector


def _check_kwargs(given: dict[str, Any], name: str, typed: bool) -> dict[str, Any]:
    """Check that arguments are not nested too deep; return them."""
    most = MAX_TYPED_DEPTH if typed else MAX_KWARGS_DEPTH
    if _depth(given) > most:
        raise BadParameter(f"{name} is nested deeper than the {most} levels allowed")
    return given


def _read_env_kwargs(found: dict[str, Any], typed: bool) -> dict[str, Any]:
    kwargs = _check_kwargs(found.get("kwargs", {}), "kwargs", typed)
    _check_window(kwargs)
    return kwargs


def _check_window(kwargs: dict[str, Any]) -> None:
    # It can stand in kwargs, too.
    mode = kwargs.get("render_mode")
    if isinstance(mode, str) and mode == "human":
        raise _opens_window("kwargs.render_mode")


def decoded(request: CreateRequest) -> CreateRequest:
    """Return a request whose typed arguments are decoded.

    Raises:
        BadParameter: An argument is not typed JSON, or has an invalid value.
    """
    if not request.typed:
        return request
    kwargs, wrappers = _decoded_arguments(request.kwargs, request.wrappers)
    clock = request.realtime
    if clock is not None:
        clock = _decoded(clock, "realtime")
    vector = request.vector
    if vector is not None:
        typed = _decoded(vector.kwargs, "vector_kwargs")
        vector = msgspec.structs.replace(vector, kwargs=typed)
    return msgspec.structs.replace(
        request, kwargs=kwargs, wrappers=wrappers, vector=vector, realtime=clock
    )


def with_arguments(request: CreateRequest, body: bytearray) -> CreateRequest:
    """Return a decoded request with the arguments that are in memory of their own.

    Args:
        request: The request.
        body: The bytes of that memory; large arrays of the arguments may keep it.

    Raises:
        BadJSON: It is not JSON.
        BadParameter: An argument has an invalid value.
    """
    arguments = request.arguments
    exact = arguments is not None and arguments.form == Form.BINARY
    try:
        given: Any
        if exact:
            given = binary.decode_in_place(memoryview(body))
        else:
            given = plain_json.loads(bytes(body))
    except BadValue as error:
        error.root = "the create request"
        raise BadParameter(str(error)) from None
    except plain_json.BadJSON as error:
        raise BadJSON(str(error)) from None
    members = {name: CREATE[name] for name in ARGUMENTS}
    found = read(members, given, "the create request", ignores=True)
    kwargs = _read_env_kwargs(found, request.typed)
    wrappers = _read_wrappers(found, request.typed)
    if exact:
        # JSON has other names than strings for no member.
        _named(kwargs, "kwargs")
        for i, each in enumerate(wrappers):
            _named(each.kwargs, f"wrappers[{i}].kwargs")
    elif request.typed:
        kwargs, wrappers = _decoded_arguments(kwargs, wrappers)
    return msgspec.structs.replace(request, kwargs=kwargs, wrappers=wrappers)


def _decoded_arguments(
    trees: dict[str, Any], wrappers: tuple[WrapperRequest, ...]
) -> tuple[dict[str, Any], tuple[WrapperRequest, ...]]:
    kwargs = _decoded(trees, "kwargs")
    _check_window(kwargs)
    return kwargs, tuple(
        WrapperRequest(each.name, _decoded(each.kwargs, f"wrappers[{i}].kwargs"))
        for i, each in enumerate(wrappers)
    )


def _decoded(tree: dict[str, Any], name: str) -> dict[str, Any]:
    try:
        kwargs = Reading().value(tree, 1)
    except BadValue as error:
        error.root = name
        raise BadParameter(str(error)) from None
    return _named(kwargs, name)


def _named(kwargs: Any, name: str) -> dict[str, Any]:
    if not isinstance(kwargs, dict) or not all(type(key) is str for key in kwargs):
        raise BadParameter(f"{name} is {kwargs!r:.80}: expected an object with names")
    return kwargs


def _depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0


def _read_render_mode(mode: str | None) -> str | None:
    if mode == "human":
        raise _opens_window("render_mode")
    return mode


def _opens_window(name: str) -> BadParameter:
    return BadParameter(
        f"{name} is 'human', which would open a window on the server: expected "
        "'rgb_array' (or another mode of the environment), and GET …/render/ for "
        "the frames"
    )


def _read_api(found: dict[str, Any]) -> str | None:
    api: str | None = found.get("api")
    if api is not None and found["env_id"].startswith((EXTERNAL, *WORLDS)):
        raise BadParameter(
            f"api is {api!r}: expected with an environment of several agents, or null"
        )
    return api


def _read_steps(count: int | None) -> int | None:
    if count == 0:
        kind = CREATE["max_episode_steps"].kind
        raise refusal("max_episode_steps", count, kind.expected)
    return count


def _read_wait(found: dict[str, Any], env_id: str) -> float:
    if "wait_s" in found and not env_id.startswith(EXTERNAL):
        raise BadParameter(
            f"wait_s is {found['wait_s']!r:.80}, and {env_id!r:.80} is no external "
            f"environment: expected no wait_s, or an env ID that begins with "
            f"{EXTERNAL}; an argument of the environment goes into kwargs, in Python "
            "env_kwargs"
        )
    return float(found.get("wait_s", CREATE["wait_s"].default))


def _read_realtime(found: dict[str, Any], typed: bool) -> dict[str, Any] | None:
    """Return the settings of a clock, which the host checks."""
    clock = found.get("realtime")
    worlds = found["env_id"].startswith(WORLDS)
    if "num_envs" in found and (clock is not None or worlds):
        raise BadParameter(
            f"num_envs is {found['num_envs']} beside realtime: expected null, "
            "since a clock drives a single environment"
        )
    return None if clock is None else _check_kwargs(clock, "realtime", typed)


def _read_wrappers(found: dict[str, Any], typed: bool) -> tuple[WrapperRequest, ...]:
    return tuple(
        _read_wrapper(each, f"wrappers[{i}]", typed)
        for i, each in enumerate(found.get("wrappers", ()))
    )


def _read_wrapper(
    item: str | dict[str, Any], where: str, typed: bool
) -> WrapperRequest:
    if isinstance(item, str):
        item = {"name": item}
    name = Choice(sorted(_wrapper_names())).read(item["name"], where)
    kwargs = _check_kwargs(item.get("kwargs", {}), f"{where}.kwargs", typed)
    return WrapperRequest(name, kwargs)


def _wrapper_names() -> set[str]:
    import gymnasium.wrappers

    return set(gymnasium.wrappers.__all__) - _REFUSED_WRAPPERS - {"vector"}
