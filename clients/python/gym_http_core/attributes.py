"""Attributes: what an environment has by name, its random generator included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from gym_http_core.env_errors import env_error, text_of
from gym_http_wire.generators import (
    describe_generator,
    rebuild_generator,
    restore_generator,
)
from gym_http_wire.problems import BadParameter, NoAttribute, Problem

__all__ = ["Attributes", "GeneratorSerials", "RemoteGenerator"]


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
    """Stands for a generator in another process, which describes it itself."""

    def described(self) -> dict[str, Any]:
        """Give what `describe_generator` gives there."""

    def set_described(self, given: dict[str, Any]) -> None:
        """Set ``state``, and ``seed_sequence`` if there is one."""


class GeneratorSerials:
    """Numbers generators by identity, so that a client sees that one was replaced."""

    def __init__(self) -> None:
        self._seen: list[Any] = []
        self._serials: list[int] = []

    def of(self, generators: Sequence[Any]) -> list[int]:
        """Give a serial number for each; it grows when another one takes its place."""
        if len(self._seen) != len(generators):
            self._seen = [None] * len(generators)
            self._serials = [0] * len(generators)
        for index, generator in enumerate(generators):
            if generator is not self._seen[index]:
                self._seen[index] = generator
                self._serials[index] += 1
        return list(self._serials)


class Attributes:
    """What an environment has, and what may be asked of that.

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
            EnvError: It has none that can be described.
        """
        try:
            found = self.env.np_random
            if isinstance(found, RemoteGenerator):
                return found.described()
            return {
                "seed": self.env.np_random_seed,
                "serial": self._serials.of([found])[0],
                **describe_generator(found),
            }
        except Problem:
            raise
        except (Exception, SystemExit) as error:
            raise env_error("np_random", error) from error

    def set_generator(
        self, state: Any, seed_sequence: Any = None, *, replace: bool = False
    ) -> None:
        """Set state and seed sequence of the environment's random generator.

        Args:
            state: As NumPy's bit generators have it.
            seed_sequence: What it spawns from; ``None`` leaves that as it is.
            replace: Give the environment a new generator, which may be of another
                kind, as if somebody had set ``np_random``.

        Raises:
            BadParameter: It is no state of this generator.
            EnvError: The environment refuses another generator.
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
        except (Exception, SystemExit) as error:
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
        try:
            self.env.np_random = new
        except Problem:
            raise
        except (Exception, SystemExit) as error:
            raise env_error("setting np_random", error) from error

    def attribute(self, name: str) -> Any:
        """Give an attribute of the environment or of one of its wrappers.

        Raises:
            NoAttribute: There is none of this name that may be told.
            EnvError: Getting it raised another exception.
        """
        self._check_name(name)
        try:
            return self.env.get_wrapper_attr(name)
        except AttributeError as error:
            raise NoAttribute(text_of(error) or f"there is no {name}") from None
        except Problem:
            raise
        except (Exception, SystemExit) as error:
            raise env_error(f"the attribute {name}", error) from error

    def set_attribute(self, name: str, value: Any, *, force: bool) -> bool:
        """Set an attribute of the environment, as `gymnasium.Env.set_wrapper_attr`.

        Raises:
            NoAttribute: There is none of this name that may be set.
            EnvError: Setting it raised an exception.
        """
        self._check_name(name)
        try:
            return bool(self.env.set_wrapper_attr(name, value, force=force))
        except Problem:
            raise
        except (Exception, SystemExit) as error:
            raise env_error(f"setting the attribute {name}", error) from error

    def call_attribute(self, name: str, args: list[Any], kwargs: Any) -> Any:
        """Call a method of the environment or of one of its wrappers.

        Raises:
            NoAttribute: No method of this name may be called, or an argument names a
                private attribute.
            EnvError: It raised an exception.
        """
        self._check_arguments(name, args, kwargs)
        method = self.attribute(name)
        try:
            return method(*args, **kwargs)
        except Problem:
            raise
        except (Exception, SystemExit) as error:
            raise env_error(name, error) from error

    def call_some(self, indices: Any, name: str, args: list[Any], kwargs: Any) -> Any:
        """Refuse a call of some environments: only vectors have more than one.

        Raises:
            BadParameter: Always.
        """
        raise BadParameter("indices are for vectors: this is a single environment")

    def _check_arguments(self, name: str, args: list[Any], kwargs: Any) -> None:
        # A vector's call may name get_wrapper_attr, whose argument is a name, too.
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
