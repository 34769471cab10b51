"""Steps of vectors copy no observations, and send messages only for what is new."""

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from gym_http_server.host import making
from gym_http_server.host.create_request import CreateRequest
from gym_http_server.host.vector_request import VectorRequest

PROGRAM = """
import json, sys
import gymnasium, numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gym_http_server.host.sharded_vector import ShardedVectorEnv
from gym_http_server.processes.frame_socket import FrameSocket

space, hosts, info = json.loads(sys.argv[1])
SPACES = {
    "box": gymnasium.spaces.Box(-1, 1, (3,), np.float32),
    "dict": gymnasium.spaces.Dict(
        a=gymnasium.spaces.Discrete(3), b=gymnasium.spaces.MultiBinary(2)
    ),
    "text": gymnasium.spaces.Text(5),
}

class Infos(gymnasium.Env):
    observation_space = action_space = SPACES[space]
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.action_space.sample(), {}
    def step(self, action):
        return action, 1.0, False, False, dict(info)

vector = ShardedVectorEnv(lambda n: SyncVectorEnv([Infos] * n), 6, hosts)
vector.reset(seed=1)
sent = []
send = FrameSocket.send
FrameSocket.send = lambda *args: (sent.append(1), send(*args))
counts = []
for _ in range(5):
    sent.clear()
    vector.step(vector.action_space.sample())
    counts.append(len(sent))
vector.close()
print(json.dumps(counts))
"""


def messages(space: str, hosts: int, info: dict[str, Any]) -> Any:
    """Return how many messages the leading process sends in each of five steps."""
    given = json.dumps([space, hosts, info])
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, given],
        capture_output=True,
        check=True,
        timeout=60,
    )
    return json.loads(ran.stdout)


@pytest.mark.parametrize("space", ["box", "dict"])
@pytest.mark.parametrize("hosts", [2, 6])
def test_a_usual_step_sends_no_message(space: str, hosts: int) -> None:
    assert messages(space, hosts, {}) == [0] * 5
    # The first step returns a message, upon which the columns get shared memory.
    info = {"x": 1.5, "inner": {"y": 2}}
    assert messages(space, hosts, info) == [hosts - 1, 0, 0, 0, 0]


def test_what_has_no_shared_memory_is_in_messages() -> None:
    assert messages("box", 2, {"word": "some"}) == [0] * 5
    assert messages("text", 2, {}) == [1] * 5


def test_hosts_copy_no_observations() -> None:
    vector = making.make(CreateRequest("CartPole-v1", vector=VectorRequest(2, "sync")))
    first, _ = vector.reset(seed=1)
    # The host encodes each answer before the next step.
    second, *_ = vector.step(np.array([0, 1]))
    assert np.shares_memory(first, second)
    vector.close()
