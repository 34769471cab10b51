"""Environments with spaces of other packages' classes work through every door."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import gymnasium
import numpy as np
import pytest

from gym_http_client import RemoteEnv, RemoteSpace, RemoteVectorEnv
from gym_http_wire.values import binary
from tests.support import api as calls
from tests.support.api import Api, Instance
from tests.support.envs.opaque_spaces import WORDS, Even
from tests.support.identity import assert_identical
from tests.support.peers.provider_process import provided_env
from tests.support.peers.zmq_peers import zmq_url
from tests.support.server import Server
from tests.support.websocket import TEXT, WebSocket

ENV_ID = "opaque/Errand-v0"
MODULE = "tests.support.envs.opaque_spaces"
MISSION = {
    "base": None,
    "class": f"{MODULE}:Mission",
    "repr": f"<{MODULE}.Mission object>",
    "type": "Opaque",
}
EVEN = {
    "arguments": {"limit": 6},
    "base": {"dtype": "int64", "n": 6, "start": 0, "type": "Discrete"},
    "class": f"{MODULE}:Even",
    "repr": "Discrete(6)",
    "type": "Opaque",
}
GO = ("please go", 4)
# Gymnasium's checker reads the bounds of a Box.
WITH_MUTE: dict[str, Any] = {
    "disable_env_checker": True,
    "kwargs": {"with_mute": True},
}
MODES = [
    {"vectorization_mode": "sync"},
    {"vectorization_mode": "async", "vector_kwargs": {"shared_memory": False}},
    {"vectorization_mode": "sync", "hosts": 2},
]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that has the environments."""
    with Server("--zmq", "tcp://127.0.0.1:0", "--import", MODULE) as started:
        yield started


@pytest.fixture
def errand(server: Server) -> Iterator[Callable[..., Instance]]:
    """Return a factory of instances, closed after the test."""
    made: list[Instance] = []

    def make(**options: Any) -> Instance:
        made.append(Api(server).create(ENV_ID, **options))
        return made[-1]

    yield make
    for instance in made:
        instance.close()


def post_step(instance: Instance, action: Any) -> tuple[int, Any]:
    """Step by REST, and return the status and the answer."""
    answer = instance.post("step/", {"action": action})
    return answer.status, answer.json()


def stream_step(instance: Instance, action: Any) -> tuple[int, Any]:
    """Step over a stream, and return the status and the answer."""
    stream = WebSocket.to(instance, sec_websocket_protocol=TEXT)
    answer = stream.call(action=action, op="step")
    stream.close()
    return answer["status"], answer["body"]


def test_curl_sees_them_named_and_called(errand: Callable[..., Instance]) -> None:
    instance = errand(**WITH_MUTE, render_mode="rgb_array")
    answer = calls.ok(instance.get("action_space/"))
    assert answer["space"] == {"type": "Tuple", "spaces": [MISSION, EVEN]}
    # As gym-http-api has them: a name, or what the nearest class has.
    assert answer["info"] == {
        "name": "Tuple",
        "spaces": [{"name": "Mission"}, {"name": "Discrete", "n": 6}],
    }
    seen = calls.ok(instance.get("observation_space/"))
    described = dict(seen["space"]["spaces"])
    assert described["mission"] == MISSION
    assert described["mute"]["class"] == f"{MODULE}:Mute"
    assert (described["mute"]["base"], described["mute"]["repr"]) == (None, None)
    assert seen["info"]["spaces"]["mute"] == {"name": "Mute"}
    mask = {"mask": [[1], None], "seed": 3}
    sample = calls.ok(instance.post("action_space/sample", mask))["action"]
    assert sample[0] == "please stay"
    assert sample[1] in (0, 2, 4)
    for value, member in ((GO, True), (("go", 4), False), (("please go", 3), False)):
        answer = instance.post("action_space/contains", {"value": value})
        assert calls.ok(answer) == {"member": member}, value
    assert calls.ok(instance.post("reset/", {"seed": 1}))
    assert instance.get("render/").content_type == "image/png"
    assert calls.ok(instance.get(""))["action_space"] == {
        "type": "Tuple",
        "spaces": [MISSION, EVEN],
    }


