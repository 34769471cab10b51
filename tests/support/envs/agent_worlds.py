"""Environments of several agents, with the interfaces of PettingZoo but without it.

In each, agents live and die at known steps, spaces differ by agent, and observations
count the steps, so that a lost or doubled one is seen.
"""

from typing import Any

import numpy as np
from gymnasium import Space, spaces

from gym_http_core.agents import register

#: Values are equal for a seed and the actions since.
STEPS = 6


class Arena:
    """Agents that act at the same time: ``left`` dies early, ``born`` comes late."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array", "ansi"]}  # noqa: RUF012
    possible_agents: Any = ("left", "right", "born")

    def __init__(self, render_mode: str | None = None, max_cycles: int = STEPS) -> None:
        self.render_mode = render_mode
        self.max_cycles = max_cycles
        self.np_random = np.random.default_rng(0)
        self.agents: list[Any] = []
        left, right, born = self.possible_agents
        self._actions: dict[Any, Space[Any]] = {
            left: spaces.Discrete(3),
            right: spaces.Box(-1, 1, (2,), np.float32),
            born: spaces.MultiBinary(2),
        }
        self._observation = spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.state_space = self._observation

    @property
    def unwrapped(self) -> "Arena":
        return self

    def action_space(self, agent: Any) -> Space[Any]:
        return self._actions[agent]

    def observation_space(self, agent: Any) -> Space[Any]:
        return self._observation

    def reset(self, seed: Any = None, options: Any = None) -> Any:
        self.np_random = np.random.default_rng(seed)
        self.count = 0
        self.agents = list(self.possible_agents[:2])
        return self._seen(self.agents), {agent: {} for agent in self.agents}

    def step(self, actions: dict[Any, Any]) -> Any:
        left, right, born = self.possible_agents
        if actions[right][0] > 1:
            raise ValueError("right went too far")
        self.count += 1
        acted = list(self.agents)
        if self.count == 2:
            acted.append(born)
        rewards = {agent: self.count * (0.5 + i) for i, agent in enumerate(acted)}
        terminated = {agent: agent == left and self.count == 3 for agent in acted}
        truncated = dict.fromkeys(acted, self.count >= self.max_cycles)
        over = {agent for agent in acted if terminated[agent] or truncated[agent]}
        self.agents = [agent for agent in acted if agent not in over]
        infos = {agent: {"action": actions.get(agent)} for agent in acted}
        return self._seen(acted), rewards, terminated, truncated, infos

    def state(self) -> Any:
        return np.array([self.count, -1.0])

    def render(self) -> Any:
        if self.render_mode == "ansi":
            return f"step {self.count}\n"
        return np.full((32, 32, 3), 10 * self.count, np.uint8)

    def close(self) -> None:
        pass

    def _seen(self, agents: Any) -> dict[Any, Any]:
        draw = self.np_random.random
        return {agent: np.array([self.count, draw()]) for agent in agents}


class Numbered(Arena):
    """The same, with agents whose IDs are no strings."""

    possible_agents = (0, ("b", 1), 2)


class Turns:
    """Two agents that take turns; what they did is in the observation of the next."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012
    render_mode = None
    possible_agents = ("one", "two")

    def __init__(self, turns: int = STEPS) -> None:
        self._turns = turns
        self._space = spaces.Discrete(5)
        self._seen = spaces.MultiDiscrete([5, 100])
        self.agents: list[str] = []

    @property
    def unwrapped(self) -> "Turns":
        return self

    def agent_iter(self) -> None:
        """Mark this as an environment whose agents take turns."""

    def action_space(self, agent: str) -> Space[Any]:
        return self._space

    def observation_space(self, agent: str) -> Space[Any]:
        return self._seen

    def observe(self, agent: str) -> Any:
        return np.array([self._last, self._count])

    def reset(self, seed: Any = None, options: Any = None) -> None:
        self._last = self._count = 0
        self.agents = list(self.possible_agents)
        self.agent_selection = "one"
        self.rewards: dict[str, float] = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict(self.rewards)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, Any] = {agent: {} for agent in self.agents}

    def step(self, action: Any) -> None:
        agent = self.agent_selection
        if self.truncations[agent]:
            assert action is None
            self.agents.remove(agent)
            for each in (self.rewards, self._cumulative_rewards, self.truncations):
                del each[agent]
            del self.terminations[agent], self.infos[agent]
            self.rewards = dict.fromkeys(self.agents, 0.0)
        else:
            self._count += 1
            self._last = int(action)
            self._cumulative_rewards[agent] = 0.0
            self.rewards = {each: float(each == agent) for each in self.agents}
            for each in self.agents:
                self._cumulative_rewards[each] += self.rewards[each]
            if self._count == self._turns:
                self.truncations = dict.fromkeys(self.agents, True)
        others = [each for each in self.possible_agents if each != agent]
        if others[0] in self.agents:
            self.agent_selection = others[0]

    def render(self) -> None:
        return None

    def close(self) -> None:
        pass


register("arena/Parallel-v0", Arena)
register("arena/Numbered-v0", Numbered)
register("arena/Turns-v0", Turns)
