"""Agents: each plays CartPole on a server with a different part of the client."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any, Protocol

from gymnasium.vector import AutoresetMode, VectorEnv

from gym_http_client.calls.client import Client
from gym_http_client.envs.remote_env import RemoteEnv
from gym_http_client.envs.remote_vector_env import RemoteVectorEnv
from gym_http_client.envs.server import Server
from gym_http_client.http.error_mapping import error_from_problem
from gym_http_client.http.requester import Requester
from gym_http_client.http.retries import Retries

__all__ = [
    "ENV_ID",
    "VECTOR_ENVS",
    "Agent",
    "ClientAgent",
    "LeanAgent",
    "RemoteEnvAgent",
    "StreamAgent",
    "VectorAgent",
]

ENV_ID = "CartPole-v1"
#: Number of environments in a vector.
VECTOR_ENVS = 64
_DRAWN = 256
_JSON = "application/json"
# A benchmark ends soon if its server is gone.
_RETRIES = Retries(total=5.0)


class Agent(Protocol):
    """Steps one instance on a server, over its own connection.

    Args:
        url: The server's address. The token is in it or in GHS_TOKEN.
        seed: Seed of the first episode; later resets have no seed.
    """

    def __init__(self, url: str, seed: int) -> None: ...

    def reset(self) -> None:
        """Begin an episode."""

    def step(self, action: int) -> bool:
        """Take a step; return whether the episode is over."""

    def close(self) -> None:
        """End the instance."""


class LeanAgent:
    """Sends and receives JSON over the client's connection, without `Client`."""

    def __init__(self, url: str, seed: int) -> None:
        self._link = Requester(url, retries=_RETRIES)
        answer = self._post("/v1/envs/", {"env_id": ENV_ID, "seed": seed})
        self._path = f"/v1/envs/{answer['instance_id']}/"

    def reset(self) -> None:
        """Begin an episode."""
        self._post(self._path + "reset/", {})

    def step(self, action: int) -> bool:
        """Take a step."""
        answer = self._post(self._path + "step/", {"action": action})
        return bool(answer["done"])

    def close(self) -> None:
        """End the instance."""
        self._link.request("POST", self._path + "close/")
        self._link.close()

    def _post(self, path: str, body: Any) -> Any:
        sent = json.dumps(body).encode()
        reply = self._link.request("POST", path, sent, content_type=_JSON)
        answer = json.loads(reply.body)
        if reply.status != 200:
            raise error_from_problem(answer, reply.status, self._link.url + path)
        return answer


class ClientAgent:
    """Steps with `Client`, whose values are plain JSON."""

    def __init__(self, url: str, seed: int) -> None:
        self._client = Client(url, retries=_RETRIES)
        self._instance_id = self._client.env_create(ENV_ID, seed=seed)

    def reset(self) -> None:
        """Begin an episode."""
        self._client.reset(self._instance_id)

    def step(self, action: int) -> bool:
        """Take a step."""
        _, _, terminated, truncated, _ = self._client.step(self._instance_id, action)
        return terminated or truncated

    def close(self) -> None:
        """End the instance."""
        self._client.env_close(self._instance_id)
        self._client.close()


class RemoteEnvAgent:
    """Steps a `RemoteEnv` over REST, without loss."""

    env_id = ENV_ID
    streams = False

    def __init__(self, url: str, seed: int) -> None:
        server = Server(url, retries=_RETRIES, streams=self.streams)
        self._env = RemoteEnv(server, self.env_id)
        self._first_seed: int | None = seed

    def reset(self) -> None:
        """Begin an episode."""
        self._env.reset(seed=self._first_seed)
        self._first_seed = None

    def step(self, action: int) -> bool:
        """Take a step."""
        _, _, terminated, truncated, _ = self._env.step(action)
        return terminated or truncated

    def close(self) -> None:
        """End the instance."""
        self._env.close()


class StreamAgent(RemoteEnvAgent):
    """Steps a `RemoteEnv` over a stream."""

    streams = True

    def reset(self) -> None:
        """Begin an episode.

        Raises:
            RuntimeError: The server has no streams, so steps would go over REST.
        """
        super().reset()
        _check_stream(self._env)


class VectorAgent:
    """Steps a `RemoteVectorEnv` over a stream, with actions drawn at random.

    The environments reset themselves, so `step` never returns that an episode ended.
    """

    env_id = ENV_ID
    hosts = 1
    autoreset: AutoresetMode | None = None

    def __init__(self, url: str, seed: int) -> None:
        self._env = self._made(url)
        self._seed = seed
        space = self._env.action_space
        space.seed(seed)
        drawn = [space.sample() for _ in range(_DRAWN)]
        self._actions: Iterator[Any] = itertools.cycle(drawn)

    def _made(self, url: str) -> VectorEnv[Any, Any, Any]:
        return RemoteVectorEnv(
            Server(url, retries=_RETRIES),
            self.env_id,
            num_envs=VECTOR_ENVS,
            vectorization_mode="sync",
            autoreset_mode=self.autoreset,
            hosts=self.hosts,
        )

    def reset(self) -> None:
        """Begin an episode in each environment.

        Raises:
            RuntimeError: The server has no streams, so steps would go over REST.
        """
        self._env.reset(seed=self._seed)
        if isinstance(self._env, RemoteVectorEnv):
            _check_stream(self._env)

    def step(self, action: int) -> bool:
        """Take a step in each environment, with the next of the drawn actions."""
        self._env.step(next(self._actions))
        return False

    def close(self) -> None:
        """End the instance."""
        self._env.close()


def _check_stream(env: RemoteEnv | RemoteVectorEnv) -> None:
    if env.transport != "stream":
        raise RuntimeError("no stream to this server could be opened")
