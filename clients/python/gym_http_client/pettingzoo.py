"""Remote environments of several agents, with PettingZoo's two interfaces.

Needs PettingZoo: ``pip install 'gymnasium-http-client[pettingzoo]'``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import gymnasium

from gym_http_client.envs.branching import Branching
from gym_http_client.envs.create_requests import create_request, merged
from gym_http_client.envs.remote import call_space
from gym_http_client.envs.server import Server, first_argument
from gym_http_wire.messages import SPACES_VERSION
from gym_http_wire.opaque import Path, bind
from gym_http_wire.space_parsing import parse_space

try:
    from pettingzoo import AECEnv, ParallelEnv
    from pettingzoo.utils.env import AECIterable, AECIterator
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "gym_http_client.pettingzoo needs PettingZoo: "
        "pip install 'gymnasium-http-client[pettingzoo]', or pettingzoo",
        name=error.name,
    ) from error

__all__ = ["RemoteAECEnv", "RemoteParallelEnv"]

Space = gymnasium.Space[Any]


class _RemoteAgents(Branching):
    """What both interfaces have in common.

    Args:
        server: URL of the server, or a `Server` with a token.
        env_id: ``pettingzoo/`` and a module of PettingZoo, such as
            ``"pettingzoo/classic.rps_v2"``; or the ID of a registered environment.
        render_mode: As PettingZoo's, but not ``"human"``, which would open a window on
            the server.
        label: Up to 64 printable characters, which lists of instances show.
        node: Name of a server of a fleet, on which to make it; ``None`` for one with
            free slots.
        record: A new directory below the server's data directory, in which every reset
            and step is recorded from the beginning; `resume` goes on from there.
        strict_infos: Whether an info with a value that cannot be sent is an error; else
            that value is `Unsent`, with its ``repr``, and the first one is warned of.
        env_kwargs: Arguments of the environment, of any name, also of those above.
        **kwargs: The same by name, such as ``max_cycles``.

    Raises:
        gymnasium.error.Error: The environment does not exist, or PettingZoo is not
            installed on the server.
        ServerUnreachable: The server does not answer.
        ServerError: The server refuses.
    """

    API: ClassVar[str]
    SPACES: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        server: str | Server,
        env_id: str,
        *,
        render_mode: str | None = None,
        label: str | None = None,
        node: str | None = None,
        record: str | None = None,
        strict_infos: bool = False,
        env_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self._strict_infos = strict_infos
        options = {"render_mode": render_mode, "label": label, "node": node}
        kwargs = merged(kwargs, env_kwargs)
        found = first_argument(type(self).__name__, server, env_id=env_id)
        self._made_by = (server, env_id)
        self._made_with = {
            **options,
            "strict_infos": strict_infos,
            "env_kwargs": kwargs,
        }
        request = create_request(env_id, {"api": self.API, **options}, kwargs)
        if record is not None:
            # Not an option: another environment has another directory.
            request["record"] = record
        self._hold(found.create(request))

    @classmethod
    def _check_kind(cls, answer: dict[str, Any]) -> None:
        if answer.get("api") != cls.API:
            raise TypeError(
                f"{answer['instance_id']} is no environment of several agents with the "
                f"interface {cls.API!r}: its description has {answer.get('api')!r}"
            )

    def _take_over(self, answer: dict[str, Any]) -> None:
        super()._take_over(answer)
        if answer["possible_agents"] is not None:
            self.possible_agents = answer["possible_agents"]
        self.agents = answer["agents"]

    def _take_spaces(self, answer: dict[str, Any]) -> None:
        """Forget the spaces of all agents; an equal one will be used again."""
        self._spaces_version = answer.get(SPACES_VERSION, 0)
        self._old_spaces: dict[tuple[str, Any], Space]
        self._old_spaces = self.__dict__.get("_agent_spaces", {})
        self._agent_spaces: dict[tuple[str, Any], Space] = {}
        self._shared_spaces: dict[int, Space] = {}

    def _updated(self, answer: Any) -> Any:
        if answer.get(SPACES_VERSION, self._spaces_version) != self._spaces_version:
            self._take_spaces(answer)
        return answer

    def action_space(self, agent: Any) -> Space:
        """Return the action space of an agent, the same object each time."""
        return self._space("action_space", agent)

    def observation_space(self, agent: Any) -> Space:
        """Return the observation space of an agent, the same object each time."""
        return self._space("observation_space", agent)

    def _space(self, name: str, agent: Any) -> Space:
        space = self._agent_spaces.get((name, agent))
        if space is not None:
            return space
        found = self._called(name, agent)
        space = self._shared_spaces.get(found["number"])
        if space is None:
            space = self._parsed(name, agent, found["space"])
            self._shared_spaces[found["number"]] = space
        self._agent_spaces[name, agent] = space
        return space

    def _parsed(self, name: str, agent: Any, described: Any) -> Space:
        space = parse_space(described, imported=True)
        old = self._old_spaces.get((name, agent))
        if old is not None and old == space:
            # With the state of its random generator.
            return old
        handle = self._open_handle()

        def call(path: Path, method: str, args: list[Any], kwargs: Any) -> Any:
            return call_space(handle, name, (agent, *path), method, args, kwargs)

        bind(space, call)
        return space

    @property
    def state_space(self) -> Space:
        """The space of the state of the whole environment, if it has one."""
        found = self._request("GET", "attributes/state_space/")["value"]
        return parse_space(found, imported=True)

    def state(self) -> Any:
        """Return the state of the whole environment."""
        return self._called("state")

    def render(self) -> Any:
        """Render the environment, and return an array, text, or ``None``."""
        return self._request("POST", "render/", {})["rendered"]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}<{self.env_id}> {self.instance_id}>"


_OWN = frozenset(
    {"agents", "env_id", "instance_id", "metadata", "possible_agents", "render_mode"}
)


def _agents_of(answer: dict[str, Any]) -> list[Any]:
    """Return the agents that are left; without ``agents``, those that have flags."""
    return answer["agents"] if "agents" in answer else list(answer["terminated"])


class RemoteParallelEnv(_RemoteAgents, ParallelEnv[Any, Any, Any]):  # type: ignore[misc]
    """An environment on a server, with the interface of a `pettingzoo.ParallelEnv`.

    All agents act in one request. Values arrive unchanged, by agent::

        env = RemoteParallelEnv("http://127.0.0.1:5000", "pettingzoo/classic.rps_v2")
        observations, infos = env.reset(seed=1)
        while env.agents:
            actions = {agent: env.action_space(agent).sample() for agent in env.agents}
            observations, rewards, terminations, truncations, infos = env.step(actions)
        env.close()
    """

    API = "parallel"
    OWN = _OWN

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, dict[str, Any]]]:
        """Begin an episode; return observations and infos by agent."""
        answer = self._begin(seed, options)
        self.agents = answer["agents"]
        return answer["observation"], answer["info"]

    def step(
        self, actions: dict[Any, Any]
    ) -> tuple[
        dict[Any, Any],
        dict[Any, float],
        dict[Any, bool],
        dict[Any, bool],
        dict[Any, dict[str, Any]],
    ]:
        """Take the actions of all agents that live.

        Returns:
            Observations, rewards, terminations, truncations and infos by agent.
        """
        answer = self._request("POST", "step/", {"action": actions})
        # `__setattr__` would set it in the remote environment.
        self.__dict__["agents"] = _agents_of(answer)
        return (
            answer["observation"],
            answer["reward"],
            answer["terminated"],
            answer["truncated"],
            answer["info"],
        )


class _CheckedTurns(AECIterable[Any, Any, Any]):  # type: ignore[misc]
    """The agents of turns, which checks that there is a step in each turn."""

    def __iter__(self) -> Iterator[Any]:
        return _CheckedIterator(self.env, self.max_iter)


class _CheckedIterator(AECIterator[Any, Any, Any]):  # type: ignore[misc]
    def __next__(self) -> Any:
        agent = super().__next__()
        # As PettingZoo's OrderEnforcingWrapper, which environments have locally.
        if not self.env._has_updated:
            raise AssertionError(
                "need to call step() or reset() in a loop over `agent_iter`"
            )
        self.env._has_updated = False
        return agent


class RemoteAECEnv(_RemoteAgents, AECEnv[Any, Any, Any]):  # type: ignore[misc]
    """An environment on a server, with the interface of a `pettingzoo.AECEnv`.

    A turn is one request, whose answer has all that `last` and, for the next agent,
    `observe` return::

        env = RemoteAECEnv("http://127.0.0.1:5000", "pettingzoo/classic.tictactoe_v3")
        env.reset(seed=1)
        for agent in env.agent_iter():
            observation, reward, termination, truncation, info = env.last()
            over = termination or truncation
            mask = observation["action_mask"]
            env.step(None if over else env.action_space(agent).sample(mask))
        env.close()
    """

    API = "aec"
    # `last` is a method of PettingZoo's.
    LAST = "last_recorded"
    _observed: dict[Any, Any]
    #: Whether a turn has begun since `agent_iter` returned an agent.
    _has_updated = False
    OWN = _OWN | {
        "agent_selection",
        "infos",
        "rewards",
        "terminations",
        "truncations",
    }

    def _take_over(self, answer: dict[str, Any]) -> None:
        super()._take_over(answer)
        if self.agents:
            # An episode runs already.
            infos = self._request("GET", "attributes/infos/")["value"]
            self._take_turn(answer | {"info": infos, "observation": {}})

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> None:
        """Begin an episode."""
        self._take_turn(self._begin(seed, options))

    def step(self, action: Any) -> None:
        """Take the selected agent's action; ``None`` if the agent has terminated.

        Raises:
            AssertionError: There was no reset before.
        """
        self._check_reset("step")
        given = {self.agent_selection: action}
        self._take_turn(self._request("POST", "step/", {"action": given}))

    def observe(self, agent: Any) -> Any:
        """Return the observation of an agent; of the selected one without a request.

        Raises:
            AssertionError: There was no reset before.
        """
        self._check_reset("observe")
        if agent in self._observed:
            return self._observed[agent]
        return self._called("observe", agent)

    def agent_iter(self, max_iter: int = 2**63) -> AECIterable[Any, Any, Any]:
        """Return the agents in the order of their turns, until none is left.

        Raises:
            AssertionError: There was no reset before. In the loop: there was no `step`
                in a turn.
        """
        self._check_reset("agent_iter()")
        return _CheckedTurns(self, max_iter)

    def _check_reset(self, call: str) -> None:
        # PettingZoo's words.
        if "_observed" not in self.__dict__:
            raise AssertionError(f"reset() needs to be called before {call}.")

    def _take_turn(self, answer: dict[str, Any]) -> None:
        (observed,) = answer["observation"] or (None,)
        # `__setattr__` would set it in the remote environment.
        self.__dict__ |= {
            "agents": _agents_of(answer),
            "agent_selection": answer.get("agent_selection", observed),
            "rewards": answer["reward"],
            "terminations": answer["terminated"],
            "truncations": answer["truncated"],
            "infos": answer["info"],
            "_cumulative_rewards": answer["cumulative_rewards"],
            "_observed": answer["observation"],
            "_has_updated": True,
        }
