"""Specs of remote environments, of which ``gymnasium.make`` makes new remote ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Self

import gymnasium
from gymnasium.envs.registration import EnvSpec, WrapperSpec, load_env_creator

from gym_http_client.envs.server import Server
from gym_http_wire.values import binary

__all__ = ["RemoteEntryPoint", "RemoteSpec"]

_PREFIX = "gym_http_client.envs."
_ENV = f"{_PREFIX}remote_env:RemoteEnv"
_VECTOR_ENV = f"{_PREFIX}remote_vector_env:RemoteVectorEnv"
_REAL_TIME = f"{_PREFIX}real_time_env:RealTimeEnv"
#: Options that only vectors have.
_OF_VECTORS = frozenset(
    {"autoreset_mode", "hosts", "nodes", "num_envs", "replace", "vector_kwargs"}
    | {"vectorization_mode"}
)
#: Options that Gymnasium passes like arguments of the environment, by class.
_OWN = {
    _ENV: ("render_mode",),
    _VECTOR_ENV: (
        "disable_env_checker",
        "max_episode_steps",
        "num_envs",
        "render_mode",
    ),
}
_MEMBERS = [each.name for each in dataclasses.fields(EnvSpec) if each.init]


class RemoteEntryPoint(str):
    """The entry point of an environment on a server; as text, that of the server.

    It is empty where the server has none. Calling it makes a new remote environment, as
    Gymnasium calls entry points.

    Args:
        name: The entry point on the server.
        kind: The entry point of the class here, as ``"module:Class"``.
        server: The server.
        env_id: The env ID.
        options: Options of the new environments.
        limit: ``max_episode_steps`` of the spec, which ``make_vec`` passes on.
        wrappers: The wrappers of the spec, which are on the server.
    """

    _given: tuple[str, Server, str, dict[str, Any], int | None, tuple[WrapperSpec, ...]]

    def __new__(
        cls,
        name: str,
        kind: str,
        server: Server,
        env_id: str,
        options: dict[str, Any],
        limit: int | None = None,
        wrappers: tuple[WrapperSpec, ...] = (),
    ) -> Self:
        """Make the text, and keep the rest beside it."""
        self = super().__new__(cls, name)
        self._given = kind, server, env_id, options, limit, wrappers
        return self

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (str(self), *self._given)

    def __deepcopy__(self, memo: Any) -> Self:
        # A copy of the server would have lost the token.
        return self

    def __call__(self, **kwargs: Any) -> Any:
        """Make a new remote environment with keyword arguments of the environment.

        Raises:
            Error: It has other wrappers on the server.
        """
        kind, server, env_id, options, limit, wrappers = self._given
        own = {
            name: kwargs.pop(name)
            for name in _OWN.get(kind, _OWN[_ENV])
            if name in kwargs
        }
        if options.get("render_mode") == f"{own.get('render_mode')}_list":
            # The server adds the wrapper that collects the frames.
            del own["render_mode"]
        if own.get("max_episode_steps", limit) == limit:
            # The server has the same.
            own.pop("max_episode_steps", None)
        own["env_kwargs"] = {**options.get("env_kwargs", {}), **kwargs}
        make: Callable[..., Any] = load_env_creator(kind)
        env = make(server, env_id, **{**options, **own})
        made = () if env.spec is None else env.spec.additional_wrappers
        if made[: len(wrappers)] != wrappers:
            # Gymnasium would import those that are missing here, by their names.
            env.close()
            raise gymnasium.error.Error(
                f"{env_id} has the wrappers {[each.name for each in made]} now, and "
                f"had {[each.name for each in wrappers]}: make it by its env ID"
            )
        return env


class _VectorKwargs(dict[str, Any]):
    """The arguments of a vector, of which ``make_vec`` makes a remote vector.

    It takes its own arguments out of them. Instead, it has to call the entry point,
    which knows them.
    """

    def pop(self, name: str, *default: Any) -> Any:
        """Remove an argument, and return what ``make_vec`` needs in its place."""
        found = super().pop(name, *default)
        instead = {
            "vector_kwargs": {},
            "vectorization_mode": "vector_entry_point",
            "wrappers": [],
        }
        return instead.get(name, found)


class _RemoteWrapper(WrapperSpec):
    """The spec of a wrapper on the server, whose arguments may be arrays."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WrapperSpec):
            return NotImplemented
        if (self.name, self.entry_point) != (other.name, other.entry_point):
            return False
        try:
            return bool(self.kwargs == other.kwargs)
        except ValueError:
            return binary.encode(self.kwargs) == binary.encode(other.kwargs)


class RemoteSpec(EnvSpec):
    """The spec of a remote environment: equal to that on the server.

    ``gymnasium.make`` and ``make_vec`` make new remote environments of it. As JSON it
    is that of the server.
    """

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def of(
        cls, spec: EnvSpec, kind: str, server: Server, env_id: str, made_with: Any
    ) -> Self:
        """Return the spec for a remote environment.

        Args:
            spec: The spec on the server.
            kind: The entry point of the environment's class here.
            server: The server.
            env_id: The env ID.
            made_with: The options that the environment was made with.
        """
        of_vector = kind == _VECTOR_ENV
        members = {name: getattr(spec, name) for name in _MEMBERS}
        single = {k: v for k, v in made_with.items() if k not in _OF_VECTORS}
        several = {k: v for k, v in spec.kwargs.items() if k in _OF_VECTORS} | made_with
        members["additional_wrappers"] = tuple(
            _RemoteWrapper(each.name, each.entry_point, each.kwargs)
            for each in spec.additional_wrappers
        )
        if kind != _REAL_TIME and not (
            spec.additional_wrappers or single.get("wrappers")
        ):
            # `gymnasium.make` adds the limit here, where it may be another one.
            single["max_episode_steps"] = -1
        if spec.entry_point is not None:
            single_kind = _ENV if of_vector else kind
            members["entry_point"] = RemoteEntryPoint(
                str(spec.entry_point),
                kind=single_kind,
                server=server,
                env_id=env_id,
                options=single,
                wrappers=members["additional_wrappers"],
            )
        # `make_vec` accepts no entry point of vectors beside wrappers. For a clock, it
        # must not import that of the server: a clock has one world.
        makes_vectors = kind != _REAL_TIME or spec.vector_entry_point is not None
        if makes_vectors and not spec.additional_wrappers:
            members["vector_entry_point"] = RemoteEntryPoint(
                str(spec.vector_entry_point or ""),
                kind=_VECTOR_ENV,
                server=server,
                env_id=env_id,
                options=several,
                limit=spec.max_episode_steps,
            )
            if of_vector:
                members["kwargs"] = _VectorKwargs(spec.kwargs)
        return cls(**members)

    def to_json(self) -> str:
        """Convert the spec to JSON, with the entry points of the server as text."""
        return EnvSpec(**self._of_server()).to_json()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EnvSpec):
            return NotImplemented
        ours = self._of_server()
        if isinstance(other, RemoteSpec):
            return ours == other._of_server()
        return ours == {name: getattr(other, name) for name in _MEMBERS}

    def _of_server(self) -> dict[str, Any]:
        members = {name: getattr(self, name) for name in _MEMBERS}
        for name in ("entry_point", "vector_entry_point"):
            if isinstance(members[name], RemoteEntryPoint):
                members[name] = str(members[name]) or None
        return members
