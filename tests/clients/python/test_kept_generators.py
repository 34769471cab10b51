"""A generator that a caller keeps draws the same numbers as the local one."""

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from gym_http_client import RemoteEnv, RemoteVectorEnv, ServerError, through_wire
from gym_http_client import Server as Place
from tests.support.identity import assert_identical
from tests.support.server import Server

KINDS = ["MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"]

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning")
Make = Callable[..., tuple[Any, Any]]


@pytest.fixture(params=["stream", "rest", "in process"])
def pair(request: pytest.FixtureRequest, server: Server) -> Iterator[Make]:
    """Return a factory of remote environments with their local references."""
    made: list[Any] = []

    def make(env_id: str = "FrozenLake-v1") -> tuple[Any, Any]:
        if request.param == "in process":
            made.append(through_wire(gymnasium.make(env_id)))
        else:
            place = Place(server.url, streams=request.param == "stream")
            made.append(RemoteEnv(place, env_id))
        made.append(gymnasium.make(env_id).unwrapped)
        for env in made[-2:]:
            env.reset(seed=3)
        return made[-2], made[-1]

    yield make
    for env in made:
        env.close()


def test_a_policy_keeps_the_generator(pair: Make) -> None:
    played = []
    for env in pair():
        rng = env.np_random
        rows = []
        for number in range(200):
            action = int(rng.integers(4)) if number % 3 else 2
            rows.append(env.step(action)[:4])
            if rows[-1][2]:
                rows.append(env.reset())
        rows.append(rng.random(3))
        assert env.np_random is rng
        played.append(rows)
    assert_identical(played[0], played[1])


def test_it_is_kept_by_references_to_its_parts(pair: Make) -> None:
    played = []
    for env in pair():
        draw, bits = env.np_random.random, env.np_random.bit_generator
        rows = []
        for _ in range(5):
            rows.append((draw(), bits.random_raw(), env.step(1)[:4]))
        played.append(rows)
    assert_identical(played[0], played[1])


def test_resetting_with_a_seed_leaves_it_alone(pair: Make) -> None:
    played = []
    for env in pair():
        rng = env.np_random
        env.reset(seed=8)
        rows = [rng.random(), env.step(1)[:4], rng.random(), env.np_random.random()]
        assert env.np_random is not rng
        played.append(rows)
    assert_identical(played[0], played[1])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_numpys_can_be_set(pair: Make, kind: str) -> None:
    played = []
    for env in pair():
        mine = np.random.Generator(getattr(np.random, kind)(11))
        mine.integers(3, dtype=np.int32)
        env.np_random = mine
        rows: list[Any] = [env.np_random_seed]
        for _ in range(30):
            rows.append(env.step(int(mine.integers(4)))[:4])
        assert env.np_random is mine
        rows += [mine.spawn(1)[0].random(), env.np_random.spawn(1)[0].random()]
        rows += [env.reset(), mine.random(), env.reset(seed=1), env.np_random_seed]
        rows += [env.np_random.random(), mine.random()]
        played.append(rows)
    assert played[0][0] == -1
    assert_identical(played[0], played[1])


def test_it_spawns_like_the_local_one(pair: Make) -> None:
    played = []
    for env in pair():
        rng = env.np_random
        rows = [child.random() for child in rng.spawn(2)]
        env.step(1)
        rows += [child.random() for child in rng.spawn(2)]
        rows += [child.random() for child in env.np_random.spawn(1)]
        rows += [env.np_random.random(), rng.spawn(1)[0].spawn(1)[0].random()]
        played.append(rows)
    assert played[0] == played[1]


@pytest.mark.parametrize("value", [5, None, np.random.RandomState(1)])
def test_values_that_are_no_generators_are_refused(pair: Make, value: Any) -> None:
    remote, _ = pair()
    with pytest.raises(TypeError, match=r"np_random is .*numpy\.random\.Generator"):
        remote.np_random = value


