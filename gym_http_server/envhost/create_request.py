"""Parses create requests. The supervisor does this, before it forks a host."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from typing import Any

import msgspec

from gym_http_server.envhost import plain_json
from gym_http_server.envhost.vector_request import VectorRequest, read_vector
from gym_http_server.errors import EnvRefused, UnknownEnv, did_you_mean
from gym_http_server.settings import Settings
from gym_http_wire.external.handshake import is_name
from gym_http_wire.messages import Form
from gym_http_wire.problems import BadJSON, BadParameter, MissingParameter
from gym_http_wire.values.refusal import BadValue
from gym_http_wire.values.treereading import Reading

__all__ = ["CreateRequest", "WrapperRequest", "decoded", "read_request", "read_seed"]

MAX_ENV_ID_CHARS = 200
MAX_KWARGS_BYTES = 16 * 1024
# As JSON. A tagged value of typed JSON takes two levels.
MAX_KWARGS_DEPTH = 8
MAX_TYPED_DEPTH = 16
MAX_WRAPPERS = 16
MAX_LABEL_CHARS = 64
MAX_UNKNOWN = 5
EXTERNAL = "external/"
#: Beginnings of env IDs that name worlds.
WORLDS = ("interface/", "world/")
# Before MODULE:CLASS.
_WORLDS = ("interface/", "world/")
_MEMBERS = (
    "env_id",
    "kwargs",
    "seed",
    "render_mode",
    "max_episode_steps",
    "disable_env_checker",
    "wrappers",
    "num_envs",
    "vectorization_mode",
    "vector_kwargs",
    "autoreset_mode",
    "hosts",
    "wait_s",
    "for",
    "exact_id",
    "label",
    "realtime",
    "typed",
)
# These write files anywhere, or open windows.
_REFUSED_WRAPPERS = {"RecordVideo", "HumanRendering"}


class WrapperRequest(msgspec.Struct, frozen=True):
    """A wrapper of Gymnasium's, by name, with its arguments."""

    name: str
    kwargs: dict[str, Any] = {}


