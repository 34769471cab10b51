"""Programs that are started again take the place that they had in an instance."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import error as gymnasium_error

from gym_http_client import RemoteEnv, RemoteVectorEnv
from tests.support.api import Api, Instance, error, ok
from tests.support.broker import (
    impatient_server,
    listed_env,
    server_with_broker,
    wait_until_unlisted,
)
from tests.support.peers.agent_calls import (
    answer_of,
    begin_step,
    close_external,
    create_and_reset,
    create_external,
    in_background,
    lose_in_step,
)
from tests.support.peers.external_env import ExternalEnv
from tests.support.server import Server
from tests.support.token_file import api_of, write_file
from tests.support.wait import wait_until

COUNT = {"type": "Discrete", "n": 1000}
REPLAY = ["replay", "reset", "seed"]


class Page:
    """A program whose observation counts its steps; it answers in a thread.

    Args:
        api: Where to connect.
        first: The observation of a reset.
        info: Each step's info.
        hello: Members of the hello to change.

    Attributes:
        requests: The types of the requests that arrived.
    """

    def __init__(
        self, api: Api, first: int = 0, info: Any = None, **hello: Any
    ) -> None:
        hello = {"replace": True, "capabilities": REPLAY, **hello}
        self.external = ExternalEnv.to(api, observation_space=COUNT, **hello)
        self.requests: list[str] = []
        self._first, self._info = first, info or {}
        self._count = first
        self._thread = threading.Thread(target=self._answer_all)
        self._thread.start()

    def __enter__(self) -> "Page":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, as when a page is closed."""
        with contextlib.suppress(OSError):
            self.external.websocket.finish_sending()
        self._thread.join(20)
        self.external.drop()

    def _answer_all(self) -> None:
        with contextlib.suppress(ConnectionError, AssertionError, OSError):
            while True:
                request = self.external.receive()
                self.requests.append(request["type"])
                self.external.send_message(id=request["id"], result=self._do(request))

    def _do(self, request: Any) -> dict[str, Any]:
        if request["type"] == "reset":
            self._count = self._first
            return {"observation": self._count}
        if request["type"] == "render":
            return {"rendered": f"at {self._count}"}
        if request["type"] != "step":
            return {}
        self._count += 1
        observed = {"observation": self._count, "reward": 1, "info": self._info}
        return {**observed, "terminated": False, "truncated": False}


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    """A client of a server with a broker."""
    with server_with_broker() as api:
        yield api


@pytest.fixture(autouse=True)
def empty_broker(api: Api) -> Iterator[None]:
    """Wait until the broker holds no connections of earlier tests."""
    yield
    wait_until_unlisted(api)


def wait_until_replaced(api: Api) -> None:
    """Wait until no connection is free, since an instance has the new one."""
    wait_until(lambda: listed_env(api)["free"] == 0)


@pytest.mark.parametrize("info", [{}, {"score": 7}], ids=["fast", "general"])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "http"])
def test_the_episode_is_truncated_and_the_next_reset_reaches_the_new_one(
    api: Api, info: dict[str, Any], stream: bool
) -> None:
    with Page(api, info=info) as page:
        env = RemoteEnv(api.server.url, "external/game", wait_s=10, stream=stream)
        env.reset()
        for _ in range(3):
            observation, *_ = env.step(1)
        assert observation == 3
        page.close()
        with Page(api, first=500) as again:
            wait_until_replaced(api)
            step = env.step(1)
            assert step == (3, 0.0, False, True, {"reconnected": True})
            assert type(step[0]) is np.int64
            with pytest.raises(gymnasium_error.ResetNeeded, match="started again"):
                env.step(1)
            assert again.requests == []
            assert env.reset()[0] == 500
            assert env.step(1)[0] == 501
            assert again.requests == ["init", "reset", "step"]
            env.close()
            assert listed_env(api)["free"] == 1