def test_what_a_space_raises_is_the_environments_error(
    errand: Callable[..., Instance],
) -> None:
    instance = errand(**WITH_MUTE)
    instance.reset()
    problem = calls.error(instance.get("observation_space/sample"), 502, "env-error")
    assert f"{MODULE}:Mute" in problem["message"]
    broken = {"value": ["broken", 0]}
    for form in ("application/json", "application/vnd.gym-http.typed+json"):
        problem = calls.error(
            instance.post(
                "action_space/contains", broken, headers={"Content-Type": form}
            ),
            502,
            "env-error",
        )
        assert f"{MODULE}:Mission" in problem["message"]
    problem = calls.error(
        instance.post("step/", {"action": ["broken", 0]}), 502, "env-error"
    )
    assert f"{MODULE}:Mission" in problem["message"]
    assert instance.step(GO)["observation"]["mission"] == "please go"


def test_what_exits_is_the_environments_error_too(server: Server) -> None:
    instance = Api(server).create("opaque/Exit-v0")
    with closing(instance):
        for form in ("application/json", "application/vnd.gym-http.typed+json"):
            answer = instance.post("reset/", {}, headers={"Accept": form})
            assert answer.status == 200, answer.text
        space = calls.ok(instance.get("action_space/"))["space"]
        assert (space["class"], space["repr"]) == (f"{MODULE}:Leaving", None)
        for rest, body in (
            ("step/", {"action": 0}),
            ("action_space/contains", {"value": 0}),
            ("attributes/action_space/call/", {"method": "sample"}),
            ("attributes/action_space/call/", {"method": "seed"}),
        ):
            problem = calls.error(instance.post(rest, body), 502, "env-error")
            assert f"{MODULE}:Leaving" in problem["message"]
            assert problem["error_type"] == "SystemExit"
        assert instance.reset()["observation"] == 0


@pytest.mark.parametrize("key", [b"b", 1.5, True, np.zeros(1), ([],), -1, 2])
def test_a_path_that_leads_to_no_space_is_refused(
    errand: Callable[..., Instance], key: Any
) -> None:
    instance = errand()
    answer = instance.post(
        "attributes/action_space/call/",
        data=bytes(binary.encode({"method": "sample", "path": [key]})),
        headers={"Content-Type": "application/vnd.gym-http.binary"},
    )
    problem = calls.error(answer, 400, "bad-parameter")
    assert problem["message"].startswith("path is [")
    assert "one of [0, 1]" in problem["message"]


@pytest.mark.parametrize("step", [post_step, stream_step])
def test_values_pass_uncast_and_the_class_decides(
    errand: Callable[..., Instance], step: Callable[..., tuple[int, Any]]
) -> None:
    instance = errand()
    instance.reset(seed=1)
    status, answer = step(instance, GO)
    assert status == 200, answer
    assert answer["observation"]["mission"] == "please go"
    assert answer["info"]["types"] == ["str", "int"]
    for action, index, name in (
        (("go", 4), 0, "Mission"),
        (("please go", 3), 1, "Even"),
        # The nearest class would read it as 4.
        (("please go", "4"), 1, "Even"),
    ):
        status, problem = step(instance, action)
        assert (status, problem["code"]) == (400, "invalid-action"), problem
        assert f"action[{index}] is {json.dumps(action[index])}" in problem["message"]
        assert f"an element of {MODULE}:{name}" in problem["message"]


@contextmanager
def remote_env(server: Server, way: str) -> Iterator[RemoteEnv]:
    """Make the environment on a server, or provide it to the server."""
    url = zmq_url(server) if way == "zeromq" else server.url
    if way != "provided":
        with RemoteEnv(url, ENV_ID) as env:
            yield env
        return
    with (
        provided_env(url, f"{MODULE}:{ENV_ID}"),
        RemoteEnv(url, "external/provided", wait_s=20) as env,
    ):
        yield env


