"""A value of an info that cannot be sent costs no step: `Unsent` stands for it."""

import contextlib
import json
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from gym_http_client import (
    RealTimeEnv,
    RemoteEnv,
    RemoteVectorEnv,
    ServerError,
    Unsent,
    recordings,
    through_wire,
)
from gym_http_client import Server as Address
from gym_http_client.serving import serve_env
from gym_http_wire.messages import MEDIA_TYPES, Form
from gym_http_wire.values import typed
from tests.support.api import Api, Instance, error, no_content, ok
from tests.support.envs import odd_infos
from tests.support.envs.odd_infos import ODD, OddInfos
from tests.support.server import Server

pytestmark = pytest.mark.live

ENV_ID = "odd/Infos-v0"
TYPED = {"Accept": MEDIA_TYPES[Form.TYPED]}
#: What arrives in place of the values.
EXPECTED = {name: Unsent(text, kind) for name, (_, text, kind) in ODD.items()}
INNER = {
    "list": [1, EXPECTED["set"]],
    "keys": Unsent("{<Colour.RED: 1>: 1}", "dict"),
}
WARNING = "cannot be sent.*Unsent.*strict_infos"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("--import", odd_infos.__name__) as started:
        yield started


def expected(count: int) -> dict[str, Any]:
    """Return the info that arrives after some steps."""
    return {"count": count, "complex": 1 - 2j, **EXPECTED, "inner": INNER}


@pytest.fixture
def remote(server: Server) -> Iterator[Callable[..., Any]]:
    with contextlib.ExitStack() as made:

        def make(kind: Any = RemoteEnv, *, streams: bool = True, **options: Any) -> Any:
            address = Address(server.url, streams=streams)
            env = kind(address, ENV_ID, **options)
            made.callback(env.close)
            return env

        yield make


@pytest.mark.parametrize("streams", [True, False])
def test_unsent_stands_for_the_value_and_is_warned_of_once(
    remote: Callable[..., Any], streams: bool
) -> None:
    env = remote(streams=streams)
    with pytest.warns(UserWarning, match=WARNING) as caught:
        assert env.reset(seed=1) == (0, expected(0))
    assert len(caught) == 1
    assert 'info["set"]' in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for count in range(1, 5):
            assert env.step(0) == (count, 1.0, False, False, expected(count))


