"""Base class of remote environments and remote vectors."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from gym_http_client.envs.any_handle import ACTS, AnyHandle, StrictHandle
from gym_http_client.envs.remote_specs import RemoteEntryPoint, RemoteSpec
from gym_http_client.envs.server import Server, first_argument
from gym_http_client.envs.shared_rng import SharedGenerators
from gym_http_client.errors import AttributeNotSent, ServerError, ServerUnreachable
from gym_http_wire.generators import describe_generator
from gym_http_wire.messages import SPACES_VERSION
from gym_http_wire.opaque import Path, bind
from gym_http_wire.space_parsing import parse_space
from gym_http_wire.specs import rebuild_spec

__all__ = ["Remote", "attribute_read", "call_space", "read_only"]


_NAMES = ("server", "env_id")


@contextlib.contextmanager
def attribute_read(name: str) -> Iterator[None]:
    """Raise AttributeNotSent if the server cannot encode the value of an attribute."""
    try:
        yield
    except ServerError as error:
        if error.code != "unsupported-value":
            raise
        raise AttributeNotSent.of(name, error) from error


def read_only(value: Any) -> Any:
    """Return the value of an attribute, after making its arrays read-only.

    It is a copy, so what is written into its arrays would not reach the environment.
    """
    if isinstance(value, np.ndarray):
        value.setflags(write=False)
    elif isinstance(value, dict):
        for each in value.values():
            read_only(each)
    elif isinstance(value, list | tuple):
        for each in value:
            read_only(each)
    return value


def call_space(
    handle: AnyHandle,
    name: str,
    path: Path,
    method: str,
    args: list[Any],
    kwargs: dict[str, Any],
) -> Any:
    """Call a method of a part of a space of an instance."""
    given = {"args": args, "kwargs": kwargs, "method": method, "path": list(path)}
    return handle.call("POST", f"attributes/{name}/call/", given)["value"]


def _refuse_call(path: Path, method: str, args: list[Any], kwargs: Any) -> Any:
    """Refuse to call a method of a space whose environment is closed."""
    raise gymnasium.error.ClosedEnvironmentError(
        f"the environment of this space is closed, and {method} needs its server: keep "
        "the environment open, or make another one"
    )


def _is_of_a_user(kind: type[Remote]) -> bool:
    """Return whether a class is a subclass that a user wrote."""
    return kind.__module__.partition(".")[0] != __name__.partition(".")[0]


class Remote:
    """A remote instance with Gymnasium's interface.

    The names in `OWN`, those of the class, and private ones that it has when it is made
    are attributes of this object. All other attributes are read from, and set in, the
    remote environment, which has no private ones for a client. A subclass that a user
    writes may have private attributes of any name.
    """

    OWN: ClassVar[frozenset[str]] = frozenset()
    SPACES: ClassVar[tuple[str, ...]] = ("action_space", "observation_space")
    #: Name of the attribute with the last recorded call of a resumed instance.
    LAST: ClassVar[str] = "last"

    _made_by: tuple[str | Server, str] | None
    _made_with: dict[str, Any]
    _strict_infos = False
    #: Whether this object has all its private attributes.
    _held = False
    _was_reset = False

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Check that no argument of the environment has the name of one of ours.

        Raises:
            TypeError: It does, and Python would not say what to do.
        """
        for name in _NAMES[: len(args)]:
            if name in kwargs:
                raise TypeError(
                    f"{name} is given twice: an argument of the environment goes into "
                    f"env_kwargs={{{name!r}: …}}"
                )
        return super().__new__(cls)

    @classmethod
    def attach(
        cls, server: str | Server, instance_id: str, *, strict_infos: bool = False
    ) -> Self:
        """Connect to an existing instance, in its current state.

        Args:
            server: URL of the server, or a `Server` with a token.
            instance_id: The instance.
            strict_infos: As for a new environment.

        Raises:
            ServerError: There is no such instance.
            TypeError: The instance is of another kind: an environment or a vector.
        """
        call = f"{cls.__name__}.attach"
        server = first_argument(call, server, instance_id=instance_id)
        handle = server.handle(instance_id)
        return cls.taking(server, handle, strict_infos=strict_infos)

    @classmethod
    def taking(
        cls, server: Server, handle: AnyHandle, *, strict_infos: bool = False
    ) -> Self:
        """Return the adapter of an instance of a server, as `over` does.

        Raises:
            TypeError: The instance is of another kind: an environment or a vector.
        """
        env = cls.over(handle, strict_infos=strict_infos)
        if env._spec is not None:
            # Its options are unknown; the spec has most of them.
            env._set_spec(env._spec, (server, env.env_id), {})
        return env

    @classmethod
    def over(cls, handle: AnyHandle, *, strict_infos: bool = False) -> Self:
        """Return the adapter of an instance by its handle.

        Args:
            handle: The handle; from now on, only the adapter uses it.
            strict_infos: As for a new environment.

        Raises:
            TypeError: The instance is of another kind: an environment or a vector.
        """
        try:
            answer = handle.call("GET", "")
            cls._check_kind(answer)
            env = cls.__new__(cls)
            env._made_by, env._made_with = None, {}
            env._strict_infos = strict_infos
            env._hold(handle, answer)
        except BaseException:
            handle.release()
            raise
        return env

    @classmethod
    def _check_kind(cls, answer: dict[str, Any]) -> None:
        """Raise TypeError if this class does not fit the description of an instance."""

    def _hold(self, handle: AnyHandle, answer: dict[str, Any] | None = None) -> None:
        """Use an instance by its handle.

        Args:
            handle: The handle.
            answer: The description of the instance; ``None`` if it was just created.

        Raises:
            TypeError: It was, and this class does not fit it. It has ended.
        """
        if answer is None:
            answer = handle.call("GET", "")
            try:
                self._check_kind(answer)
            except TypeError:
                handle.end()
                raise
        self._handle: AnyHandle | None = (
            StrictHandle(handle) if self._strict_infos else handle
        )
        self._pid = os.getpid()
        self._shared = SharedGenerators()
        self._take_over(answer)
        self._held = True

    def _take_over(self, answer: dict[str, Any]) -> None:
        """Set this object's attributes from the description of the instance."""
        self.instance_id: str = answer["instance_id"]
        self.env_id: str = answer["env_id"]
        self._take_spaces(answer)
        self.metadata = answer["metadata"]
        self.render_mode = answer["render_mode"]
        if "resumed" in answer:
            # Only then, since the environment may have an attribute of this name.
            self.__dict__[self.LAST] = answer["resumed"]["last"]
        described = answer["spec"]
        self._spec: EnvSpec | None = None
        if described is not None:
            self._set_spec(rebuild_spec(described), self._made_by, self._made_with)

    def _take_spaces(self, answer: dict[str, Any]) -> None:
        """Set the spaces that differ from those so far, from the description."""
        self._spaces_version: int = answer.get(SPACES_VERSION, 0)
        for name in self.SPACES:
            space = parse_space(answer[name], imported=True)
            # An equal one stays, with the state of its random generator.
            if self.__dict__.get(name) == space:
                continue
            # The environment must not be referenced by its spaces.
            bind(space, functools.partial(call_space, self._open_handle(), name))
            setattr(self, name, space)

    def _updated(self, answer: Any) -> Any:
        """Return an answer, and fetch the spaces again if it says that they changed."""
        if SPACES_VERSION in answer and answer[SPACES_VERSION] != self._spaces_version:
            self._take_spaces(self._open_handle().call("GET", ""))
        return answer

    def _set_spec(
        self,
        spec: EnvSpec,
        made_by: tuple[str | Server, str] | None,
        made_with: dict[str, Any],
    ) -> None:
        """Set the spec; `gymnasium.make` makes remote environments of it, if it can."""
        self._spec = spec
        if made_by is not None:
            kind = f"{type(self).__module__}:{type(self).__qualname__}"
            server, env_id = Server.of(made_by[0]), made_by[1]
            self._spec = RemoteSpec.of(spec, kind, server, env_id, made_with)

    @property
    def spec(self) -> EnvSpec | None:
        """The environment's spec on the server; ``None`` if it has none.

        ``gymnasium.make`` makes a new remote environment of it.
        """
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        own = self._spec
        if spec is not None and own is not None:
            if isinstance(spec.entry_point, RemoteEntryPoint):
                # `gymnasium.make` has made this of a spec like ours, and sets one
                # without the wrappers that are on the server.
                return
            if spec.namespace == "gym_http":
                # So that wrappers find the limit of time.
                limits = ("max_episode_steps", "nondeterministic", "reward_threshold")
                ours = {name: getattr(own, name) for name in limits}
                spec = dataclasses.replace(spec, **ours)
        self._spec = spec

    @property
    def transport(self) -> str:
        """The transport of steps: ``"stream"``, or ``"rest"`` if there is no stream."""
        return self._open_handle().transport

    def _end(self) -> None:
        handle, self._handle = self.__dict__.get("_handle"), None
        if handle is not None and self._pid == os.getpid():
            handle.end()
            # There are none if their description could not be read.
            for name in self.__dict__.keys() & self.SPACES:
                bind(getattr(self, name), _refuse_call)

    @property
    def np_random(self) -> Any:
        """The random generator, or a tuple of them, one for each environment.

        The object is a copy of the server's generator, kept in the same state: draws
        from it advance the environment's generator, and the reverse. While it is
        referenced, answers to resets and steps contain its state, and each other call
        needs one more request.
        """
        self._send_draws()
        return self._shared.renew(self._described_generator())

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        if not isinstance(value, np.random.Generator):
            raise TypeError(
                f"np_random is {value!r:.80}: expected a numpy.random.Generator"
            )
        given = {**describe_generator(value), "replace": True}
        self._open_handle().call("POST", "generator/", given)
        self._shared.adopt(value, self._described_generator())

    @property
    def np_random_seed(self) -> Any:
        """The seed that the random generator was made from, or a tuple of them.

        It is -1 if the generator was set.
        """
        return self._described_generator()["seed"]

    def _described_generator(self) -> dict[str, Any]:
        described: dict[str, Any] = self._open_handle().call("GET", "generator/")
        return described

    def _send_draws(self) -> None:
        """Set the server's generators to the shared ones, if they were drawn from.

        This is a separate request. If a step or reset with the state failed, it would
        be unknown whether it drew, and sending the state again would undo its draws.
        """
        if not self._shared:
            return
        changed = self._shared.drawn()
        if changed is not None:
            self._open_handle().call("POST", "generator/", changed)
            self._shared.mark_sent()
        self._shared.release()

    def _renew_shared(self, described: dict[str, Any] | None = None) -> None:
        """Set the shared generators to the server's, if they are still referenced."""
        self._shared.release()
        if self._shared:
            if described is None:
                described = self._described_generator()
            self._shared.renew(described)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "_handle" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        with attribute_read(name):
            answer = self._request("GET", f"attributes/{name}/")
        return self._method(name) if answer["callable"] else read_only(answer["value"])

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "render_mode" and name in self.__dict__:
            raise AttributeError(
                f"render_mode is {self.render_mode!r} and cannot be changed: expected "
                "when the environment is made, as render_mode=…"
            )
        if not self._held or self._is_own(name):
            super().__setattr__(name, value)
        else:
            self._set_remote(name, value)

    def _set_remote(self, name: str, value: Any, *, force: bool = True) -> bool:
        if name.startswith("_"):
            raise AttributeError(
                f"{name!r:.80} is private, and the environment on the server would not "
                "see it: expected a public attribute, or an argument when the "
                "environment is made, such as max_episode_steps=1000"
            )
        given = {"value": value, "force": force}
        return bool(self._request("POST", f"attributes/{name}/", given)["set"])

    def _method(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return self._called(name, *args, **kwargs)
            except ServerError as error:
                if error.code == "unsupported-value":
                    error.add_note(
                        f"{name} was called, and its result cannot be sent; code that "
                        "needs it, as a wrapper, has to run on the server"
                    )
                raise

        call.__name__ = name
        return call

    def _called(self, method: str, /, *args: Any, **kwargs: Any) -> Any:
        given = {"args": list(args), "kwargs": kwargs}
        return self._request("POST", f"attributes/{method}/call/", given)["value"]

    def _request(self, method: str, path: str, given: Any = None) -> Any:
        """Send a request of the instance, and synchronize the generators."""
        handle = self._handle
        if handle is None:
            handle = self._open_handle()
        if not self._shared.generators:
            answer = handle.call(method, path, given)
            # Nearly all answers end here, so this saves a call.
            return self._updated(answer) if SPACES_VERSION in answer else answer
        self._send_draws()
        if not self._shared or method == "GET":
            return self._updated(handle.call(method, path, given))
        if path in ACTS:
            given = {**given, "wants_generator": True}
        return self._request_and_renew(handle.call, method, path, given)

    def _request_and_renew(self, call: Callable[..., Any], *args: Any) -> Any:
        """Send a request for which the environment may draw, and renew the generators.

        The answer of a reset or step describes them, if it was requested.
        """
        try:
            answer = call(*args)
        except ServerUnreachable:
            # It is unknown whether the environment drew.
            raise
        except Exception:
            with contextlib.suppress(ServerError):
                self._renew_shared()
            raise
        self._renew_shared(
            answer.get("generator") if isinstance(answer, dict) else None
        )
        return self._updated(answer)

    def _begin(self, seed: Any, options: dict[str, Any] | None) -> Any:
        """Reset the environment, and return the answer."""
        answer = self._request("POST", "reset/", {"seed": seed, "options": options})
        self._was_reset = True
        return answer

    def _open_handle(self) -> AnyHandle:
        if self._handle is None:
            raise gymnasium.error.ClosedEnvironmentError(
                f"{self!r} is closed; make another one"
            )
        return self._handle

    def _is_own(self, name: str) -> bool:
        return (
            name in self.OWN
            or name in self.__dict__
            or hasattr(type(self), name)
            or (name.startswith("_") and _is_of_a_user(type(self)))
        )

    def __getstate__(self) -> dict[str, Any]:
        if self._made_by is None:
            raise TypeError(f"{self!r} was attached to, so no other one can be made")
        return {"made_by": self._made_by, "made_with": self._made_with}

    def __copy__(self) -> Self:
        return self._copied(copy.copy(self.__getstate__()))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self._copied(copy.deepcopy(self.__getstate__(), memo))

    def _copied(self, state: dict[str, Any]) -> Self:
        """Return another instance, and warn if it lacks the state of this one."""
        if self._was_reset:
            branches = (
                "; branches() of the environment itself plays from its present state"
                if hasattr(type(self), "branches")
                else ""
            )
            warnings.warn(
                f"a copy of {self!r} is a new instance, without the state of this one: "
                f"reset the copy before you step it{branches}",
                # Where copy.copy or copy.deepcopy was called.
                stacklevel=4,
            )
        made = type(self).__new__(type(self))
        made.__setstate__(state)
        return made

    def __setstate__(self, state: dict[str, Any]) -> None:
        server, env_id = state["made_by"]
        self.__init__(server, env_id, **state["made_with"])  # type: ignore[misc]

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()

    def close(self) -> None:
        """Close the environment and end its instance; repeated calls do nothing."""
        self._end()