@pytest.mark.parametrize("way", ["http", "zeromq", "provided"])
def test_python_has_them_as_spaces(server: Server, way: str) -> None:
    local = gymnasium.make(ENV_ID)
    with remote_env(server, way) as env:
        mission, even = env.action_space.spaces  # type: ignore[attr-defined]
        assert isinstance(mission, RemoteSpace)
        assert (mission.description, mission.base) == (MISSION, None)
        # This process has imported its module, and its argument is plain data.
        assert type(even) is Even
        assert even == Even(6)
        env.action_space.seed(7)
        local.action_space.seed(7)
        for _ in range(5):
            assert_identical(env.action_space.sample(), local.action_space.sample())
        assert mission.seed(4) == local.action_space.spaces[0].seed(4)  # type: ignore[attr-defined]
        masked = mission.sample(mask=[2])
        assert masked == f"please {WORDS[2]}"
        assert mission.contains("please go")
        assert "go" not in mission
        with pytest.raises(ArithmeticError, match="contains is broken"):
            mission.contains("broken")
        assert_identical(env.reset(seed=3), local.reset(seed=3))
        assert env.observation_space.contains(env.reset()[0])
        local.reset()
        assert_identical(env.step(GO), local.step(GO))
        with pytest.raises(gymnasium.error.Error, match=f"{MODULE}:Even"):
            env.step(("please go", 3))
        action = ("please turn", np.int64(2))
        assert_identical(env.step(action), local.step(action))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", MODES)
def test_vectors_have_them(server: Server, options: dict[str, Any]) -> None:
    mode = {"vectorization_mode": "sync"}
    with (
        closing(gymnasium.make_vec(ENV_ID, num_envs=3, **mode)) as local,
        closing(RemoteVectorEnv(server.url, ENV_ID, num_envs=3, **options)) as env,
    ):
        for name in RemoteVectorEnv.SPACES:
            assert type(getattr(env, name)) is type(getattr(local, name)), name
        assert_identical(env.reset(seed=3), local.reset(seed=3))
        actions = env.action_space.sample()
        assert env.action_space.contains(actions)
        assert_identical(env.step(actions), local.step(actions))
        single = env.single_action_space.sample()
        assert env.single_action_space.contains(single)
        wrong = (("please go", "go", "please go"), np.array([0, 2, 4]))
        with pytest.raises(gymnasium.error.Error, match=f"{MODULE}:Mission"):
            env.step(wrong)
        assert_identical(env.step(actions), local.step(actions))


def test_a_space_of_a_closed_environment_says_so(server: Server) -> None:
    with RemoteEnv(server.url, ENV_ID) as env:
        space = env.observation_space
        assert space.contains(space.sample())
    # This environment ends with the expression, as nothing else refers to it.
    for each in (space, RemoteEnv(server.url, ENV_ID).observation_space):
        with pytest.raises(gymnasium.error.ClosedEnvironmentError, match="is closed"):
            each.sample()


def test_vectors_of_external_environments_have_them(server: Server) -> None:
    with (
        provided_env(server.url, f"{MODULE}:{ENV_ID}", n=2),
        closing(
            RemoteVectorEnv(server.url, "external/provided", num_envs=2, wait_s=20)
        ) as env,
    ):
        env.reset(seed=1)
        assert env.single_action_space.spaces[0].contains("please go")  # type: ignore[attr-defined]
        missions = ("please go", "please stay")
        observation, *_ = env.step((missions, np.array([0, 4])))
        assert observation["mission"] == missions
        with pytest.raises(gymnasium.error.Error, match=f"{MODULE}:Mission"):
            env.step((("go", "please stay"), np.array([0, 4])))


def test_many_remote_environments_make_a_vector(server: Server) -> None:
    makers = [lambda: RemoteEnv(server.url, ENV_ID) for _ in range(2)]
    with closing(gymnasium.vector.SyncVectorEnv(makers)) as env:
        env.reset(seed=1)
        assert env.action_space.contains(env.action_space.sample())
        # Gymnasium batches the even numbers as any numbers.
        env.step((("please go", "please stay"), np.array([0, 4])))
