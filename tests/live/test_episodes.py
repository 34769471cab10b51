"""Episodes that the server counts, the keys of environments, and the list's filters."""

import contextlib
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import RecordEpisodeStatistics

from gym_http_client import RemoteEnv, RemoteVectorEnv
from tests.support.api import Api, Instance, error, ok
from tests.support.server import Server
from tests.support.websocket import TEXT, WebSocket

pytestmark = pytest.mark.live

STEPS = 120
#: To close one closes its instance.
REMOTES: list[RemoteEnv] = []


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with Server() as server:
        yield Api(server)


def local_episodes(seed: int) -> list[tuple[float, int]]:
    """Returns and lengths, by Gymnasium's own wrapper."""
    env = RecordEpisodeStatistics(gymnasium.make("CartPole-v1"))
    env.reset(seed=seed)
    found = []
    for number in range(STEPS):
        *_, over, cut, info = env.step(number % 2)
        if over or cut:
            found.append((float(info["episode"]["r"]), int(info["episode"]["l"])))
            env.reset()
    return found


def rest(instance: Instance, seed: int) -> None:
    instance.reset(seed=seed)
    for number in range(STEPS):
        answer = instance.step(number % 2)
        if answer["terminated"] or answer["truncated"]:
            instance.reset()


def batch(instance: Instance, seed: int) -> None:
    instance.reset(seed=seed)
    left = [number % 2 for number in range(STEPS)]
    while left:
        answer = ok(instance.post("step/", {"actions": left}))
        left = left[len(answer["rewards"]) :]
        if left:
            instance.reset()


def stream(instance: Instance, seed: int) -> None:
    with WebSocket.to(instance, sec_websocket_protocol=TEXT) as socket:
        socket.call(op="reset", seed=seed)
        for number in range(STEPS):
            answer = socket.call(op="step", action=number % 2)["body"]
            if answer["terminated"] or answer["truncated"]:
                socket.call(op="reset")


def remote_env(instance: Instance, seed: int) -> None:
    env = RemoteEnv.attach(instance.api.server.url, instance.id)
    env.reset(seed=seed)
    for number in range(STEPS):
        *_, over, cut, _ = env.step(number % 2)
        if over or cut:
            env.reset()
    REMOTES.append(env)


@pytest.mark.parametrize("play", [rest, batch, stream, remote_env])
def test_episodes_are_counted_on_every_path(play: Any, api: Api) -> None:
    instance = api.create()
    play(instance, 7)
    found = ok(instance.get("episodes/"))
    wanted = local_episodes(7)
    assert [(each["return"], each["length"]) for each in found["episodes"]] == wanted
    assert [each["number"] for each in found["episodes"]] == list(range(len(wanted)))
    assert found["total"] == len(wanted)
    assert found["episodes"][0]["seed"] == 7
    assert {each["end"] for each in found["episodes"]} == {"terminated"}
    (current,) = found["current"]
    assert current["length"] == STEPS - sum(length for _, length in wanted)
    newest = ok(instance.get("episodes/?last=2"))["episodes"]
    assert newest == found["episodes"][-2:]
    assert (
        ok(instance.get(f"episodes/?from={len(wanted) - 1}"))["episodes"] == newest[1:]
    )
    instance.reset()
    cut = ok(instance.get("episodes/?last=1"))["episodes"][0]
    assert (cut["end"], cut["length"]) == ("reset", current["length"])
    (row,) = ok(api.get(f"/v1/instances/?search={instance.id}"))["instances"]
    assert (row["last_return"], row["last_length"]) == (cut["return"], cut["length"])
    assert 0 < row["step_ms"]["p50"] <= row["step_ms"]["p99"]
    while REMOTES:
        REMOTES.pop().close()
    instance.close()


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_episodes_of_vectors_are_counted_by_environment(
    mode: AutoresetMode, api: Api
) -> None:
    def make() -> gymnasium.Env[Any, Any]:
        return RecordEpisodeStatistics(gymnasium.make("CartPole-v1"))

    local = SyncVectorEnv([make] * 3, autoreset_mode=mode)
    remote = RemoteVectorEnv(
        api.server.url,
        "CartPole-v1",
        num_envs=3,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": mode.value},
    )
    wanted = []
    with contextlib.closing(remote):
        local.reset(seed=3)
        remote.reset(seed=3)
        for number in range(STEPS):
            actions = np.array([number % 2, number % 3 % 2, 1])
            *_, over, cut, infos = local.step(actions)
            remote.step(actions)
            done = over | cut
            if mode == AutoresetMode.SAME_STEP and done.any():
                infos = infos["final_info"]
            for index in np.flatnonzero(done):
                episode = infos["episode"]
                row = index, episode["r"][index], episode["l"][index]
                wanted.append((int(row[0]), float(row[1]), int(row[2])))
            if mode == AutoresetMode.DISABLED and done.any():
                local.reset(options={"reset_mask": done.copy()})
                remote.reset(options={"reset_mask": done.copy()})
        found = ok(api.get(f"/v1/envs/{remote.instance_id}/episodes/"))
    rows = [(each["env"], each["return"], each["length"]) for each in found["episodes"]]
    assert len(rows) > 6
    assert rows == wanted
    assert {each["env"] for each in found["current"]} <= {0, 1, 2}


