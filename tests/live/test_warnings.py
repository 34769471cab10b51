"""Warnings of server, checkers and environments reach clients as local users."""

import importlib.util
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.envs.registration import registry

import gym_http_client  # noqa: F401 - registers gym_http/Remote-v0
from gym_http_client import Client, RemoteEnv, RemoteVectorEnv, ServerError
from gym_http_client import Server as Address
from gym_http_wire.values import binary, typed
from tests.support import api as calls
from tests.support.api import Api, Instance
from tests.support.peers.watcher import open_stream
from tests.support.server import Server
from tests.support.wait import wait_until

SOURCE = '''\
import warnings

import gymnasium
import numpy as np


class Odd(FutureWarning):
    """Of a class that nobody else has."""


class Careless(gymnasium.Env):
    """Returns what Gymnasium's checker warns of, and warns itself."""

    metadata = {"render_modes": ["rgb_array", "ansi"]}
    action_space = gymnasium.spaces.Discrete(4)
    observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)

    def __init__(self, render_mode=None, depend="", read=""):
        self.render_mode = render_mode
        if read:
            open(read)
        warnings.warn("made with care", RuntimeWarning)
        if depend:
            raise gymnasium.error.DependencyNotInstalled(
                "pygame is not installed, run `pip install \\"gymnasium[box2d]\\"`"
            )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.full(2, -1.0), {}

    def step(self, action):
        self.steps += 1
        if action == 1:
            warnings.warn("odd", Odd)
        if action == 2:
            warnings.warn("about to fail")
            raise ValueError("failed")
        if action == 3:
            for number in range(5):
                warnings.warn(f"{number}" + 900 * "x")
        return np.full(2, 2.0), float("nan"), 0, False, {}


gymnasium.register("Careless-v0", Careless)
gymnasium.register("Absent-v0", "absent_package.envs:Env")
'''
Warnings = list[tuple[str, str]]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file with environments, which are registered here as well."""
    path = tmp_path_factory.mktemp("envs") / "careless_envs.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("careless_envs", path)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    yield path
    for name in ("Careless-v0", "Absent-v0"):
        del registry[name]


@pytest.fixture(scope="module")
def server(path: Path) -> Iterator[Server]:
    """A server that has them, too."""
    with Server("--import", str(path), "--allow-origin", "https://a.example") as server:
        yield server


@pytest.fixture
def careless(server: Server) -> Iterator[Instance]:
    """An instance whose create answer contained no warnings of checkers."""
    instance = Api(server).create("Careless-v0")
    yield instance
    calls.no_content(instance.close())


def local_warnings(make: Callable[[], Any], *, actions: Any = (0, 1, 0, 1)) -> Warnings:
    """Play, and list the warnings in their order, each once."""
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        env = make()
        env.reset(seed=1)
        for action in actions:
            env.step(action)
        env.close()
    each = [(_builtin(one.category), str(one.message)) for one in record]
    return list(dict.fromkeys(each))


def _builtin(category: type[Warning]) -> str:
    return next(c.__name__ for c in category.__mro__ if c.__module__ == "builtins")


def header_warnings(header: str | None) -> Warnings:
    """List the warnings of a header."""
    assert header is not None
    assert header.isascii()
    return [(each["category"], each["message"]) for each in json.loads(header)]


def messages(value: Any) -> list[str]:
    """List the messages of a member."""
    return [each["message"] for each in value["warnings"]]


@pytest.mark.parametrize("streams", [True, False])
def test_warnings_are_those_of_a_local_environment(
    server: Server, streams: bool
) -> None:
    address = Address(server.url, streams=streams)
    expected = local_warnings(lambda: gymnasium.make("Careless-v0"))
    assert ("RuntimeWarning", "made with care") in expected
    assert ("FutureWarning", "odd") in expected
    assert len([text for _, text in expected if "WARN: " in text]) >= 5
    assert local_warnings(lambda: RemoteEnv(address, "Careless-v0")) == expected


def test_so_they_are_by_make(server: Server) -> None:
    expected = local_warnings(lambda: gymnasium.make("Careless-v0"))
    name = "gym_http/Remote-v0"
    made = local_warnings(
        lambda: gymnasium.make(name, url=server.url, env_id="Careless-v0")
    )
    assert made == expected


@pytest.mark.parametrize("hosts", [1, 2])
def test_so_they_are_of_vectors(server: Server, hosts: int) -> None:
    def local() -> Any:
        return gymnasium.make_vec("Careless-v0", 2, vectorization_mode="sync")

    def remote() -> Any:
        return RemoteVectorEnv(server.url, "Careless-v0", num_envs=2, hosts=hosts)

    actions = [[0, 0], [1, 0], [0, 1]]
    assert local_warnings(remote, actions=actions) == local_warnings(
        local, actions=actions
    )


@pytest.mark.parametrize("env_id", ["CartPole-v0", "CartPole"])
def test_so_are_those_of_versions(server: Server, env_id: str) -> None:
    expected = local_warnings(lambda: gymnasium.make(env_id), actions=[0])
    assert expected
    assert (
        local_warnings(lambda: RemoteEnv(server.url, env_id), actions=[0]) == expected
    )


def test_correct_environments_have_no_warnings(server: Server) -> None:
    assert (
        local_warnings(lambda: RemoteEnv(server.url, "CartPole-v1"), actions=[0, 1])
        == []
    )
    instance = Api(server).create()
    assert instance.post("reset/", {}).header("Gym-Warnings") is None
    calls.no_content(instance.close())


def test_a_warning_that_is_an_error_is_raised(server: Server) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env = RemoteEnv(server.url, "Careless-v0")
        env.reset()
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="WARN"):
            env.step(0)
        assert env.step(0)[1] != env.step(0)[1]
        env.close()


def test_a_warning_that_is_an_error_leaves_no_instance(server: Server) -> None:
    before = Api(server).instances()
    client = Client(server.url)
    for make in (
        lambda: RemoteEnv(server.url, "Careless-v0"),
        lambda: client.env_create("Careless-v0"),
    ):
        with warnings.catch_warnings(action="error"), pytest.raises(RuntimeWarning):
            make()
    client.close()
    assert Api(server).instances() == before


def test_warnings_before_an_exception_are_shown(server: Server) -> None:
    for streams in (True, False):
        with warnings.catch_warnings(record=True) as record:
            warnings.simplefilter("always")
            env = RemoteEnv(Address(server.url, streams=streams), "Careless-v0")
            env.reset()
            with pytest.raises(ValueError, match="failed"):
                env.step(2)
            env.close()
        assert "about to fail" in [str(each.message) for each in record]


def test_rest_has_them_in_a_header_once(careless: Instance) -> None:
    first = careless.post("reset/", {"seed": 1})
    assert set(calls.ok(first)) == {"info", "observation"}
    assert [kind for kind, _ in header_warnings(first.header("Gym-Warnings"))].count(
        "UserWarning"
    )
    assert careless.post("reset/", {"seed": 1}).header("Gym-Warnings") is None
    careless.step(1)
    assert careless.post("step/", {"action": 1}).header("Gym-Warnings") is None
    failed = careless.post("step/", {"action": 2})
    calls.error(failed, 502, "env-error")
    assert header_warnings(failed.header("Gym-Warnings")) == [
        ("UserWarning", "about to fail")
    ]


def test_reads_do_not_consume_warnings(careless: Instance) -> None:
    careless.post("reset/", {"seed": 1})
    # More than fits into one header.
    assert careless.post("step/", {"action": 3}).header("Gym-Warnings")
    for each in ("", "action_space/", "observation_space/", "monitor/"):
        assert careless.get(each).header("Gym-Warnings") is None, each
    with open_stream(careless) as agent:
        answer = agent.call(op="reset", seed=1)
    assert messages(answer["body"])
    assert {"info", "observation"} < set(answer["body"])


def test_the_lossless_forms_have_a_member(careless: Instance) -> None:
    for media, codec, action in (
        ("application/vnd.gym-http.typed+json", typed, 0),
        ("application/vnd.gym-http.binary", binary, 1),
    ):
        body = codec.encode({"action": action})
        if action == 0:
            careless.post("reset/", {})
        headers = {"Accept": media, "Content-Type": media}
        answer = careless.post("step/", data=body, headers=headers)
        assert messages(codec.decode(answer.body)), media
        assert answer.header("Gym-Warnings") is None
        again = careless.post("step/", data=body, headers=headers)
        assert "warnings" not in codec.decode(again.body)


def test_batches_have_them_too(server: Server, careless: Instance) -> None:
    answer = careless.post("rollout/", {"actions": [[0, 1]]})
    assert ("FutureWarning", "odd") in header_warnings(answer.header("Gym-Warnings"))
    fresh = Api(server).create("Careless-v0")
    fresh.reset()
    steps = [{"instance_id": fresh.id, "action": 1}]
    batch = calls.ok(Api(server).post("/v1/batch/step/", {"steps": steps}))
    assert "odd" in messages(batch["results"][0])
    calls.no_content(fresh.close())


def test_the_servers_log_has_each_once(server: Server, careless: Instance) -> None:
    for _ in range(3):
        careless.post("reset/", {})
        careless.post("step/", {"action": 1})
    line = f"{careless.id} (Careless-v0): FutureWarning: odd"
    wait_until(lambda: line in server.stderr, 10.0, "the warning in the log")
    assert server.stderr.count(line) == 1
    assert "\x1b" not in server.stderr


def test_creates_warn_of_members_that_are_unknown(server: Server) -> None:
    api = Api(server)
    for accept, codec in (
        ("application/json", None),
        ("application/vnd.gym-http.typed+json", typed),
        ("application/vnd.gym-http.binary", binary),
    ):
        request = {"env_id": "CartPole-v1", "num_env": 3}
        answer = api.post("/v1/envs/", request, headers={"Accept": accept})
        words = "the member 'num_env' of the create request is unknown; "
        words += "did you mean 'num_envs'?"
        if codec is None:
            value = calls.ok(answer)
            assert set(value) == {"instance_id"}
            assert header_warnings(answer.header("Gym-Warnings")) == [
                ("UserWarning", words)
            ]
        else:
            assert answer.header("Content-Type") == accept
            value = codec.decode(answer.body)
            assert messages(value) == [words]
        calls.no_content(Instance(api, value["instance_id"]).close())


def test_a_page_may_read_the_header(server: Server) -> None:
    origin = {"Origin": "https://a.example"}
    answer = Api(server).get("/v1/envs/", headers=origin)
    assert "Gym-Warnings" in str(answer.header("Access-Control-Expose-Headers"))


def test_a_retired_version_is_replaced_for_old_clients_alone(server: Server) -> None:
    api = Api(server)
    request = {"env_id": "FrozenLake-v0"}
    answer = api.post("/v1/envs/", request)
    ((_, words),) = header_warnings(answer.header("Gym-Warnings"))
    assert "FrozenLake-v0" in words
    assert "FrozenLake-v1" in words
    calls.no_content(Instance(api, calls.ok(answer)["instance_id"]).close())
    with (
        pytest.warns(UserWarning, match="FrozenLake-v1 was made instead"),
        Client(server.url) as client,
    ):
        client.env_close(client.env_create("FrozenLake-v0"))


@pytest.mark.parametrize("env_id", ["LunarLander-v2", "FrozenLake-v0", "CartPole-v7"])
def test_remote_env_raises_as_make_does(server: Server, env_id: str) -> None:
    outcomes: list[tuple[Warnings, type[Exception], str]] = []
    for make in (
        lambda: gymnasium.make(env_id),
        lambda: RemoteEnv(server.url, env_id),
        lambda: RemoteVectorEnv(server.url, env_id, num_envs=2),
    ):
        with warnings.catch_warnings(record=True) as record:
            warnings.simplefilter("always")
            with pytest.raises(gymnasium.error.Error) as caught:
                make()
        lines = [(_builtin(one.category), str(one.message)) for one in record]
        outcomes.append((lines, caught.type, str(caught.value)))
    local, remote, vector = outcomes
    assert remote == vector == local


@pytest.mark.parametrize("num_envs", [None, 2])
@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("render_mode", "rgb_aray", "; did you mean 'rgb_array'?"),
        ("kwargs", {"render_mode": "rgb_aray"}, "; did you mean 'rgb_array'?"),
        ("wrappers", ["ClipRewrd"], "; did you mean 'ClipReward'?"),
    ],
)
def test_names_that_are_unknown_are_refused(
    server: Server, name: str, value: Any, words: str, num_envs: int | None
) -> None:
    request = {"env_id": "CartPole-v1", "num_envs": num_envs, name: value}
    if num_envs:
        # Gymnasium's own vectors accept any render mode silently.
        request |= {"vectorization_mode": "sync"}
    answer = Api(server).post("/v1/envs/", request)
    message = calls.error(answer, 400, "bad-parameter")["message"]
    assert message.endswith(words)


def test_a_list_mode_and_a_known_one_are_taken(server: Server) -> None:
    for mode in ("rgb_array", "rgb_array_list"):
        instance = Api(server).create("CartPole-v1", render_mode=mode)
        calls.no_content(instance.close())


@pytest.mark.parametrize("read", ["map.txt", "maps/first.txt"])
def test_a_relative_path_is_named_as_one(server: Server, read: str) -> None:
    request = {"env_id": "Careless-v0", "kwargs": {"read": read}}
    answer = Api(server).post("/v1/envs/", request)
    message = calls.error(answer, 502, "env-error")["message"]
    _, _, advised = message.rpartition(" as ")
    assert eval(advised, {"Path": Path, "__file__": "/envs/my.py"}) == Path(
        "/envs", read
    )


def test_an_absolute_path_is_not(server: Server) -> None:
    request = {"env_id": "Careless-v0", "kwargs": {"read": "/absent/map.txt"}}
    answer = Api(server).post("/v1/envs/", request)
    assert "Path(" not in calls.error(answer, 502, "env-error")["message"]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"env_id": "Absent-v0"}, "on the server: pip install absent_package"),
        (
            {"env_id": "Careless-v0", "kwargs": {"depend": "box2d"}},
            'on the server: pip install "gymnasium[box2d]"',
        ),
    ],
)
def test_a_missing_package_is_named_for_the_server(
    server: Server, request_: dict[str, Any], words: str
) -> None:
    answer = Api(server).post("/v1/envs/", request_)
    assert words in calls.error(answer, 501, "dependency-missing")["message"]
    kinds = (ImportError, gymnasium.error.DependencyNotInstalled)
    with warnings.catch_warnings(action="ignore"), pytest.raises(kinds) as caught:
        RemoteEnv(server.url, request_["env_id"], **request_.get("kwargs", {}))
    assert isinstance(caught.value.__cause__, ServerError)
    assert words in str(caught.value.__cause__)
