"""A handle that calls instances of several nodes as one vector."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Space
from gymnasium.vector.utils import batch_space

from gym_http_client.envs.any_handle import AnyHandle
from gym_http_client.envs.server import Server
from gym_http_client.envs.spread_values import (
    in_order,
    join,
    join_generators,
    join_infos,
    split,
    split_calls,
    split_generators,
    split_reset,
)
from gym_http_client.errors import ServerError, ServerUnreachable
from gym_http_client.http.error_mapping import expect_object
from gym_http_wire.messages import SPACES_VERSION
from gym_http_wire.space_parsing import parse_space
from gym_http_wire.spaces import describe

__all__ = ["NodeVector", "SpreadHandle", "chosen_nodes"]

# What a server answers when an instance is gone, or may be.
_LOST = frozenset(
    {
        *("env-crashed", "step-deadline", "instance-ended", "server-restarted"),
        *("node-away", "outcome-unknown", "unknown-instance"),
    }
)
_SINGLE = ("single_observation_space", "single_action_space")
_CALL = "attributes/call/call/"
_SET_ATTR = "attributes/set_attr/call/"
_ARRAYS = ("reward", "terminated", "truncated")
# Their results are tuples with one for each environment.
_OF_EACH = ("render/", _CALL)


class NodeVector(NamedTuple):
    """A vector on one node.

    Attributes:
        node: Name of the node.
        handle: Its instance.
    """

    node: str
    handle: AnyHandle


class SpreadHandle:
    """Calls the instances of several nodes as if they were one vector.

    A reset, step or render is sent to all of them before an answer is read, so they
    work at the same time. If a part fails, the others are still answered; the error has
    a note with the node and its environments.

    Args:
        num_envs: Number of environments of all parts.
        nodes: Names of the nodes; the first has the first environments.
        make: Makes the part of a node, with a number of environments. The name "" is
            for any node.
        replace: Whether a reset makes lost parts anew, on any node.

    Raises:
        ServerError: A part could not be made; then none is left.
        RuntimeError: The parts have different spaces.
    """

    def __init__(
        self,
        num_envs: int,
        nodes: Sequence[str],
        make: Callable[[str, int], NodeVector],
        *,
        replace: bool = False,
    ) -> None:
        count = len(nodes)
        ends = [num_envs * number // count for number in range(count + 1)]
        self._bounds = list(itertools.pairwise(ends))
        self._make = make
        self._replace = replace
        self._lost: set[int] = set()
        self._observations: list[Any] = [None] * count
        # By pending `send`: its path, and by part the error of sending it.
        self._pending: deque[tuple[str, dict[int, Exception | None]]] = deque()
        self._spaces: dict[str, Space[Any]] = {}
        self._parts = self._made(nodes)
        try:
            self._described()
        except BaseException:
            self.end()
            raise

    def _made(self, nodes: Sequence[str]) -> list[NodeVector]:
        sizes = [stop - start for start, stop in self._bounds]
        with concurrent.futures.ThreadPoolExecutor(len(nodes)) as pool:
            made = [
                pool.submit(self._make, *each)
                for each in zip(nodes, sizes, strict=True)
            ]
        errors = [error for each in made if (error := each.exception())]
        if errors:
            for each in made:
                if each.exception() is None:
                    each.result().handle.end()
            raise errors[0]
        return [each.result() for each in made]

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes, in the order of their environments."""
        return tuple(part.node for part in self._parts)

    @property
    def transport(self) -> str:
        """The transport of steps: ``"rest"`` if a part has no stream."""
        found = {part.handle.transport for part in self._parts}
        return found.pop() if len(found) == 1 else "rest"

    def capabilities(self) -> frozenset[str]:
        """Return what all nodes can do."""
        each = [part.handle.capabilities() for part in self._parts]
        return frozenset.intersection(*each)

    def call(self, method: str, path: str, given: Any = None) -> Any:
        """Send a request to all parts, and return one answer of theirs.

        Raises:
            ServerUnreachable: A node does not answer.
            ServerError: A node refuses.
            Exception: An environment raised it.
        """
        if path in ("reset/", "step/", "render/"):
            self.send(path, given)
            return self.receive()
        if path == "":
            return self._described()
        shares = self._shares(path, given)

        def answer(part: int) -> Any:
            return self._parts[part].handle.call(method, path, shares[part])

        answers = self._each(shares, answer)
        if path.endswith("/call/") and "indices" in given:
            return {"value": in_order(given["indices"], self._bounds, answers)}
        return self._one_answer(path, answers)

    def send(self, path: str, given: Any) -> None:
        """Send a reset, a step or a render to all parts, and return at once.

        Raises:
            ValueError: The actions are not one for each environment.
        """
        if path == "reset/" and self._replace:
            self._make_lost_anew()
        failed: dict[int, Exception | None] = {}
        for part, share in self._shares(path, given).items():
            failed[part] = None
            try:
                self._parts[part].handle.send(path, share)
            except Exception as error:
                failed[part] = error
        self._pending.append((path, failed))

    def receive(self) -> Any:
        """Return the answer to the oldest `send` without a returned answer.

        Raises:
            ServerUnreachable: A node does not answer.
            ServerError: A node refuses.
            Exception: An environment raised it.
        """
        path, failed = self._pending.popleft()

        def answer(part: int) -> Any:
            if (error := failed[part]) is not None:
                raise error
            return self._parts[part].handle.receive()

        return self._one_answer(path, self._each(failed, answer))

    def release(self) -> None:
        """Close all connections; the instances stay."""
        for part in self._parts:
            part.handle.release()

    def end(self) -> None:
        """End all instances."""
        for part in self._parts:
            part.handle.end()

    def _make_lost_anew(self) -> None:
        for part in sorted(self._lost):
            start, stop = self._bounds[part]
            # It may go on, though its node does not answer.
            self._parts[part].handle.end()
            self._parts[part] = self._make("", stop - start)
            self._lost.remove(part)

    def _each(self, parts: Iterable[int], call: Callable[[int], Any]) -> dict[int, Any]:
        """Call each part, and raise the first error after all of them."""
        answers: dict[int, Any] = {}
        errors: list[Exception] = []
        for part in parts:
            try:
                answers[part] = call(part)
            except Exception as error:
                self._note(part, error)
                errors.append(error)
        if errors:
            raise errors[0]
        return answers

    def _note(self, part: int, error: Exception) -> None:
        """Add notes to an error: which part failed, and what to do if it is lost."""
        start, stop = self._bounds[part]
        node = self._parts[part].node
        error.add_note(f"node {node}, environments {start} to {stop - 1}")
        if isinstance(error, ServerUnreachable) or (
            isinstance(error, ServerError) and error.code in _LOST
        ):
            self._lost.add(part)
            error.add_note(
                "reset makes these environments anew"
                if self._replace
                else "with replace=True, reset would make these environments anew"
            )

    def _shares(self, path: str, given: Any) -> dict[int, Any]:
        """Return what is sent to each part; parts that are not needed are left out."""
        bounds = self._bounds
        if path == "step/":
            actions = split(
                self._spaces["single_action_space"], given["action"], bounds
            )
            return {n: {**given, "action": each} for n, each in enumerate(actions)}
        if path == "reset/":
            return split_reset(given, bounds)
        if path == "generator/" and given is not None:
            return split_generators(given, bounds)
        if path.endswith("/call/") and "indices" in given:
            return split_calls(given, bounds)
        if path == _SET_ATTR and isinstance(given["args"][1], list | tuple):
            name, values = given["args"]
            return {
                part: {**given, "args": [name, values[start:stop]]}
                for part, (start, stop) in enumerate(bounds)
            }
        return dict.fromkeys(range(len(bounds)), given)

    def _one_answer(self, path: str, answers: dict[int, Any]) -> dict[str, Any]:
        """Join the answers of the parts; the members that have no parts are equal."""
        whole = dict(next(iter(answers.values()), {}))
        each = list(answers.values())
        for name in whole:
            if name == "observation":
                whole[name] = self._joined_observations(answers)
            elif name == "info":
                infos = {part: answer["info"] for part, answer in answers.items()}
                whole[name] = join_infos(
                    [infos.get(part) for part in range(len(self._parts))], self._bounds
                )
            elif name == SPACES_VERSION:
                # It differs from an earlier one if one of them does.
                whole[name] = sum(answer[name] for answer in answers.values())
            elif name == "generator":
                whole[name] = join_generators(answer["generator"] for answer in each)
            elif name in _ARRAYS:
                whole[name] = np.concatenate([answer[name] for answer in each])
            elif isinstance(whole[name], tuple) and path in _OF_EACH:
                whole[name] = tuple(one for answer in each for one in answer[name])
        return join_generators(each) if path == "generator/" else whole

    def _joined_observations(self, answers: dict[int, Any]) -> Any:
        for part, answer in answers.items():
            # A reset with a mask returns those of the other parts again.
            self._observations[part] = answer["observation"]
        return join(self._spaces["single_observation_space"], self._observations)

    def _described(self) -> dict[str, Any]:
        """Describe the vector, as the parts describe theirs."""
        each = [part.handle.call("GET", "") for part in self._parts]
        for name in _SINGLE:
            for part, answer in zip(self._parts, each, strict=True):
                if answer[name] != each[0][name]:
                    raise RuntimeError(
                        f"the parts of the vector have different spaces: {name} is "
                        f"{each[0][name]} on node {self._parts[0].node}, "
                        f"{answer[name]} on node {part.node}"
                    )
            self._spaces[name] = parse_space(each[0][name], imported=True)
        num_envs = self._bounds[-1][1]
        whole = {
            **each[0],
            "num_envs": num_envs,
            "instance_id": ",".join(answer["instance_id"] for answer in each),
            SPACES_VERSION: sum(answer.get(SPACES_VERSION, 0) for answer in each),
        }
        for name in _SINGLE:
            batched = batch_space(self._spaces[name], num_envs)
            whole[name.removeprefix("single_")] = describe(batched)
        return whole