@pytest.mark.parametrize(
    "query", ["last=0", "last=1001", "last=x", "from=-1", "last=1&last=2", "lst=1"]
)
def test_bad_parameters_are_named(query: str, api: Api) -> None:
    instance = api.create()
    problem = error(instance.get(f"episodes/?{query}"), 400, "bad-parameter")
    assert query.partition("=")[0] in problem["message"]
    instance.close()


def test_the_list_is_searched(api: Api) -> None:
    mine = api.create(env_id="MountainCar-v0", label="Anna's car")
    for query in ("search=anna", "search=MOUNTAIN&state=idle", f"search={mine.id}"):
        (row,) = ok(api.get(f"/v1/instances/?{query}"))["instances"]
        assert row["instance_id"] == mine.id
    assert ok(api.get("/v1/instances/?search=anna&state=busy"))["instances"] == []
    mine.close()
    found = ok(api.get("/v1/instances/?search=anna&state=ended"))
    assert [each["instance_id"] for each in found["ended"]] == [mine.id]
    assert found["ended"][0]["log"] == f"/v1/envs/{mine.id}/log/"
    assert found["ended"][0]["log_tail"] is None
    assert found["slots"]["of"] == 64
    for query in ("state=dead", "search=" + "x" * 201, "search=%07"):
        error(api.get(f"/v1/instances/?{query}"), 400, "bad-parameter")


@pytest.mark.parametrize(
    ("env_id", "keys", "noop", "waits"),
    [
        ("CartPole-v1", {"ArrowLeft": 0, "ArrowRight": 1}, 0, False),
        ("Taxi-v4", {"ArrowDown": 0, "ArrowUp": 1, "KeyP": 4}, None, True),
        ("MountainCar-v0", {"ArrowLeft": 0, "ArrowRight": 2}, 1, False),
        ("ALE/Pong-v5", {"KeyD": 2, "KeyA": 3}, 0, False),
        ("HalfCheetah-v5", None, None, False),
    ],
)
def test_keys(
    env_id: str, keys: dict[str, Any] | None, noop: Any, waits: bool, api: Api
) -> None:
    instance = api.create(env_id=env_id)
    found = ok(instance.get("keys/"))
    instance.close()
    if keys is None:
        assert found["keys"] is None
        return
    single = {
        each["keys"][0]: each["action"]
        for each in found["keys"]
        if len(each["keys"]) == 1
    }
    assert keys.items() <= single.items()
    assert (found["noop"], found["wait"]) == (noop, waits)
    assert found["fps"] > 0
