"""`RemoteVectorEnv`: a remote vector that behaves like a local one."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Any, ClassVar, Literal

import gymnasium
from gymnasium.vector import AutoresetMode, VectorEnv

from gym_http_client.envs.create_requests import create_request, merged
from gym_http_client.envs.remote import Remote, attribute_read, read_only
from gym_http_client.envs.server import Server, first_argument
from gym_http_client.envs.spread_handle import NodeVector, SpreadHandle, chosen_nodes
from gym_http_wire.specs import rebuild_spec

__all__ = ["RemoteVectorEnv"]


class RemoteVectorEnv(Remote, VectorEnv[Any, Any, Any]):
    """A vector of environments on a server, with the interface of a local `VectorEnv`.

    One request steps all environments. Values arrive unchanged: types, dtypes, shapes,
    the order of dicts, every bit. Returned arrays are new, and no other code uses them.

    Args:
        server: URL of the server, or a `Server` with a token.
        env_id: ID of the environments, such as ``"CartPole-v1"``.
        num_envs: Number of environments.
        vectorization_mode: ``"sync"``, ``"async"`` or ``"vector_entry_point"``, as in
            ``gymnasium.make_vec``; ``None`` for its default.
        vector_kwargs: As in ``gymnasium.make_vec``.
        autoreset_mode: ``"next_step"``, ``"same_step"``, ``"disabled"``, or the
            ``AutoresetMode``; ``None`` for the vector's default.
        hosts: Number of processes that share a ``"sync"`` vector, or ``"auto"`` for as
            many as the server's cores can run. They step at the same time, with the
            same results as one process.
        nodes: Number of nodes of a [fleet](../../docs/fleet.md) that share the
            environments, or their names. They step at the same time, with the same
            results as one server. ``None`` for one server.
        replace: Whether a reset makes those environments anew whose server was lost.
        render_mode: As in ``gymnasium.make_vec``, but not ``"human"``.
        max_episode_steps: As in ``gymnasium.make``.
        disable_env_checker: As in ``gymnasium.make``.
        wrappers: Names of Gymnasium's wrappers to add to each environment, or
            ``{"name": …, "kwargs": {…}}``.
        wait_s: Seconds that the server waits for external environments to connect, in
            addition to the time limits. Then it refuses, and there is no retry.
        label: Up to 64 printable characters, which lists of instances show.
        node: Name of a server of a fleet, on which to make them; ``None`` for one with
            free slots.
        record: A new directory below the server's data directory, in which every reset
            and step is recorded from the beginning; `resume` goes on from there.
        strict_infos: Whether an info with a value that cannot be sent is an error; else
            that value is `Unsent`, with its ``repr``, and the first one is warned of.
        env_kwargs: Arguments of the environments, of any name, also of those above.
        **kwargs: The same by name: numbers, text, tuples, arrays, Gymnasium's enums and
            the like, which arrive unchanged.

    Raises:
        gymnasium.error.Error: The environment does not exist, or
            ``gymnasium.make_vec`` raised another error.
        ServerUnreachable: The server does not answer.
        ServerError: The server refuses.
    """

    OWN: ClassVar[frozenset[str]] = frozenset(
        {"env_id", "instance_id", "num_envs", "single_action_space", "action_space"}
        | {"single_observation_space", "observation_space"}
    )
    SPACES: ClassVar[tuple[str, ...]] = (
        "action_space",
        "observation_space",
        "single_action_space",
        "single_observation_space",
    )

    def __init__(
        self,
        server: str | Server,
        env_id: str,
        num_envs: int = 1,
        *,
        vectorization_mode: str | None = None,
        vector_kwargs: dict[str, Any] | None = None,
        autoreset_mode: str | AutoresetMode | None = None,
        hosts: int | Literal["auto"] | None = None,
        nodes: int | Sequence[str] | None = None,
        replace: bool = False,
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
        self._strict_infos = strict_infos
        if nodes is not None:
            _check_beside_nodes(nodes, node=node, record=record)
        if "realtime" in kwargs:
            raise TypeError(
                f"realtime is {kwargs['realtime']!r:.80}, and vectors have no clock: "
                f"expected a RealTimeEnv of {env_id} for each environment"
            )
        if isinstance(autoreset_mode, AutoresetMode):
            # The server keeps it as an enum, in the spec too.
            vector_kwargs = {**(vector_kwargs or {}), "autoreset_mode": autoreset_mode}
            autoreset_mode = None
        if isinstance(vectorization_mode, Enum):
            vectorization_mode = vectorization_mode.value
        options: dict[str, Any] = {
            "num_envs": num_envs,
            "vectorization_mode": vectorization_mode,
            "vector_kwargs": vector_kwargs,
            "autoreset_mode": autoreset_mode,
            "hosts": hosts,
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
        self._made_by = (server, env_id)
        kwargs = merged(kwargs, env_kwargs)
        self._made_with = {
            **options,
            "nodes": nodes,
            "replace": replace,
            "strict_infos": self._strict_infos,
            "env_kwargs": kwargs,
        }
        server = first_argument(type(self).__name__, server, env_id=env_id)
        if nodes is None:
            request = create_request(env_id, options, kwargs)
            if record is not None:
                request["record"] = record
            self._hold(server.create(request))
        else:
            self._spread(server, nodes, env_id, options, kwargs, replace=replace)

    def _spread(
        self,
        server: Server,
        nodes: int | Sequence[str],
        env_id: str,
        options: dict[str, Any],
        kwargs: dict[str, Any],
        *,
        replace: bool,
    ) -> None:
        """Create an instance on each of several nodes, and hold them as one."""

        def make(node: str, number: int) -> NodeVector:
            wanted = {**options, "num_envs": number, "node": node or None}
            handle = server.create(create_request(env_id, wanted, kwargs))
            return NodeVector(handle.node, handle)

        num_envs = options["num_envs"]
        names = chosen_nodes(server, nodes, num_envs)
        self._hold(SpreadHandle(num_envs, names, make, replace=replace))

    @classmethod
    def _check_kind(cls, answer: dict[str, Any]) -> None:
        if "num_envs" not in answer:
            raise TypeError(
                f"{answer['instance_id']} is a single environment: "
                "expected RemoteEnv for it"
            )

    def _take_over(self, answer: dict[str, Any]) -> None:
        self.num_envs = answer["num_envs"]
        self._steps: deque[None] = deque()
        super()._take_over(answer)

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in each environment.

        Args:
            seed: An integer for the first environment; the next ones get the following
                integers. Or a list of integers and ``None``. ``None`` does not change
                a generator.
            options: Options of the environments. ``reset_mask``, bool (num_envs,),
                selects the environments to reset. It is removed from ``options``, as
                Gymnasium does.

        Returns:
            Observations and infos.
        """
        self._check_nothing_pending("reset")
        sent = None if options is None else dict(options)
        if options is not None:
            options.pop("reset_mask", None)
        answer = self._begin(seed, sent)
        return answer["observation"], answer["info"]

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take an action in each environment; actions arrive unchanged.

        Returns:
            Observations, rewards, terminations, truncations and infos.
        """
        if self._steps:
            self._check_nothing_pending("step")
        return _row(self._request("POST", "step/", {"action": actions}))

    def step_async(self, actions: Any) -> None:
        """Take an action in each environment, without waiting for the results.

        Several steps may be pending; call `step_wait` once for each.
        """
        if not self._steps:
            self._send_draws()
        given = {"action": actions}
        if self._shared:
            given["wants_generator"] = True
        self._open_handle().send("step/", given)
        self._steps.append(None)

    def step_wait(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Wait for the results of the oldest `step_async`.

        Returns:
            Observations, rewards, terminations, truncations and infos.

        Raises:
            gymnasium.error.NoAsyncCallError: No step is pending.
        """
        handle = self._open_handle()
        if not self._steps:
            raise gymnasium.error.NoAsyncCallError(
                "Calling `step_wait` without any prior call to `step_async`.", "step"
            )
        self._steps.popleft()
        if self._shared and not self._steps:
            return _row(self._request_and_renew(handle.receive))
        return _row(self._updated(handle.receive()))

    @property
    def _np_random(self) -> Any:  # type: ignore[override]
        return self.np_random

    @property
    def _np_random_seed(self) -> Any:  # type: ignore[override]
        return self.np_random_seed

    def _check_nothing_pending(self, name: str) -> None:
        if self._steps:
            raise gymnasium.error.AlreadyPendingCallError(
                f"Calling `{name}` while waiting for a pending call to `step` to "
                "complete.",
                "step",
            )

    def render(self) -> Any:
        """Render the environments, and return a tuple of frames."""
        return self._request("POST", "render/", {})["rendered"]

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Call a method of each environment, or get an attribute of each.

        Returns:
            The result of each environment.
        """
        if name in ("np_random", "_np_random"):
            return tuple(self.np_random)
        values = self._called("call", name, *args, **kwargs)
        if name == "spec" or (name == "get_wrapper_attr" and args == ("spec",)):
            return tuple(each and rebuild_spec(each) for each in values)
        return tuple(values)

    def call_some(
        self, indices: list[int], name: str, *args: Any, **kwargs: Any
    ) -> list[Any]:
        """Call a method of some of the environments, or get an attribute.

        Args:
            indices: Numbers of the environments, from 0 on, each at most once.
            name: Name of the method or attribute.
            *args: Arguments of the method.
            **kwargs: The same.

        Returns:
            The results, in the order of ``indices``.

        Raises:
            ServerError: The vector's mode is not ``"sync"``, or an index is wrong.
        """
        given = {"args": list(args), "kwargs": kwargs, "indices": list(indices)}
        path = f"attributes/{name}/call/"
        return list(self._request("POST", path, given)["value"])

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Get an attribute of each environment; arrays are read-only copies."""
        with attribute_read(name):
            values: tuple[Any, ...] = read_only(self.call(name))
        return values

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of each environment.

        Args:
            name: Its name.
            values: A list or tuple with a value for each, or one for all.
        """
        self._called("set_attr", name, values)

    def close(self, **kwargs: Any) -> None:
        """Close the environments and end their instance; repeated calls do nothing.

        Args:
            **kwargs: Arguments of local vectors, without effect here.
        """
        VectorEnv.close(self, **kwargs)

    def close_extras(self, **kwargs: Any) -> None:
        """End the instance."""
        self._end()


def _check_beside_nodes(nodes: int | Sequence[str], **others: str | None) -> None:
    """Refuse arguments that are for one server.

    Raises:
        TypeError: One of them was given.
    """
    for name, value in others.items():
        if value is not None:
            raise TypeError(
                f"{name} is {value!r:.80}, and nodes {nodes!r:.80}: expected one of "
                f"them, since {name} is for one server"
            )


def _row(answer: dict[str, Any]) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
    return (
        answer["observation"],
        answer["reward"],
        answer["terminated"],
        answer["truncated"],
        answer["info"],
    )
