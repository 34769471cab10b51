"""External environments: plain JSON steps without an info take the fast path.

The agent is on a stream. Only the deadline of a request shows the environment which
path a step took. It is the whole time limit on the fast path, and a little less on the
general path.
"""

import contextlib
import json
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from gym_http_client import ServerError
from gym_http_client.envs.remote_env import RemoteEnv
from gym_http_wire.spaces import describe
from tests.support.api import Api, Instance, ok
from tests.support.broker import server_with_broker, wait_until_unlisted
from tests.support.identity import assert_identical
from tests.support.peers.external_env import ExternalEnv
from tests.support.peers.watcher import Watcher, open_watcher
from tests.support.websocket import BINARY, frame

STEP = 2
SPACE = spaces.MultiDiscrete([1000, 5])
HELLO = {
    "observation_space": describe(SPACE),
    "action_space": describe(spaces.Discrete(5)),
    "capabilities": ["reset", "seed", "replay"],
}
#: So that a microsecond less is another number of milliseconds.
DEADLINE = "20.00050001"
WHOLE = 20.001
#: Where in a step the connection is cut.
CUTS = ("before it is done", "after it is done", "within its answer")


class Counter:
    """An external environment that counts steps, to detect doubled or lost ones.

    Args:
        api: Where to connect.

    Attributes:
        done: The actions, in their order.
        deadlines: The deadline of each request.
        cuts: Where to cut the connection in the next steps; ``""`` is not at all.
        answers: What the next steps answer instead, if anything.
    """

    def __init__(self, api: Api) -> None:
        self.done: list[int] = []
        self.deadlines: list[float] = []
        self.cuts: list[str] = []
        self.answers: list[dict[str, Any]] = []
        self.was_cut = 0
        self._api = api
        self._record: tuple[int, dict[str, Any]] = (0, {})
        self._far = ExternalEnv.to(api, **HELLO)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        """End it, once the agent has gone."""
        self._far.websocket.finish_sending()
        self._thread.join(20)
        assert not self._thread.is_alive()
        self._far.drop()

    def _run(self) -> None:
        # At the end, it is in the midst of listening.
        with contextlib.suppress(AssertionError, OSError):
            while True:
                request = self._far.receive()
                if request["type"] == "fault":
                    continue
                cut = (
                    self.cuts.pop(0) if request["type"] == "step" and self.cuts else ""
                )
                if cut == CUTS[0]:
                    self._come_back()
                    continue
                number, message = self._record
                if number != request["id"]:
                    message = {"id": request["id"], **self._do(request)}
                    self._record = request["id"], message
                if cut:
                    if cut == CUTS[2]:
                        whole = frame(1, json.dumps(message).encode())
                        self._far.websocket.send(whole[: len(whole) // 2])
                    self._come_back()
                    continue
                self._far.send_message(**message)

    def _come_back(self) -> None:
        self.was_cut += 1
        self._far.drop()
        self._far = ExternalEnv.to(
            self._api, resume=self._far.welcome["resume"], **HELLO
        )

    def _do(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["type"] == "reset":
            return {"result": {"observation": [0, 0], "info": {}}}
        if request["type"] != "step":
            return {"result": {}}
        self.done.append(request["action"])
        self.deadlines.append(request["deadline_s"])
        if self.answers:
            return self.answers.pop(0)
        count = len(self.done)
        result = {
            "observation": [count % 1000, request["action"]],
            "reward": count,
            "terminated": count % 50 == 0,
            "truncated": count % 50 == 25,
        }
        return {"result": result}


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    """A client of a server with a broker."""
    with server_with_broker("--external-deadline", DEADLINE) as api:
        yield api


@pytest.fixture
def counter(api: Api) -> Iterator[Counter]:
    """An environment that counts."""
    counter = Counter(api)
    yield counter
    counter.close()
    wait_until_unlisted(api)


@contextlib.contextmanager
def stepped(api: Api, **options: Any) -> Iterator[RemoteEnv]:
    """Have an agent on a stream."""
    env = RemoteEnv(api.server.url, "external/game", **options)
    with contextlib.closing(env):
        env.reset()
        yield env


def expected(count: int, action: int) -> tuple[Any, ...]:
    """Return the environment's answer after so many steps."""
    observation = np.array([count % 1000, action], np.int64)
    return (observation, float(count), count % 50 == 0, count % 50 == 25, {})


def test_steps_arrive_unchanged(api: Api, counter: Counter) -> None:
    with stepped(api) as env:
        for count in range(1, 121):
            assert_identical(env.step(count % 5), expected(count, count % 5))
        instance = Instance(api, env.instance_id)
        body = ok(instance.get(""))
        assert (body["steps"], body["episodes"]) == (120, 1)
        env.reset()
        env.step(np.int64(2))
        assert ok(instance.get(""))["steps"] == 121
    assert counter.done == [*(count % 5 for count in range(1, 121)), 2]
    # The first ones, and the last with its NumPy integer, are new to the stream.
    assert set(counter.deadlines[4:120]) == {WHOLE}


def test_wrappers_are_applied(api: Api, counter: Counter) -> None:
    with stepped(api, max_episode_steps=8) as env:
        steps = [env.step(1) for _ in range(8)]
    assert [step[3] for step in steps] == [False] * 7 + [True]


def test_no_cut_doubles_or_loses_a_step(api: Api, counter: Counter) -> None:
    with stepped(api) as env:
        # The first steps send the signatures over the stream.
        for count in range(1, 5):
            env.step(count % 5)
        for count in range(5, 65):
            if count % 3 == 0:
                counter.cuts = [CUTS[count // 3 % 3]]
            assert_identical(env.step(count % 5), expected(count, count % 5))
        assert counter.was_cut == 20
    assert counter.done == [step % 5 for step in range(1, 65)]


def test_messages_beside_the_fast_path_arrive(api: Api, counter: Counter) -> None:
    result: dict[str, Any] = {"observation": [1, 1], "reward": 0.5}
    result |= {"terminated": False, "truncated": False}
    with stepped(api) as env:
        env.step(1)
        counter.answers = [{"result": {**result, "info": {"level": 3}}}]
        assert env.step(1)[4] == {"level": 3}
        counter.answers = [{"error": {"message": "the crate is stuck"}}]
        with pytest.raises(Exception, match="the crate is stuck"):
            env.step(1)
        env.reset()
        counter.answers = [{"result": {**result, "observation": [1, 5]}}]
        with pytest.raises(ServerError, match="observation"):
            env.step(1)
        with pytest.raises(Exception, match="reset"):
            env.step(1)
        env.reset()
        assert_identical(env.step(2), expected(len(counter.done), 2))


def test_watchers_see_fast_steps(api: Api, counter: Counter) -> None:
    with stepped(api) as env:
        env.step(1)
        env.step(1)
        with open_watcher(Instance(api, env.instance_id), BINARY) as watcher:
            # It begins with the answer that was sent last.
            assert seen(watcher) == [2, 1]
            for count in (3, 4):
                env.step(2)
                assert seen(watcher) == [count, 2]
        assert_identical(env.step(4), expected(5, 4))


def seen(watcher: Watcher) -> list[int]:
    """Read the copy of a step; return its observation."""
    op, _, _, status, body = watcher.copy_binary()
    assert (op, status) == (STEP, 200)
    return list(body["observation"].tolist())


def test_rest_and_stream_take_turns(api: Api, counter: Counter) -> None:
    with stepped(api) as env:
        instance = Instance(api, env.instance_id)
        for count in range(1, 20, 2):
            assert_identical(env.step(1), expected(count, 1))
            body = ok(instance.post("step/", {"action": 3}))
            assert body["observation"] == [count + 1, 3]
    assert counter.done == [1, 3] * 10