class Drawing(gymnasium.Env[Any, Any]):
    """Draws in every call, and seeds differently from Gymnasium."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Box(0.0, 1.0, (), np.float64)

    def __init__(self, replaces: bool = False) -> None:
        self.replaces = replaces

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, Any]:
        if self.replaces:
            self.np_random = np.random.Generator(np.random.SFC64(7))
        return self.np_random.random(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Any]:
        drawn = self.np_random.random()
        if action:
            raise ValueError(f"drew {drawn}")
        return drawn, 0.0, False, False, {}

    def goal(self) -> Any:
        return self.np_random.random(), self.np_random.spawn(1)[0].random()


@pytest.mark.parametrize("replaces", [False, True])
def test_environments_with_their_own_seeding(replaces: bool) -> None:
    played = []
    for env in (through_wire(Drawing(replaces)), Drawing(replaces)):
        env.np_random = np.random.Generator(np.random.PCG64(3))
        rng = env.np_random
        rows: list[Any] = []
        for seed in (None, 4, None):
            rows += [env.reset(seed=seed), rng.random(), env.step(0), env.goal()]
            rows += [rng.random(), rng.spawn(1)[0].random(), env.np_random.random()]
            with pytest.raises(ValueError, match="drew") as caught:
                env.step(1)
            rows += [str(caught.value), rng.random(), env.goal(), env.np_random is rng]
        played.append(rows)
    assert_identical(played[0], played[1])


def test_an_unused_generator_costs_no_request() -> None:
    env = through_wire(gymnasium.make("FrozenLake-v1"))
    env.reset(seed=0)
    env.np_random.random()
    handle: Any = env._handle
    call, requests = handle.call, []

    def noting(method: str, path: str, given: Any = None) -> Any:
        requests.append(f"{method} {path}")
        return call(method, path, given)

    handle.call = noting
    for _ in range(3):
        env.step(1)
    assert requests == ["POST generator/", *["POST step/"] * 3]
    env.close()


@pytest.mark.parametrize("streams", [True, False])
def test_a_kept_generator_takes_no_request_more(server: Server, streams: bool) -> None:
    with RemoteEnv(Place(server.url, streams=streams), "FrozenLake-v1") as env:
        env.reset(seed=0)
        rng = env.np_random
        handle: Any = env._handle
        call, requests = handle.call, []

        def noting(method: str, path: str, given: Any = None) -> Any:
            requests.append(f"{method} {path}")
            return call(method, path, given)

        handle.call = noting
        for _ in range(3):
            env.step(1)
        env.reset()
        assert requests == [*["POST step/"] * 3, "POST reset/"]
        rng.random()
        env.step(1)
        assert requests[4:] == ["POST generator/", "POST step/"]


@pytest.mark.parametrize("hosts", [1, 2])
def test_generators_of_a_vector_are_kept(server: Server, hosts: int) -> None:
    options: dict[str, Any] = {"num_envs": 3, "vectorization_mode": "sync"}
    remote = RemoteVectorEnv(server.url, "FrozenLake-v1", hosts=hosts, **options)
    local = gymnasium.make_vec("FrozenLake-v1", **options)
    played = []
    for vector in (remote, local):
        vector.reset(seed=3)
        kept = vector.np_random
        rows: list[Any] = []
        for number in range(60):
            actions = np.array([rng.integers(4) for rng in kept])
            rows.append(vector.step(actions)[:4])
            if number == 30:
                rows.append(vector.reset(seed=[None, 5, None]))
        rows += [rng.random() for rng in kept]
        rows += [rng.spawn(1)[0].random() for rng in kept]
        rows += [rng.spawn(1)[0].random() for rng in vector.np_random]
        rows.append([a is b for a, b in zip(kept, vector.np_random, strict=True)])
        played.append(rows)
    assert played[0][-1] == [True, False, True]
    assert_identical(played[0], played[1])
    for vector in (remote, local):
        with pytest.raises(AttributeError) as caught:
            vector.np_random = np.random.default_rng(1)
    assert isinstance(local, SyncVectorEnv)
    with pytest.raises(AttributeError, match="tuple of 3 generators") as caught:
        remote.np_random = np.random.default_rng(1)
    assert "list of seeds" in str(caught.value)
    remote.close()
    local.close()


def test_a_vector_with_one_generator_takes_another(server: Server) -> None:
    played = []
    remote = RemoteVectorEnv(server.url, "CartPole-v1", num_envs=2)
    local = gymnasium.make_vec("CartPole-v1", num_envs=2)
    for vector in (remote, local):
        vector.reset(seed=3)
        mine = np.random.Generator(np.random.Philox(5))
        vector.np_random = mine
        rows: list[Any] = [vector.np_random_seed, vector.np_random is mine]
        rows += [mine.random(), vector.reset(), mine.random()]
        played.append(rows)
    assert_identical(played[0], played[1])
    remote.close()
    local.close()


def test_a_vector_that_steps_without_waiting(server: Server) -> None:
    remote = RemoteVectorEnv(
        server.url, "FrozenLake-v1", num_envs=2, vectorization_mode="sync"
    )
    local = gymnasium.make_vec("FrozenLake-v1", num_envs=2, vectorization_mode="sync")
    remote.reset(seed=1)
    local.reset(seed=1)
    ours, theirs = remote.np_random[0], local.np_random[0]
    for _ in range(20):
        assert ours.random() == theirs.random()
        remote.step_async(np.array([1, 2]))
        assert_identical(remote.step_wait(), local.step(np.array([1, 2])))
    remote.close()
    local.close()


PCG64 = np.random.PCG64(1).state
MT19937 = np.random.MT19937(1).state
PHILOX = np.random.Philox(1).state


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"state": 5}, "bit_generator"),
        ({"state": {"bit_generator": "Nonsense"}}, "Nonsense.*MT19937"),
        ({"state": {"bit_generator": "os.system"}}, "os.system"),
        ({"state": {"bit_generator": ["PCG64"]}}, "PCG64"),
        ({"state": {**PCG64, "has_uint32": 2}}, "has_uint32 is 2"),
        ({"state": {**PCG64, "uinteger": -1}}, "uinteger is -1"),
        ({"state": {**PCG64, "state": {"state": 1}}}, "state.state has no inc"),
        ({"state": {**PCG64, "state": {"state": 2**128, "inc": 1}}}, "expected 0"),
        ({"state": {**PCG64, "state": {"state": 1.5, "inc": 1}}}, "expected an integ"),
        (
            {"state": {**MT19937, "state": {**MT19937["state"], "pos": 10**6}}},
            "pos is 1000000: expected 0 to 624",
        ),
        (
            {"state": {**MT19937, "state": {"key": [1, 2], "pos": 0}}},
            "expected 624 integers",
        ),
        ({"state": {**PHILOX, "buffer_pos": -1}}, "buffer_pos is -1"),
        ({"state": PCG64, "seed_sequence": 3}, "seed_sequence is 3"),
        (
            {"state": PCG64, "seed_sequence": {"entropy": 1, "pool_size": 10**9}},
            "pool_size",
        ),
        (
            {"state": PCG64, "seed_sequence": {"entropy": [1] * 5000}},
            "at most 1024 integers",
        ),
        ({"state": PCG64, "seed_sequence": {"entropy": -1}}, "entropy is negative"),
        ({"state": PCG64, "seed_sequence": {"entropy": 2**9000}}, "8192 bits"),
        ({"state": PCG64, "replace": 1}, "replace is 1"),
    ],
)
def test_states_are_checked(given: dict[str, Any], words: str) -> None:
    env = through_wire(gymnasium.make("FrozenLake-v1"))
    env.reset(seed=0)
    before = env.np_random.bit_generator.state
    handle: Any = env._handle
    with pytest.raises(ServerError, match=words) as caught:
        handle.call("POST", "generator/", {"replace": True, **given})
    assert caught.value.status_code == 400
    with pytest.raises(ServerError) as caught:
        handle.call("POST", "generator/", given)
    assert caught.value.status_code == 400
    assert env.np_random.bit_generator.state == before
    with pytest.raises(ServerError, match=r"state is one of MT19937: expected.*PCG64"):
        handle.call("POST", "generator/", {"state": MT19937})
    env.close()
