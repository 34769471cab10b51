"""Environments of several agents, as PettingZoo has them.

Values are dicts by agent, also where one agent acts at a time. PettingZoo itself is not
imported: an environment has its interface.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

import gymnasium

__all__ = [
    "AECAgentEnv",
    "AgentEnv",
    "ParallelAgentEnv",
    "agent_env",
    "factories",
    "register",
]

Values = dict[Any, Any]

#: By env ID, functions that make environments of several agents.
factories: dict[str, Callable[..., Any]] = {}


def register(env_id: str, factory: Callable[..., Any]) -> None:
    """Register an environment of several agents, for a server that imports the module.

    Args:
        env_id: The ID by which clients create it, such as ``"my/Arena-v0"``.
        factory: Returns a `pettingzoo.ParallelEnv` or a `pettingzoo.AECEnv`, or an
            object with the interface of one; gets the arguments of the request.

    Raises:
        ValueError: An environment of this ID is registered already.
    """
    if env_id in factories or env_id in gymnasium.registry:
        raise ValueError(f"the env ID {env_id!r} is registered already")
    factories[env_id] = factory


class AgentEnv:
    """An environment of several agents, with what hosts use of Gymnasium's interface.

    Args:
        world: The environment, with the interface of PettingZoo.

    Attributes:
        api: ``"parallel"`` or ``"aec"``, PettingZoo's two interfaces.
        metadata: Its metadata.
    """

    api = ""
    spec = None

    def __init__(self, world: Any) -> None:
        self.world = world
        self.metadata: dict[str, Any] = getattr(world, "metadata", None) or {}

    @property
    def unwrapped(self) -> Any:
        """The environment, without PettingZoo's wrappers."""
        return self.world.unwrapped

    @property
    def render_mode(self) -> Any:
        """Its render mode, or ``None``."""
        return getattr(self.world, "render_mode", None)

    @property
    def agents(self) -> list[Any]:
        """The agents of the present episode; empty before the first one."""
        return list(getattr(self.world, "agents", None) or ())

    @property
    def possible_agents(self) -> list[Any] | None:
        """All agents that there can be; ``None`` if that is not known."""
        found = getattr(self.world, "possible_agents", None)
        return None if found is None else list(found)

    @property
    def action_space(self) -> gymnasium.spaces.Dict:
        """The action spaces of all agents that are known now."""
        return self.spaces("action", self.known())

    @property
    def observation_space(self) -> gymnasium.spaces.Dict:
        """The observation spaces of all agents that are known now."""
        return self.spaces("observation", self.known())

    @property
    def np_random(self) -> Any:
        """The random generator of the environment."""
        return self.unwrapped.np_random

    @property
    def np_random_seed(self) -> int:
        """The seed of that generator, which PettingZoo does not keep."""
        return -1

    def known(self) -> list[Any]:
        """Return the agents that there can be, or those that there are."""
        return self.possible_agents or self.agents

    def acting(self) -> list[Any]:
        """Return the agents that act in the next step."""
        return self.agents

    def passing(self) -> list[Any]:
        """Return those of them whose only action is ``None``, as they have ended."""
        return []

    def agent_space(self, which: str, agent: Any) -> gymnasium.Space[Any]:
        """Return the ``"action"`` or the ``"observation"`` space of an agent."""
        space: gymnasium.Space[Any] = getattr(self.world, f"{which}_space")(agent)
        return space

    def spaces(self, which: str, agents: Iterable[Any]) -> gymnasium.spaces.Dict:
        """Return the spaces of some agents."""
        each = {agent: self.agent_space(which, agent) for agent in agents}
        return gymnasium.spaces.Dict(each)

    def turn(self) -> Values:
        """Return what an answer has besides the results of a step."""
        return {"agents": self.agents}

    def reset(self, *, seed: Any, options: Any) -> tuple[Any, Any]:
        """Begin an episode; return observations and infos."""
        raise NotImplementedError

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Take an action of each agent that acts; return what `reset` does and more."""
        raise NotImplementedError

    def render(self) -> Any:
        """Render the environment."""
        return self.world.render()

    def close(self) -> None:
        """Close the environment."""
        self.world.close()

    def has_wrapper_attr(self, name: str) -> bool:
        """Whether the environment has an attribute."""
        return hasattr(self.world, name)

    def get_wrapper_attr(self, name: str) -> Any:
        """Return an attribute of the environment."""
        return getattr(self.world, name)

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Set an attribute of the environment; without ``force`` only an existing one.

        Wrappers of PettingZoo read attributes of what is in them, and set their own.
        """
        if not force and not hasattr(self.world, name):
            return False
        owner = self.unwrapped
        setattr(owner if hasattr(owner, name) else self.world, name, value)
        return True