def test_a_step_that_was_lost_ends_the_episode(api: Api) -> None:
    external = ExternalEnv.to(api, replace=True, observation_space=COUNT)
    made = in_background(RemoteEnv, api.server.url, "external/game", wait_s=10)
    external.answer("init")
    env: Any = made.result(20)
    begun = in_background(env.reset)
    external.answer("reset", observation=5)
    begun.result(20)
    stepped: Any = in_background(env.step, 1)
    external.expect("step")
    external.drop()
    with Page(api, first=500):
        assert stepped.result(20) == (5, 0.0, False, True, {"reconnected": True})
        assert env.reset()[0] == 500
        env.close()


def test_agents_of_the_vector_go_on(api: Api) -> None:
    with Page(api) as first, Page(api) as second:
        envs = RemoteVectorEnv(api.server.url, "external/game", num_envs=2, wait_s=10)
        envs.reset()
        envs.step([1, 1])
        first.close()
        second.close()
        with Page(api, first=500), Page(api, first=500):
            wait_until_replaced(api)
            seen, rewards, _, truncated, infos = envs.step([1, 1])
            assert (seen.tolist(), rewards.tolist()) == ([1, 1], [0.0, 0.0])
            assert truncated.all()
            assert infos["reconnected"].all()
            # The next step resets, as the mode of the vector has it.
            assert envs.step([1, 1])[0].tolist() == [500, 500]
            assert envs.step([1, 1])[0].tolist() == [501, 501]
            envs.close()


def test_plain_json_requires_a_reset(api: Api) -> None:
    with Page(api, render_modes=["ansi"], capabilities=["render", *REPLAY]) as page:
        body = {"env_id": "external/game", "wait_s": 10, "render_mode": "ansi"}
        instance = Instance(api, ok(api.post("/v1/envs/", body))["instance_id"])
        ok(instance.post("reset/", {}))
        ok(instance.post("step/", {"action": 1}))
        page.close()
        new = {"render_modes": ["ansi"], "capabilities": ["render", *REPLAY]}
        with Page(api, first=500, **new) as again:
            wait_until_replaced(api)
            for _ in range(2):
                refused = instance.post("step/", {"action": 1})
                assert "reset" in error(refused, 409, "reset-needed")["message"]
            # Whatever comes first, the new one is told what it is to be.
            assert instance.get("render/").text == "at 500"
            error(instance.post("step/", {"action": 1}), 409, "reset-needed")
            assert ok(instance.post("reset/", {}))["observation"] == 500
            assert ok(instance.post("step/", {"action": 1}))["observation"] == 501
            assert again.requests == ["init", "render", "reset", "step"]
            assert instance.close().status == 204


def test_a_lost_step_in_plain_json_requires_a_reset(api: Api) -> None:
    with ExternalEnv.to(api, replace=True, capabilities=REPLAY) as external:
        instance = create_and_reset(api, external)
        lose_in_step(instance, external)
        with ExternalEnv.to(api, replace=True, capabilities=REPLAY) as again:
            wait_until_replaced(api)
            error(answer_of(begin_step(instance, again=True)), 409, "reset-needed")
            future = in_background(instance.post, "reset/", {})
            again.answer("init")
            again.answer("reset", observation=[0, 0])
            ok(answer_of(future))
            close_external(instance, again)


def test_a_program_that_does_not_say_so_waits_as_a_new_one(api: Api) -> None:
    for before, after in ((True, False), (False, True)):
        with ExternalEnv.to(api, replace=before) as external:
            instance = create_and_reset(api, external)
            external.drop()
            with ExternalEnv.to(api, replace=after):
                error(answer_of(begin_step(instance)), 503, "external-away")
                assert listed_env(api)["free"] == 1
            assert instance.close().status == 204


