"""Specs of remote environments, of which ``gymnasium.make`` makes new remote ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Self

from gymnasium.envs.registration import EnvSpec, load_env_creator

from gym_http_client.envs.server import Server

__all__ = ["RemoteEntryPoint", "RemoteSpec"]

_PREFIX = "gym_http_client.envs."
_ENV = f"{_PREFIX}remote_env:RemoteEnv"
_VECTOR_ENV = f"{_PREFIX}remote_vector_env:RemoteVectorEnv"
#: Options that only vectors have.
_OF_VECTORS = frozenset(
    {"autoreset_mode", "hosts", "num_envs", "vector_kwargs", "vectorization_mode"}
)
_MEMBERS = [each.name for each in dataclasses.fields(EnvSpec) if each.init]


class RemoteEntryPoint(str):
    """The entry point of an environment on a server; as text, that of the server.

    Calling it makes a new remote environment, as Gymnasium calls entry points.

    Args:
        name: The entry point on the server.
        kind: The entry point of the class here, as ``"module:Class"``.
        server: The server.
        env_id: The env ID.
        options: Options of the new environments.
    """

    _given: tuple[str, Server, str, dict[str, Any]]

    def __new__(
        cls, name: str, kind: str, server: Server, env_id: str, options: dict[str, Any]
    ) -> Self:
        """Make the text, and keep the rest beside it."""
        self = super().__new__(cls, name)
        self._given = kind, server, env_id, options
        return self

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (str(self), *self._given)

    def __deepcopy__(self, memo: Any) -> Self:
        # A copy of the server would have lost the token.
        return self

    def __call__(self, **kwargs: Any) -> Any:
        """Make a new remote environment with keyword arguments of the environment."""
        kind, server, env_id, options = self._given
        if options.get("render_mode") == f"{kwargs.get('render_mode')}_list":
            # The server adds the wrapper that collects the frames.
            kwargs = {**kwargs, "render_mode": options["render_mode"]}
        make: Callable[..., Any] = load_env_creator(kind)
        return make(server, env_id, **{**options, **kwargs})


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
        members = {name: getattr(spec, name) for name in _MEMBERS}
        single = {k: v for k, v in made_with.items() if k not in _OF_VECTORS}
        if kind == _ENV and not (spec.additional_wrappers or single.get("wrappers")):
            # `gymnasium.make` adds the limit here, where it may be another one.
            single["max_episode_steps"] = -1
        for name, its_kind, options in (
            ("entry_point", _ENV if kind == _VECTOR_ENV else kind, single),
            ("vector_entry_point", _VECTOR_ENV, made_with),
        ):
            if members[name] is not None:
                members[name] = RemoteEntryPoint(
                    members[name], its_kind, server, env_id, options
                )
        return cls(**members)

    def to_json(self) -> str:
        """Convert the spec to JSON, with the entry points of the server as text."""
        members = {name: getattr(self, name) for name in _MEMBERS}
        for name in ("entry_point", "vector_entry_point"):
            if isinstance(members[name], str):
                members[name] = str(members[name])
        return EnvSpec(**members).to_json()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EnvSpec):
            return NotImplemented
        ours, theirs = (
            [getattr(each, name) for name in _MEMBERS] for each in (self, other)
        )
        return ours == theirs