def chosen_nodes(
    server: Server, nodes: int | Sequence[str], num_envs: int
) -> list[str]:
    """Return the names of the nodes that share a vector.

    Args:
        server: Any server of their fleet.
        nodes: How many, to take those with the most free slots, or their names.
        num_envs: Number of environments.

    Raises:
        ServerError: The server does not answer.
        ValueError: There are not so many nodes, or not so many environments.
    """
    if not isinstance(nodes, int):
        count, wanted = len(nodes), list(nodes)
    else:
        count, wanted = nodes, []
    if not 1 <= count <= num_envs:
        raise ValueError(
            f"nodes is {nodes!r:.80}: expected 1 to {num_envs}, as there are "
            f"{num_envs} environments"
        )
    if wanted:
        return wanted
    with contextlib.closing(server.link()) as link:
        described = expect_object(link.request("GET", "/v1/"), f"{server.url}/v1/")
    nodes_of_fleet = described.get("nodes", ())
    found = [each for each in nodes_of_fleet if not (each["draining"] or each["away"])]
    if not found:
        raise ValueError(
            f"nodes is {nodes}, and {server.url} is in no fleet: expected a server "
            "with --fleet, or nodes=None"
        )
    if count > len(found):
        one = len(found) == 1
        takers = "node that takes" if one else "nodes that take"
        raise ValueError(
            f"nodes is {nodes}: expected {len(found)} at most: this fleet has "
            f"{len(found)} {takers} new instances"
        )
    found.sort(key=lambda each: -each["free"])
    return [each["node"] for each in found[:count]]