class CreateRequest(msgspec.Struct, frozen=True):
    """The environment to make, and its arguments.

    Attributes:
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
        warnings: Warnings about the request.
    """

    env_id: str
    kwargs: dict[str, Any] = {}
    seed: int | None = None
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
    warnings: tuple[str, ...] = ()

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
    body: bytes, settings: Settings, form: int = Form.PLAIN
) -> CreateRequest:
    """Parse the body of a create request.

    Args:
        body: The body.
        settings: The settings with the limits of requests.
        form: Form of the answer.

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
    env_id = given.get("env_id")
    if not plain_json.is_given(env_id):
        raise MissingParameter("env_id")
    if not isinstance(env_id, str) or len(env_id) > MAX_ENV_ID_CHARS:
        raise UnknownEnv(f"{env_id!s:.80}", "an env ID is a string as 'CartPole-v1'")
    if not env_id.isprintable():
        raise UnknownEnv(repr(env_id)[1:-1])
    _check_allowed(env_id, settings)
    typed = _read_flag(given.get("typed"), "typed") or False
    return CreateRequest(
        env_id=env_id,
        kwargs=_read_env_kwargs(given.get("kwargs"), typed),
        seed=read_seed(given),
        render_mode=_read_render_mode(given.get("render_mode")),
        max_episode_steps=_read_steps(given.get("max_episode_steps")),
        disable_env_checker=_read_flag(
            given.get("disable_env_checker"), "disable_env_checker"
        ),
        wrappers=_read_wrappers(given.get("wrappers"), typed),
        vector=read_vector(given, settings),
        wait_s=_read_wait(given.get("wait_s"), env_id, settings),
        for_=_read_for(given.get("for")),
        label=_read_label(given.get("label")),
        realtime=_read_realtime(given, typed),
        typed=typed,
        exact_id=bool(_read_flag(given.get("exact_id"), "exact_id")),
        form=form if form in (Form.TYPED, Form.BINARY) else Form.PLAIN,
        warnings=tuple(_unknown_members(given)),
    )


def _unknown_members(given: dict[str, Any]) -> Iterator[str]:
    """Return warnings about unknown members, a few at most."""
    for name in [each for each in given if each not in _MEMBERS][:MAX_UNKNOWN]:
        words = did_you_mean(name, _MEMBERS)
        if not words:
            words = "; arguments of the environment go into kwargs"
        yield f"the member {name!r:.80} of the create request is unknown{words}"


def read_seed(given: dict[str, Any]) -> int | None:
    """Return the parameter ``seed``.

    Raises:
        BadParameter: It is not an integer from 0.
    """
    seed = given.get("seed")
    if not plain_json.is_given(seed):
        return None
    if type(seed) is not int or seed < 0:
        raise BadParameter(f"seed is {seed!r:.80}: expected an integer from 0, or null")
    return seed


def _check_allowed(env_id: str, settings: Settings) -> None:
    module, colon, _ = env_id.rpartition(":")
    for prefix in _WORLDS:
        if module.startswith(prefix):
            module = module.removeprefix(prefix)
            break
    if colon and module not in settings.allow_module:
        raise EnvRefused(
            f"the env ID {env_id!r} names a module to import, and {module!r} is not "
            "allowed here; start the server with --allow-module, or import the module "
            "at start with --import"
        )
    allowed = settings.allow_env
    if allowed and not any(fnmatch.fnmatchcase(env_id, glob) for glob in allowed):
        raise EnvRefused(
            f"the environment {env_id!r} is not allowed here; "
            f"allowed are {list(allowed)}"
        )


def _read_kwargs(given: object, name: str, typed: bool) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise BadParameter(f"{name} is {given!r:.80}: expected an object, or null")
    size = len(msgspec.json.encode(given))
    if size > MAX_KWARGS_BYTES:
        raise BadParameter(
            f"{name} has {size} bytes as JSON: expected {MAX_KWARGS_BYTES} at most"
        )
    most = MAX_TYPED_DEPTH if typed else MAX_KWARGS_DEPTH
    if _depth(given) > most:
        raise BadParameter(f"{name} is nested deeper than the {most} levels allowed")
    return given


def _read_env_kwargs(given: object, typed: bool) -> dict[str, Any]:
    kwargs = _read_kwargs(given, "kwargs", typed)
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
    kwargs = _decoded(request.kwargs, "kwargs")
    _check_window(kwargs)
    wrappers = tuple(
        WrapperRequest(each.name, _decoded(each.kwargs, f"wrappers[{i}].kwargs"))
        for i, each in enumerate(request.wrappers)
    )
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


def _decoded(tree: dict[str, Any], name: str) -> dict[str, Any]:
    try:
        kwargs = Reading().value(tree, 1)
    except BadValue as error:
        error.root = name
        raise BadParameter(str(error)) from None
    if not isinstance(kwargs, dict) or not all(type(key) is str for key in kwargs):
        raise BadParameter(f"{name} is {kwargs!r:.80}: expected an object with names")
    return kwargs


def _depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0


def _read_render_mode(given: object) -> str | None:
    if given is not None and (not isinstance(given, str) or not given):
        raise BadParameter(
            f"render_mode is {given!r:.80}: expected a string as 'rgb_array', or null"
        )
    if given == "human":
        raise _opens_window("render_mode")
    return given


def _opens_window(name: str) -> BadParameter:
    return BadParameter(
        f"{name} is 'human', which would open a window on the server: expected "
        "'rgb_array' (or another mode of the environment), and GET …/render/ for "
        "the frames"
    )


def _read_steps(given: object) -> int | None:
    if given is not None and (type(given) is not int or not -1 <= given < 2**63):
        raise BadParameter(
            f"max_episode_steps is {given!r:.80}: expected a positive integer, "
            "-1 for no limit, or null"
        )
    if given == 0:
        raise BadParameter("max_episode_steps is 0: expected a positive integer")
    return given


def _read_wait(given: object, env_id: str, settings: Settings) -> float:
    if env_id.startswith(EXTERNAL) and not is_name(env_id.removeprefix(EXTERNAL)):
        raise UnknownEnv(
            env_id,
            "expected external/ and a letter or digit, then up to 63 of "
            "A-Z, a-z, 0-9, _, . and -",
        )
    if given is None:
        return 0.0
    if not env_id.startswith(EXTERNAL):
        raise BadParameter(
            f"wait_s is {given!r:.80}: expected with an env ID that begins with "
            f"{EXTERNAL}, or null"
        )
    most = settings.create_deadline
    number = isinstance(given, int | float) and not isinstance(given, bool)
    if not isinstance(given, int | float) or not number or not 0 <= given < most:
        raise BadParameter(
            f"wait_s is {given!r:.80}: expected seconds from 0 to less than {most:g} "
            "(--create-deadline)"
        )
    return float(given)


def _read_realtime(given: dict[str, Any], typed: bool) -> dict[str, Any] | None:
    """Return the settings of a clock, which the host checks."""
    clock = given.get("realtime")
    worlds = str(given["env_id"]).startswith(WORLDS)
    if given.get("num_envs") is not None and (clock is not None or worlds):
        raise BadParameter(
            f"num_envs is {given['num_envs']!r:.80} beside realtime: expected null, "
            "since a clock drives a single environment"
        )
    return None if clock is None else _read_kwargs(clock, "realtime", typed)


def _read_for(given: object) -> str | None:
    if given is not None and not isinstance(given, str):
        raise BadParameter(
            f"for is {given!r:.80}: expected the name of a token, or null"
        )
    return given


def _read_label(given: object) -> str | None:
    if given is None or given in ("", []):
        return None
    if not isinstance(given, str):
        raise BadParameter(
            f"label is {given!r:.80}: expected a string of up to {MAX_LABEL_CHARS} "
            "characters, or null"
        )
    if len(given) > MAX_LABEL_CHARS:
        raise BadParameter(
            f"label has {len(given)} characters: expected {MAX_LABEL_CHARS} at most"
        )
    if not given.isprintable():
        raise BadParameter(
            f"label is {given!r:.80}: expected printable characters, without line "
            "breaks and control characters"
        )
    return given


def _read_flag(given: object, name: str) -> bool | None:
    if given is not None and type(given) is not bool:
        raise BadParameter(f"{name} is {given!r:.80}: expected true, false or null")
    return given


def _read_wrappers(given: object, typed: bool) -> tuple[WrapperRequest, ...]:
    if given is None:
        return ()
    if not isinstance(given, list) or len(given) > MAX_WRAPPERS:
        raise BadParameter(
            f"wrappers is {given!r:.80}: expected a list of at most {MAX_WRAPPERS}"
        )
    return tuple(
        _read_wrapper(item, f"wrappers[{i}]", typed) for i, item in enumerate(given)
    )


def _read_wrapper(item: object, where: str, typed: bool) -> WrapperRequest:
    if isinstance(item, str):
        item = {"name": item}
    name = item.get("name") if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(name, str):
        raise BadParameter(
            f"{where} is {item!r:.80}: expected a name as 'ClipReward', or "
            '{"name": …, "kwargs": {…}}'
        )
    if name not in _wrapper_names():
        raise BadParameter(
            f"{where} is {name!r:.80}: expected one of {sorted(_wrapper_names())}"
            + did_you_mean(name, _wrapper_names())
        )
    kwargs = _read_kwargs(item.get("kwargs"), f"{where}.kwargs", typed)
    return WrapperRequest(name, kwargs)


def _wrapper_names() -> set[str]:
    import gymnasium.wrappers

    return set(gymnasium.wrappers.__all__) - _REFUSED_WRAPPERS - {"vector"}
