"""Attributes, methods and the random generator of an environment, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from gym_http_core.env_errors import env_call, env_exceptions, text_of
from gym_http_wire.generators import (
    describe_generator,
    rebuild_generator,
    restore_generator,
)
from gym_http_wire.problems import BadParameter, NoAttribute, Problem

__all__ = ["Attributes", "GeneratorSerials", "RemoteGenerator", "get_attribute"]


#: Methods of environments and vectors whose first argument names an attribute.
_BY_NAME = frozenset(
    {
        "call",
        "call_async",
        "get_attr",
        "get_wrapper_attr",
        "has_wrapper_attr",
        "set_attr",
        "set_wrapper_attr",
    }
)


@runtime_checkable
class RemoteGenerator(Protocol):
    """A random generator in another process, which reads and sets it itself."""

    def described(self) -> dict[str, Any]:
        """Return what `describe_generator` returns in that process."""

    def set_described(self, given: dict[str, Any]) -> None:
        """Set ``state``, and ``seed_sequence`` if it is given."""


class GeneratorSerials:
    """Numbers generators by identity: a client sees that one was replaced."""

    def __init__(self) -> None:
        self._seen: list[Any] = []
        self._serials: list[int] = []

    def of(self, generators: Sequence[Any]) -> list[int]:
        """Return a serial number for each; it grows when the object is replaced."""
        if len(self._seen) != len(generators):
            self._seen = [None] * len(generators)
            self._serials = [0] * len(generators)
        for index, generator in enumerate(generators):
            if generator is not self._seen[index]:
                self._seen[index] = generator
                self._serials[index] += 1
        return list(self._serials)


def get_attribute(getter: Callable[[str], Any], name: str) -> Any:
    """Get an attribute of an environment.

    Args:
        getter: Returns an attribute by its name, or raises `AttributeError`.
        name: The attribute's.

    Raises:
        NoAttribute: There is no such attribute.
        EnvError: Getting it raised another exception.
    """

    def get() -> Any:
        try:
            return getter(name)
        except AttributeError as error:
            raise NoAttribute(text_of(error) or f"there is no {name}") from None

    return env_call(f"the attribute {name}", get)


class Attributes:
    """Gets, sets and calls what an environment has by name.

    Args:
        env: The environment; used from one thread only.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self._serials = GeneratorSerials()

    def generator(self) -> dict[str, Any]:
        """Describe the environment's random generator.

        Returns:
            ``seed``, ``state``, ``seed_sequence``, and ``serial``, which grows when
            the environment has another generator object.

        Raises:
            EnvError: The environment has no generator that can be described.
        """
        return env_call("np_random", self._generator)  # type: ignore[no-any-return]

    def _generator(self) -> dict[str, Any]:
        found = self.env.np_random
        if isinstance(found, RemoteGenerator):
            return found.described()
        return {
            "seed": self.env.np_random_seed,
            "serial": self._serials.of([found])[0],
            **describe_generator(found),
        }

    def set_generator(
        self, state: Any, seed_sequence: Any = None, *, replace: bool = False
    ) -> None:
        """Set state and seed sequence of the environment's random generator.

        Args:
            state: The state, as NumPy's bit generators have it.
            seed_sequence: The sequence from which the generator spawns; ``None`` leaves
                it unchanged.
            replace: Set ``np_random`` to a new generator, which may be of another kind.

        Raises:
            BadParameter: The state does not fit this generator.
            EnvError: The environment does not accept another generator.
        """
        if replace:
            self._replace_generator(state, seed_sequence)
            return
        try:
            found = self.env.np_random
            if isinstance(found, RemoteGenerator):
                given = {"state": state, "seed_sequence": seed_sequence}
                found.set_described(
                    {name: each for name, each in given.items() if each is not None}
                )
            else:
                restore_generator(found, state, seed_sequence)
        except Problem:
            raise
        except env_exceptions() as error:
            raise BadParameter(
                f"the generator refuses this state: {text_of(error)}"
            ) from None

    def _replace_generator(self, state: Any, seed_sequence: Any) -> None:
        try:
            new = rebuild_generator(state, seed_sequence)
        except ValueError as error:
            raise BadParameter(
                f"there is no such generator: {text_of(error)}"
            ) from None
        env_call("setting np_random", setattr, self.env, "np_random", new)

    def attribute(self, name: str) -> Any:
        """Return an attribute of the environment or of one of its wrappers.

        Raises:
            NoAttribute: The environment has no such attribute, or it is private.
            EnvError: Getting it raised another exception.
        """
        self._check_name(name)
        return get_attribute(self.env.get_wrapper_attr, name)

    def set_attribute(self, name: str, value: Any, *, force: bool) -> bool:
        """Set an attribute of the environment, as `gymnasium.Env.set_wrapper_attr`.

        Raises:
            NoAttribute: The name is private, or not an identifier.
            EnvError: Setting it raised an exception.
        """
        self._check_name(name)
        setter = self.env.set_wrapper_attr
        return bool(
            env_call(f"setting the attribute {name}", setter, name, value, force=force)
        )

    def call_attribute(self, name: str, args: list[Any], kwargs: Any) -> Any:
        """Call a method of the environment or of one of its wrappers.

        Raises:
            NoAttribute: There is no such method, or an argument names a private
                attribute.
            EnvError: It raised an exception.
        """
        self._check_arguments(name, args, kwargs)
        return env_call(name, self.attribute(name), *args, **kwargs)

    def call_some(self, indices: Any, name: str, args: list[Any], kwargs: Any) -> Any:
        """Refuse a call of some environments: only vectors have several.

        Raises:
            BadParameter: Always.
        """
        raise BadParameter("indices are for vectors: this is a single environment")

    def _check_arguments(self, name: str, args: list[Any], kwargs: Any) -> None:
        # A vector's call may name get_wrapper_attr, whose argument is also a name.
        while name in _BY_NAME:
            inner = args[0] if args else kwargs.get("name")
            if not isinstance(inner, str):
                return
            self._check_name(inner)
            name, args = inner, args[1:]

    def _check_name(self, name: str) -> None:
        if not name.isidentifier() or name.startswith("_"):
            raise NoAttribute(
                f"the attribute {name!r:.80} is private or no name: "
                "expected a public one"
            )