class _Shortcut:
    """A wrapped environment of PettingZoo, whose attributes are read directly.

    A wrapper looks up each attribute in the next one, by an exception and several
    calls. PettingZoo's conversion to a parallel environment reads dozens in a step:
    of rock-paper-scissors, this is two thirds of the time.

    Args:
        outer: The environment in all its wrappers.
        inner: What has the attributes.
    """

    def __init__(self, outer: Any, inner: Any) -> None:
        self._outer, self._inner = outer, inner
        self.observe, self.step = outer.observe, outer.step

    def __getattr__(self, name: str) -> Any:
        if name == "_outer":
            # A copy of this object has no attributes at first.
            raise AttributeError(name)
        return getattr(self._outer, name)

    def last(self, observe: bool = True) -> Any:
        """Return what the selected agent observes, its reward, flags and info."""
        return type(self._outer).last(self, observe)

    _cumulative_rewards = property(attrgetter("_inner._cumulative_rewards"))
    agent_selection = property(attrgetter("_inner.agent_selection"))
    agents = property(attrgetter("_inner.agents"))
    infos = property(attrgetter("_inner.infos"))
    rewards = property(attrgetter("_inner.rewards"))
    terminations = property(attrgetter("_inner.terminations"))
    truncations = property(attrgetter("_inner.truncations"))


#: PettingZoo's wrappers that have none of these attributes, nor another `last`.
TRANSPARENT = {
    "AssertOutOfBoundsWrapper",
    "ClipOutOfBoundsWrapper",
    "OrderEnforcingWrapper",
    "TerminateIllegalWrapper",
}


def _shorten(world: Any) -> None:
    """Let PettingZoo's conversion of an environment read past the wrappers in it."""
    if not _is_one(world, {"aec_to_parallel_wrapper"}):
        return
    outer = inner = world.aec_env
    while _is_one(inner, TRANSPARENT):
        inner = inner.env
    if inner is not outer:
        world.aec_env = _Shortcut(outer, inner)


def _is_one(world: Any, names: set[str]) -> bool:
    """Return whether an object is of one of these classes of PettingZoo."""
    kind = type(world)
    return kind.__name__ in names and kind.__module__.startswith("pettingzoo.utils.")


class ParallelAgentEnv(AgentEnv):
    """An environment whose agents act at the same time."""

    api = "parallel"

    def __init__(self, world: Any) -> None:
        _shorten(world)
        super().__init__(world)

    def reset(self, *, seed: Any, options: Any) -> tuple[Any, Any]:
        """Begin an episode; return the observation and the info of each agent."""
        observations, infos = self.world.reset(seed=seed, options=options)
        return observations, infos

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Take the actions of all agents."""
        # PettingZoo has defaultdicts there, which arrive as dicts.
        observed, rewards, terminated, truncated, infos = self.world.step(action)
        return observed, dict(rewards), dict(terminated), dict(truncated), infos


class AECAgentEnv(AgentEnv):
    """An environment whose agents act one after another."""

    api = "aec"

    def acting(self) -> list[Any]:
        """Return the selected agent, as a list."""
        return [self.world.agent_selection] if self.agents else []

    def get_wrapper_attr(self, name: str) -> Any:
        """Return an attribute of the environment; by default, digits are its keys."""
        if name == "get_keys_to_action" and not hasattr(self.world, name):
            return self._digits
        return super().get_wrapper_attr(name)

    def _digits(self) -> dict[str, int]:
        """Return digits from 1 on as keys of the first actions, if they are numbers."""
        found: list[Any] = [self.agent_space("action", each) for each in self.known()]
        if not all(isinstance(each, gymnasium.spaces.Discrete) for each in found):
            return {}
        first = min((int(each.start) for each in found), default=0)
        end = max((int(each.start + each.n) for each in found), default=0)
        return {str(key - first + 1): key for key in range(first, min(end, first + 9))}

    def passing(self) -> list[Any]:
        """Return this agent, if its only action is ``None``, as it has ended."""
        world = self.world
        return [
            agent
            for agent in self.acting()
            if world.terminations[agent] or world.truncations[agent]
        ]

    def turn(self) -> Values:
        """Return what an answer has besides the results of a step."""
        world = self.world
        if not hasattr(world, "rewards"):
            return {"agents": []}
        return {
            "agent_selection": world.agent_selection,
            "agents": self.agents,
            "cumulative_rewards": dict(world._cumulative_rewards),
            "reward": dict(world.rewards),
            "terminated": dict(world.terminations),
            "truncated": dict(world.truncations),
        }

    def reset(self, *, seed: Any, options: Any) -> tuple[Any, Any]:
        """Begin an episode; return the observation of the first agent, and infos."""
        self.world.reset(seed=seed, options=options)
        return self._observed(), dict(self.world.infos)

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Take the action of one agent; observe the next one."""
        (of_agent,) = action.values()
        world = self.world
        world.step(of_agent)
        return (
            self._observed(),
            dict(world.rewards),
            dict(world.terminations),
            dict(world.truncations),
            dict(world.infos),
        )

    def _observed(self) -> Values:
        return {agent: self.world.observe(agent) for agent in self.acting()}


def agent_env(world: Any) -> AgentEnv:
    """Return an environment of several agents with the interface that hosts use.

    Raises:
        TypeError: It has neither of PettingZoo's interfaces.
    """
    if not callable(getattr(world, "action_space", None)):
        raise TypeError(
            f"it is of the type {type(world).__qualname__}: expected an environment of "
            "several agents, pettingzoo.ParallelEnv or pettingzoo.AECEnv"
        )
    return (AECAgentEnv if hasattr(world, "agent_iter") else ParallelAgentEnv)(world)
