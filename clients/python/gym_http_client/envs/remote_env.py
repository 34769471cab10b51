"""`RemoteEnv`: a remote environment that behaves like a local one."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium

from gym_http_client.envs.branching import Branching
from gym_http_client.envs.create_requests import create_request, merged
from gym_http_client.envs.server import Server, first_argument

__all__ = ["RemoteEnv"]


class RemoteEnv(Branching, gymnasium.Env[Any, Any]):
    """An environment on a server, with the interface of a local `gymnasium.Env`.

    Values arrive unchanged: types, dtypes, shapes, the order of dicts, every bit.
    ``gymnasium.make`` adds its wrappers on the server, so ``unwrapped`` is this object.

    Args:
        server: URL of the server, or a `Server` with a token.
        env_id: ID of the environment, such as ``"CartPole-v1"``.
        render_mode: As in ``gymnasium.make``, but not ``"human"``, which would open a
            window on the server.
        max_episode_steps: As in ``gymnasium.make``.
        disable_env_checker: As in ``gymnasium.make``.
        wrappers: Names of Gymnasium's wrappers to add on the server, or
            ``{"name": …, "kwargs": {…}}``.
        wait_s: Seconds that the server waits for an external environment to connect, in
            addition to the time limits. Then it refuses, and there is no retry.
        label: Up to 64 printable characters, which lists of instances show.
        node: Name of a server of a fleet, on which to make it; ``None`` for one with
            free slots.
        record: A new directory below the server's data directory, in which every reset
            and step is recorded from the beginning; `resume` goes on from there.
        strict_infos: Whether an info with a value that cannot be sent is an error; else
            that value is `Unsent`, with its ``repr``, and the first one is warned of.
        env_kwargs: Arguments of the environment, of any name, also of those above.
        **kwargs: The same by name: numbers, text, tuples, arrays, Gymnasium's enums and
            the like, which arrive unchanged.

    Raises:
        gymnasium.error.Error: The environment does not exist, or ``gymnasium.make``
            raised another error.
        ServerUnreachable: The server does not answer.
        ServerError: The server refuses.
    """

    OWN: ClassVar[frozenset[str]] = frozenset(
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
        wait_s: float | None = None,
        label: str | None = None,
        node: str | None = None,
        record: str | None = None,
        strict_infos: bool = False,
        env_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self._strict_infos, self._record = strict_infos, record
        options: dict[str, Any] = {
            "render_mode": render_mode,
            "max_episode_steps": max_episode_steps,
            "disable_env_checker": disable_env_checker,
            "wrappers": wrappers,
        }
        if wait_s is not None:
            options["wait_s"] = wait_s
        if label is not None:
            options["label"] = label
        if node is not None:
            options["node"] = node
        self._create(server, env_id, options, merged(kwargs, env_kwargs))

    def _create(
        self,
        server: str | Server,
        env_id: str,
        options: dict[str, Any],
        kwargs: dict[str, Any],
    ) -> None:
        found = first_argument(type(self).__name__, server, env_id=env_id)
        self._made_by = (server, env_id)
        self._made_with = {
            **options,
            "strict_infos": self._strict_infos,
            "env_kwargs": kwargs,
        }
        request = create_request(env_id, options, kwargs)
        if self._record is not None:
            # Not an option: another environment has another directory.
            request["record"] = self._record
        self._hold(found.create(request))

    @classmethod
    def _check_kind(cls, answer: dict[str, Any]) -> None:
        if "api" in answer:
            raise TypeError(
                f"{answer['env_id']} has several agents: expected "
                "RemoteParallelEnv or RemoteAECEnv of gym_http_client.pettingzoo for it"
            )
        if "num_envs" in answer:
            raise TypeError(
                f"{answer['instance_id']} is a vector of {answer['num_envs']} "
                "environments: expected RemoteVectorEnv for it"
            )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: Seed for the environment's random generator; ``None`` does not change
                it.
            options: Options of the environment.

        Returns:
            Observation and info.
        """
        answer = self._begin(seed, options)
        return answer["observation"], answer["info"]

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take an action; the environment receives it with its exact type and bits.

        Returns:
            Observation, reward, terminated, truncated and info.
        """
        answer = self._request("POST", "step/", {"action": action})
        return (
            answer["observation"],
            answer["reward"],
            answer["terminated"],
            answer["truncated"],
            answer["info"],
        )

    def render(self) -> Any:
        """Render the environment, and return an array, text, or a list of them."""
        return self._request("POST", "render/", {})["rendered"]

    @property
    def np_random_seed(self) -> int:
        """The seed that the random generator was made from."""
        return int(super().np_random_seed)

    @property
    def _np_random(self) -> Any:  # type: ignore[override]
        return self.np_random

    @property
    def _np_random_seed(self) -> Any:  # type: ignore[override]
        return self.np_random_seed

    def has_wrapper_attr(self, name: str) -> bool:
        """Return whether this object, or the remote environment, has an attribute.

        This is also true for an attribute whose value cannot be sent.
        """
        if name.startswith("_") or self._is_own(name):
            return hasattr(self, name)
        try:
            return bool(self._called("has_wrapper_attr", name))
        except AttributeError:
            return False

    def get_wrapper_attr(self, name: str) -> Any:
        """Return an attribute of this object, or of the remote environment.

        Raises:
            AttributeError: Neither has the attribute.
        """
        return getattr(self, name)

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Set an attribute of this object, or of the remote environment.

        Raises:
            AttributeError: The name is private, so the environment would not see it.
        """
        if self._is_own(name):
            setattr(self, name, value)
            return True
        return self._set_remote(name, value, force=force)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}<{self.env_id}> {self.instance_id}>"

    def __str__(self) -> str:
        return repr(self)