def test_python_complex_is_sent_without_a_warning(remote: Callable[..., Any]) -> None:
    env = remote(only_complex=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert env.reset()[1] == {"count": 0, "complex": 1 - 2j}
        assert env.step(0)[4] == {"count": 1, "complex": 1 - 2j}


def test_other_values_are_refused_as_ever(remote: Callable[..., Any]) -> None:
    env = remote()
    with pytest.warns(UserWarning, match=WARNING):
        env.reset()
    with pytest.raises(ServerError, match=r"observation.*cannot be sent") as caught:
        env.step(1)
    assert (caught.value.status_code, caught.value.code) == (501, "unsupported-value")
    assert env.step(0)[0] == 2


@pytest.mark.filterwarnings(f"ignore:.*{WARNING}")
def test_strict_infos_raise(server: Server, remote: Callable[..., Any]) -> None:
    env = remote(strict_infos=True)
    with pytest.raises(ServerError, match=r'info\["set"\].*cannot be sent') as caught:
        env.reset()
    assert (caught.value.status_code, caught.value.code) == (501, "unsupported-value")
    attached = RemoteEnv.attach(server.url, env.instance_id, strict_infos=True)
    with contextlib.closing(attached), pytest.raises(ServerError, match="cannot be"):
        attached.step(0)
    plain = remote(strict_infos=True, only_complex=True)
    assert plain.reset()[1]["complex"] == 1 - 2j
    vector = remote(RemoteVectorEnv, num_envs=2, strict_infos=True)
    for call in (vector.reset, lambda: vector.step(np.zeros(2, np.int64))):
        with pytest.raises(ServerError, match="cannot be sent"):
            call()
    vector.step_async(np.zeros(2, np.int64))
    with pytest.raises(ServerError, match="cannot be sent"):
        vector.step_wait()


@pytest.mark.filterwarnings(f"ignore:.*{WARNING}")
def test_updates_of_a_clock_have_it_too(remote: Callable[..., Any]) -> None:
    clock = {"mode": "free_running", "hz": 100, "default_action": 0}
    for strict in (False, True):
        env = remote(RealTimeEnv, realtime=clock, strict_infos=strict)
        with contextlib.ExitStack() as context:
            if strict:
                context.enter_context(pytest.raises(ServerError, match="cannot be"))
            assert env.reset()[1]["set"] == EXPECTED["set"]
        with contextlib.closing(env.updates()) as updates:
            if strict:
                with pytest.raises(ServerError, match="cannot be"):
                    next(updates)
            else:
                assert next(updates).info["set"] == EXPECTED["set"]


@pytest.mark.filterwarnings(f"ignore:.*{WARNING}")
@pytest.mark.parametrize(
    "options",
    [
        {"vectorization_mode": "sync"},
        {"vectorization_mode": "sync", "hosts": 2},
        {"vectorization_mode": "async"},
    ],
)
def test_infos_of_vectors_have_it_for_each_environment(
    remote: Callable[..., Any], options: dict[str, Any]
) -> None:
    env = remote(RemoteVectorEnv, num_envs=3, **options)
    for info in (env.reset()[1], env.step(np.zeros(3, np.int64))[4]):
        for name in set(EXPECTED) - {"fields"}:
            assert info[name].tolist() == [EXPECTED[name]] * 3, name
        assert info["complex"].tolist() == [1 - 2j] * 3
        assert info["inner"]["list"].tolist() == [INNER["list"]] * 3


def test_rollouts_and_several_steps_keep_their_other_values(server: Server) -> None:
    instance = Api(server).create(ENV_ID)
    infos = []
    rollout = instance.post("rollout/", {"actions": [[0, 0]]}, headers=TYPED)
    answer = typed.decode(rollout.body)
    infos += answer["episodes"][0]["infos"]
    several = instance.post("step/", {"actions": [0, 0]}, headers=TYPED)
    infos += typed.decode(several.body)["infos"]
    assert infos == [expected(count) for count in range(5)]
    assert "cannot be sent" in str(answer["warnings"])
    # Other clients than Python's have no such option.
    assert "with strict_infos=True, Python" in str(answer["warnings"])
    problem = error(instance.post("step/", {"actions": [0, 1]}, headers=TYPED), 501)
    results = typed.decode(json.dumps(problem["results"]).encode())
    assert results["infos"] == [expected(5)]
    instance.close()


def test_plain_json_is_as_before(server: Server) -> None:
    instance = Api(server).create(ENV_ID)
    info = instance.reset()["info"]
    assert (info["set"], info["enum"], info["data"]) == ([7], 1, {"x": 1})
    assert instance.step(0)["info"]["complex"] == [1.0, -2.0]
    instance.close()


@pytest.mark.filterwarnings(f"ignore:.*{WARNING}")
def test_recordings_have_it(server: Server, remote: Callable[..., Any]) -> None:
    env = remote()
    instance = Instance(Api(server), env.instance_id)
    start = {"directory": "odd", "steps": True}
    no_content(instance.post("monitor/start/", start))
    env.reset()
    env.step(0)
    no_content(instance.post("monitor/close/"))
    recording = recordings.read(server.data_dir / "odd")
    (episode,) = recording.episodes()
    assert episode.infos == [expected(0), expected(1)]


@pytest.mark.filterwarnings(f"ignore:.*{WARNING}")
@pytest.mark.parametrize("dialect", ["binary", "typed"])
def test_external_environments_send_it(server: Server, dialect: str) -> None:
    stop = threading.Event()
    options = {"name": "odd", "dialect": dialect, "stop": stop}
    thread = threading.Thread(
        target=serve_env, args=(OddInfos(), server.url), kwargs=options
    )
    thread.start()
    try:
        env = RemoteEnv(server.url, "external/odd", wait_s=10)
        with contextlib.closing(env):
            assert env.reset()[1] == expected(0)
            assert env.step(0)[4] == expected(1)
            instance = Instance(Api(server), env.instance_id)
            assert ok(instance.post("step/", {"action": 0}))["info"]["set"] == "{7}"
    finally:
        stop.set()
        thread.join()


def test_an_environment_without_a_server_has_it_too() -> None:
    env = through_wire(OddInfos())
    with pytest.warns(UserWarning, match="cannot be sent.*Unsent"):
        assert env.reset()[1] == expected(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert env.step(0)[4] == expected(1)


def test_it_is_sent_back_as_it_is(server: Server) -> None:
    with contextlib.closing(RemoteEnv(server.url, "CartPole-v1")) as env:
        env.reset(options={"seen": EXPECTED["set"]})
        env.set_wrapper_attr("seen", EXPECTED["set"])
        assert env.seen == EXPECTED["set"]
