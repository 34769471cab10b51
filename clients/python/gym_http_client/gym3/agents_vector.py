"""A world with several agents, as a vector with an environment for each agent."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import (
    batch_space,
    concatenate,
    create_empty_array,
    iterate,
)

__all__ = ["AgentsVectorEnv"]

Agent = Any
Results = tuple[dict[Agent, Any], ...]


class AgentsVectorEnv(VectorEnv[Any, Any, Any]):
    """A world with several agents, as a vector with an environment for each agent.

    Episodes begin and end for all agents at the same time. Until then, the actions of
    agents that have died are ignored, their observations stay, and their rewards are 0.
    In an `AECEnv`, a step is a turn: the actions of all other agents are ignored, and
    their observations are those of their last turn.

    Args:
        env: An environment with PettingZoo's interface, remote or local.

    Raises:
        TypeError: Agents have different spaces.
    """

    def __init__(self, env: Any) -> None:
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self._env = env
        self._agents = list(env.possible_agents)
        self._by_turns = hasattr(env, "agent_iter")
        self.num_envs = len(self._agents)
        self.render_mode = env.render_mode
        self.single_observation_space = self._space(env.observation_space)
        self.single_action_space = self._space(env.action_space)
        self.observation_space = batch_space(
            self.single_observation_space, self.num_envs
        )
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._observations: dict[Agent, Any] = {}
        self._ended: dict[Agent, tuple[bool, bool]] = {}

    def _space(self, of: Any) -> gymnasium.Space[Any]:
        first, *others = self._agents
        space: gymnasium.Space[Any] = of(first)
        for agent in others:
            if of(agent) != space:
                raise TypeError(
                    f"{first} has {space} and {agent} has {of(agent)}: gym3 has one "
                    "space for all, so give each agent a program (serve_agents)"
                )
        return space

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode with all agents."""
        infos = self._begin(seed, options)
        return self._stacked(), self._merged(infos)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take an action of each live agent, or in an `AECEnv` of the selected one."""
        each = iterate(self.action_space, actions)
        given = dict(zip(self._agents, each, strict=True))
        observations, rewards, terminated, truncated, infos = self._play(given)
        self._observations |= observations
        infos = {agent: dict(infos.get(agent, {})) for agent in self._agents}
        for agent in self._agents:
            flags = bool(terminated.get(agent)), bool(truncated.get(agent))
            if any(flags):
                self._ended.setdefault(agent, flags)
            for name, flag in zip(("terminated", "truncated"), flags, strict=True):
                infos[agent].setdefault(name, flag)
        ends = np.zeros((2, self.num_envs), np.bool_)
        if not self._env.agents:
            # An agent without a flag is cut by the end of the world.
            ended = [self._ended.get(agent, (False, True)) for agent in self._agents]
            ends = np.array(ended, np.bool_).T
            last = self._observations
            begun = self._begin(None, None)
            infos = {
                agent: {
                    **begun.get(agent, {}),
                    "final_obs": last[agent],
                    "final_info": infos[agent],
                }
                for agent in self._agents
            }
        reward = np.array([rewards.get(agent, 0.0) for agent in self._agents])
        return self._stacked(), reward, ends[0], ends[1], self._merged(infos)

    def render(self) -> Any:
        """Render the world, once for all agents."""
        return (self._env.render(),) * self.num_envs

    def close_extras(self, **kwargs: Any) -> None:
        """Close the world."""
        self._env.close()

    def _begin(self, seed: int | None, options: dict[str, Any] | None) -> Any:
        env = self._env
        self._ended = {}
        if self._by_turns:
            env.reset(seed=seed, options=options)
            self._observations = {agent: env.observe(agent) for agent in self._agents}
            return env.infos
        observations, infos = env.reset(seed=seed, options=options)
        self._observations = dict(observations)
        return infos

    def _play(self, given: dict[Agent, Any]) -> Results:
        env = self._env
        if not self._by_turns:
            acting = {agent: given[agent] for agent in env.agents}
            results: Results = env.step(acting)
            return results
        env.step(given[env.agent_selection])
        # PettingZoo replaces them when it takes dead agents out of the world.
        results = env.rewards, env.terminations, env.truncations, env.infos
        rewards, terminated, truncated, infos = map(dict, results)
        observations = {}
        while env.agents:
            agent = env.agent_selection
            observations[agent] = env.observe(agent)
            if not (env.terminations[agent] or env.truncations[agent]):
                break
            env.step(None)
        return observations, rewards, terminated, truncated, infos

    def _stacked(self) -> Any:
        items = [self._observations[agent] for agent in self._agents]
        out: Any = create_empty_array(self.single_observation_space, self.num_envs)
        return concatenate(self.single_observation_space, items, out)

    def _merged(self, infos: dict[Agent, dict[str, Any]]) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for index, agent in enumerate(self._agents):
            merged = self._add_info(merged, infos.get(agent, {}), index)
        return merged