def test_one_with_other_spaces_waits_as_a_new_one(api: Api) -> None:
    with ExternalEnv.to(api, replace=True) as external:
        instance = create_and_reset(api, external)
        external.drop()
        error(answer_of(begin_step(instance)), 503, "external-away")
        other = {"type": "Discrete", "n": 4}
        with ExternalEnv.to(api, replace=True, action_space=other) as again:
            lost, new = (x.welcome["connection"] for x in (external, again))
            line = (
                f"external/game, connection {new}: not in the place of {lost}, as it "
                "has another action_space"
            )
            wait_until(lambda: line in api.server.stderr)
            assert listed_env(api)["free"] == 1
            with ExternalEnv.to(api, replace=True) as third:
                wait_until(lambda: listed_env(api)["taken"] == 1)
                new = third.welcome["connection"]
                line = f"external/game, connection {new}: in the place of {lost}"
                wait_until(lambda: line in api.server.stderr)
                assert instance.close().status == 204
    assert api.server.stderr.count("not in the place of") == 1


def test_one_that_resumes_goes_on_where_it_was(api: Api) -> None:
    with ExternalEnv.to(api, replace=True) as external:
        instance = create_and_reset(api, external)
        for _ in range(3):
            resume = external.welcome["resume"]
            external.drop()
            external = ExternalEnv.to(api, replace=True, resume=resume)
            assert external.welcome["resumed"]
            future = in_background(instance.post, "step/", {"action": 1})
            external.answer(
                "step",
                observation=[0, 0],
                reward=1,
                terminated=False,
                truncated=False,
            )
            ok(answer_of(future))
        external.drop()
        with ExternalEnv.to(api, replace=True) as again:
            wait_until_replaced(api)
            error(instance.post("step/", {"action": 1}), 409, "reset-needed")
            future = in_background(instance.post, "reset/", {})
            again.answer("init")
            again.answer("reset", observation=[0, 0])
            ok(answer_of(future))
            close_external(instance, again)


def test_one_of_another_token_waits_as_a_new_one(tmp_path: Path) -> None:
    with Server("--tokens", write_file(tmp_path)) as server:
        ada, bob = api_of(server, "ada"), api_of(server, "bob")
        with ExternalEnv.to(ada, replace=True) as external:
            instance = create_and_reset(ada, external)
            external.drop()
            error(answer_of(begin_step(instance)), 503, "external-away")
            with ExternalEnv.to(bob, replace=True):
                wait_until(lambda: "as it has another token" in server.stderr)
                error(answer_of(begin_step(instance)), 503, "external-away")
                with ExternalEnv.to(ada, replace=True):
                    wait_until(lambda: "in the place of" in server.stderr)
                    wait_until(lambda: listed_env(ada)["free"] == 1)
                    error(instance.post("step/", {"action": 1}), 409, "reset-needed")
                    assert instance.close().status == 204


def test_it_may_come_before_its_loss_is_noticed() -> None:
    hello = {"replace": True, "observation_space": COUNT, "capabilities": REPLAY}
    with impatient_server() as api, ExternalEnv.to(api, **hello) as external:
        instance = create_external(api, external)
        # As after a lost network: the server is not told, and pings in vain.
        with Page(api, first=500) as again:
            wait_until_replaced(api)
            assert ok(instance.post("reset/", {}))["observation"] == 500
            assert again.requests == ["init", "reset"]
            assert instance.close().status == 204


def test_a_full_server_has_room_for_it() -> None:
    with (
        server_with_broker("--max-external", "1") as api,
        ExternalEnv.to(api, replace=True) as external,
    ):
        instance = create_and_reset(api, external)
        with ExternalEnv(api) as other:
            assert other.welcome["code"] == "too-many-external"
        external.drop()
        error(answer_of(begin_step(instance)), 503, "external-away")
        with ExternalEnv.to(api, replace=True):
            error(instance.post("step/", {"action": 1}), 409, "reset-needed")
            assert instance.close().status == 204


def test_a_new_broker_knows_what_is_lost() -> None:
    with server_with_broker() as api, ExternalEnv.to(api, replace=True) as external:
        instance = create_and_reset(api, external)
        external.drop()
        error(answer_of(begin_step(instance)), 503, "external-away")
        (broker,) = api.server.services("broker")
        broker.kill()
        with ExternalEnv.to(api, replace=True):
            wait_until(lambda: listed_env(api)["free"] == 0)
            error(instance.post("step/", {"action": 1}), 409, "reset-needed")
            assert instance.close().status == 204
