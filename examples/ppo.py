"""PPO in one file with PyTorch, on a remote vector, as a template for changes.

pip install torch ./clients/python
python ppo.py --steps 100000 http://127.0.0.1:5000

The algorithm is that of Schulman et al. 2017 (arXiv:1707.06347), with generalised
advantages (arXiv:1506.02438).
"""

from __future__ import annotations

import argparse
import time
from collections import deque

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

from gym_http_client import RemoteVectorEnv

NUM_ENVS, LENGTH, EPOCHS, BATCHES = 16, 128, 4, 4
GAMMA, LAMBDA, CLIP, RATE = 0.99, 0.95, 0.2, 1e-3


class Agent(nn.Module):
    """A policy and a value function, two hidden layers each."""

    def __init__(self, inputs: int, actions: int) -> None:
        super().__init__()
        self.policy = self._net(inputs, actions)
        self.value = self._net(inputs, 1)

    @staticmethod
    def _net(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(
            *(nn.Linear(inputs, 64), nn.Tanh()),
            *(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs)),
        )


def advantages(
    rewards: torch.Tensor, values: torch.Tensor, dones: torch.Tensor, last: torch.Tensor
) -> torch.Tensor:
    """Estimate advantages from LENGTH steps of all environments."""
    result = torch.zeros_like(rewards)
    following, running = last, torch.zeros_like(last)
    for t in reversed(range(len(rewards))):
        goes_on = 1.0 - dones[t]
        delta = rewards[t] + GAMMA * following * goes_on - values[t]
        running = delta + GAMMA * LAMBDA * goes_on * running
        result[t], following = running, values[t]
    return result


def update(
    agent: Agent, optimizer: torch.optim.Optimizer, data: list[torch.Tensor]
) -> None:
    """Update the agent with a rollout, in EPOCHS times BATCHES gradient steps."""
    observations, actions, old, gains, returns = data
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(actions)).chunk(BATCHES):
            policy = Categorical(logits=agent.policy(observations[chosen]))
            ratio = (policy.log_prob(actions[chosen]) - old[chosen]).exp()
            gain = gains[chosen]
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
            clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
            value = agent.value(observations[chosen]).squeeze(-1)
            loss = -torch.min(ratio * gain, clipped * gain).mean()
            loss = loss + 0.5 * (value - returns[chosen]).pow(2).mean()
            loss = loss - 0.01 * policy.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()


def train(url: str, env_id: str, steps: int, seed: int) -> float:
    """Train an agent, print its progress, and return its last mean return."""
    torch.manual_seed(seed)
    # After an episode's end, the observation is the first of the next one.
    envs = RemoteVectorEnv(
        url,
        env_id,
        num_envs=NUM_ENVS,
        vectorization_mode="sync",
        autoreset_mode="same_step",
    )
    inputs = int(np.prod(envs.single_observation_space.shape))
    agent = Agent(inputs, int(envs.single_action_space.n))
    optimizer = torch.optim.Adam(agent.parameters(), lr=RATE, eps=1e-5)
    returns: deque[float] = deque(maxlen=100)
    running = np.zeros(NUM_ENVS)
    began = time.monotonic()

    observation = torch.tensor(envs.reset(seed=seed)[0]).float()
    for update_number in range(1, steps // (NUM_ENVS * LENGTH) + 1):
        seen: list[list[torch.Tensor]] = [[], [], [], [], [], []]
        for _ in range(LENGTH):
            with torch.no_grad():
                policy = Categorical(logits=agent.policy(observation))
                action = policy.sample()
                value = agent.value(observation).squeeze(-1)
            following, reward, terminated, truncated, _ = envs.step(action.numpy())
            done = terminated | truncated
            row = (observation, action, policy.log_prob(action), value)
            row += (torch.tensor(reward).float(), torch.tensor(done).float())
            for column, each in zip(seen, row, strict=True):
                column.append(each)
            running += reward
            returns.extend(running[done])
            running[done] = 0.0
            observation = torch.tensor(following).float()
        with torch.no_grad():
            last = agent.value(observation).squeeze(-1)
        columns = [torch.stack(column) for column in seen]
        observations, actions, old, values, rewards, dones = columns
        gains = advantages(rewards, values, dones, last)
        data = [observations, actions, old, gains, gains + values]
        update(agent, optimizer, [each.flatten(0, 1) for each in data])
        if update_number % 10 == 0:
            done_steps = update_number * NUM_ENVS * LENGTH
            pace = done_steps / (time.monotonic() - began)
            print(
                f"{done_steps} steps, {pace:.0f}/s, return {np.mean(returns):.1f}",
                flush=True,
            )
    envs.close()
    return float(np.mean(returns))


def main() -> None:
    """Train with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="the server's")
    parser.add_argument("--env-id", default="CartPole-v1")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(f"mean return: {train(given.url, given.env_id, given.steps, given.seed):.1f}")


if __name__ == "__main__":
    main()
