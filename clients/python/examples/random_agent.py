"""Plays an environment of a gym_http_server with random actions.

python random_agent.py --env-id CartPole-v1 --episodes 10 http://127.0.0.1:5000
"""

import argparse

from gym_http_client import Client


class RandomAgent:
    """Acts at random, as the server draws."""

    def __init__(self, client: Client, instance_id: str) -> None:
        self._client = client
        self._instance_id = instance_id

    def act(self, observation: object) -> object:
        """Choose an action; ignore the observation."""
        return self._client.env_action_space_sample(self._instance_id)


def play(client: Client, instance_id: str, agent: RandomAgent) -> float:
    """Play one episode and return the sum of its rewards."""
    observation, _ = client.reset(instance_id)
    total = 0.0
    while True:
        action = agent.act(observation)
        observation, reward, terminated, truncated, _ = client.step(instance_id, action)
        total += reward
        if terminated or truncated:
            return total


def main() -> None:
    """Play some episodes, recorded on the server when a directory is given."""
    parser = argparse.ArgumentParser(description="Plays with random actions.")
    parser.add_argument("server", nargs="?", default="http://127.0.0.1:5000")
    parser.add_argument("--env-id", default="CartPole-v1")
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--record", metavar="DIRECTORY")
    options = parser.parse_args()

    with Client(options.server) as client:
        instance_id = client.env_create(options.env_id)
        try:
            agent = RandomAgent(client, instance_id)
            if options.record:
                client.env_monitor_start(instance_id, options.record, force=True)
            for episode in range(options.episodes):
                total = play(client, instance_id, agent)
                print(f"episode {episode}: {total:g}")
        finally:
            client.env_close(instance_id)


if __name__ == "__main__":
    main()
