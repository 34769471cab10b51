"""`RemoteEnv`: a remote environment that nobody can tell from a local one."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from typing import Any, Protocol

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from gym_http_client.handles import Server
from gym_http_wire.rebuilding import rebuild

__all__ = ["RemoteEnv"]

# What an environment of this class has itself; everything else is the remote one's.
_OWN = frozenset(
    {
        "action_space",
        "env_id",
        "instance_id",
        "metadata",
        "observation_space",
        "render_mode",
        "spec",
    }
)


class Handle(Protocol):
    """Reaches one instance, over whatever there is between."""

    def ask(self, method: str, path: str, given: Any = None) -> Any:
        """Ask something of the instance."""

    def end(self) -> None:
        """End the instance."""


class RemoteEnv(gymnasium.Env[Any, Any]):
    """An environment on a server, as if ``gymnasium.make`` had made it here.

    What the environment returns arrives as it is: types, dtypes, shapes, the order
    of dicts, every bit. Wrappers that ``gymnasium.make`` puts on are on the server,
    so ``unwrapped`` is this object.

    Args:
        server: URL of the server, or a `Server` with a token.
        env_id: Env ID to make, as ``"CartPole-v1"``.
        render_mode: As in ``gymnasium.make``, but not ``"human"``, which would open
            its window on the server.
        max_episode_steps: As in ``gymnasium.make``.
        disable_env_checker: As in ``gymnasium.make``.
        wrappers: Names of Gymnasium's wrappers to put on in the server, or
            ``{"name": …, "kwargs": {…}}``.
        **kwargs: Arguments of the environment; what JSON can say.

    Raises:
        gymnasium.error.Error: There is no such environment, or another error that
            ``gymnasium.make`` raises.
        ServerUnreachable: The server does not answer.
        ServerError: The server refuses.
    """

    # Gymnasium reads it on the class before there is an instance.
    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        server: str | Server,
        env_id: str,
        *,
        render_mode: str | None = None,
        max_episode_steps: int | None = None,
        disable_env_checker: bool | None = None,
        wrappers: list[Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self._made_by: tuple[str | Server, str] | None = (server, env_id)
        self._made_with = {
            "render_mode": render_mode,
            "max_episode_steps": max_episode_steps,
            "disable_env_checker": disable_env_checker,
            "wrappers": wrappers,
            **kwargs,
        }
        request: dict[str, Any] = {
            "env_id": env_id,
            "render_mode": render_mode,
            "max_episode_steps": max_episode_steps,
            "disable_env_checker": disable_env_checker,
            "wrappers": wrappers,
            "kwargs": kwargs,
        }
        self._hold(Server.of(server).create(request))

    @classmethod
    def attach(cls, server: str | Server, instance_id: str) -> RemoteEnv:
        """Go on with an instance that exists, where another client stopped.

        Args:
            server: URL of the server, or a `Server` with a token.
            instance_id: The instance.

        Raises:
            ServerError: There is no such instance.
        """
        return cls.over(Server.of(server).handle(instance_id))

    @classmethod
    def over(cls, handle: Handle) -> RemoteEnv:
        """Give the adapter of an instance that somebody holds already.

        Args:
            handle: Reaches the instance; it is the adapter's from now on.
        """
        env = cls.__new__(cls)
        env._made_by = None
        env._hold(handle)
        return env

    def _hold(self, handle: Handle) -> None:
        self._handle: Handle | None = handle
        self._pid = os.getpid()
        self._generator: np.random.Generator | None = None
        self._generator_state: Any = None
        told = handle.ask("GET", "")
        self.instance_id: str = told["instance_id"]
        self.env_id: str = told["env_id"]
        self.action_space = rebuild(told["action_space"])
        self.observation_space = rebuild(told["observation_space"])
        self.metadata = told["metadata"]
        self.render_mode = told["render_mode"]
        spec = told["spec"]
        self.spec = None if spec is None else EnvSpec.from_json(json.dumps(spec))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: Seed for the environment's random generator; ``None`` goes on.
            options: What the environment takes.

        Returns:
            Observation and info.
        """
        self._tell_draws()
        told = self._asked("POST", "reset/", {"seed": seed, "options": options})
        if seed is not None:
            # As locally: the environment has a new generator, and not the lent one.
            self._generator = None
        return told["observation"], told["info"]

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take an action, as it is: the environment sees its very type and bits.

        Returns:
            Observation, reward, terminated, truncated and info.
        """
        self._tell_draws()
        told = self._asked("POST", "step/", {"action": action})
        return (
            told["observation"],
            told["reward"],
            told["terminated"],
            told["truncated"],
            told["info"],
        )

    def render(self) -> Any:
        """Give what the environment renders: an array, text, or a list of them."""
        return self._asked("POST", "render/", {})["rendered"]

    def close(self) -> None:
        """Close the environment and end its instance; again, it does nothing."""
        handle, self._handle = self.__dict__.get("_handle"), None
        if handle is not None and self._pid == os.getpid():
            handle.end()

    @property
    def np_random(self) -> np.random.Generator:
        """The environment's random generator.

        It lives on the server. What is lent here has its state, and what is drawn
        from it counts there too, from the next reset or step on.
        """
        self._tell_draws()
        told = self._asked("GET", "generator/")
        if self._generator is None:
            self._generator = np.random.Generator(np.random.PCG64(0))
        self._generator.bit_generator.state = told["state"]
        self._generator_state = told["state"]
        return self._generator

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        state = value.bit_generator.state
        self._asked("POST", "generator/", {"state": state})
        self._generator, self._generator_state = value, state

    @property
    def np_random_seed(self) -> int:
        """The seed that the random generator was made from."""
        return int(self._asked("GET", "generator/")["seed"])

    @property
    def _np_random(self) -> np.random.Generator:  # type: ignore[override]
        return self.np_random

    @property
    def _np_random_seed(self) -> int:  # type: ignore[override]
        return self.np_random_seed

    def has_wrapper_attr(self, name: str) -> bool:
        """Whether this object, or the remote environment, has an attribute."""
        return hasattr(self, name)

    def get_wrapper_attr(self, name: str) -> Any:
        """Give an attribute of this object, or of the remote environment.

        Raises:
            AttributeError: Neither has it.
        """
        return getattr(self, name)

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Set an attribute of this object, or of the remote environment."""
        if _is_own(self, name):
            setattr(self, name, value)
            return True
        given = {"value": value, "force": force}
        return bool(self._asked("POST", f"attributes/{name}/", given)["set"])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "_handle" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        told = self._asked("GET", f"attributes/{name}/")
        return self._method(name) if told["callable"] else told["value"]

    def __setattr__(self, name: str, value: Any) -> None:
        if "_pid" not in self.__dict__ or _is_own(self, name):
            super().__setattr__(name, value)
        else:
            self.set_wrapper_attr(name, value)

    def _method(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            given = {"args": list(args), "kwargs": kwargs}
            return self._asked("POST", f"attributes/{name}/call/", given)["value"]

        call.__name__ = name
        return call

    def _tell_draws(self) -> None:
        """Tell how far the lent generator came, if somebody drew from it.

        Not along with a step or reset: when one of those fails, nobody knows here
        whether it drew, and a state sent twice would take its draws back.
        """
        if self._generator is None:
            return
        state = self._generator.bit_generator.state
        if state != self._generator_state:
            self._asked("POST", "generator/", {"state": state})
            self._generator_state = state

    def _asked(self, method: str, path: str, given: Any = None) -> Any:
        if self._handle is None:
            raise gymnasium.error.ClosedEnvironmentError(
                f"{self!r} is closed; make another one"
            )
        return self._handle.ask(method, path, given)

    def __getstate__(self) -> dict[str, Any]:
        if self._made_by is None:
            raise TypeError(f"{self!r} was attached to, so no other one can be made")
        return {"made_by": self._made_by, "made_with": self._made_with}

    def __setstate__(self, state: dict[str, Any]) -> None:
        server, env_id = state["made_by"]
        self.__init__(server, env_id, **state["made_with"])  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}<{self.env_id}> {self.instance_id}>"

    def __str__(self) -> str:
        return repr(self)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


def _is_own(env: RemoteEnv, name: str) -> bool:
    return (
        name.startswith("_")
        or name in _OWN
        or name in env.__dict__
        or hasattr(RemoteEnv, name)
    )
