"""External environments with a clock: a world that goes on while its peer works."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import api as calls
from tests.support.api import Api, Instance
from tests.support.broker import server_with_broker
from tests.support.peers.agent_calls import (
    answer_of,
    create_and_reset,
    in_background,
)
from tests.support.peers.external_env import RESULT, ExternalEnv
from tests.support.raw import Response
from tests.support.wait import wait_until

FREE = {"mode": "free_running", "hz": 20, "default_action": 0, "agent_timeout_s": None}


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    """A client of a server that gives external environments 1.5 seconds."""
    with server_with_broker("--external-deadline", "1.5") as api:
        yield api


def timing(instance: Instance) -> Any:
    """Return the state and the statistics of a clock."""
    return calls.ok(instance.get("realtime/"))


def test_an_action_is_answered_before_a_busy_environment_answers(api: Api) -> None:
    with ExternalEnv.to(api) as external:
        instance = create_and_reset(api, external, realtime=FREE)
        external.answer("step", **RESULT)
        busy = external.expect("step")
        before = timing(instance)
        acted = calls.ok(instance.post("action/", {"action": 2}))
        assert acted["queued"] == 1
        calls.ok(instance.get(""))
        update = in_background(instance.get, "updates/?after=2&wait_s=10")
        stepping = in_background(instance.post, "step/", {"action": 1})
        # Several periods pass.
        time_is_up = before["now_ns"] + 300_000_000
        while timing(instance)["now_ns"] < time_is_up:
            pass
        assert timing(instance)["ticks"] == before["ticks"]
        external.send_message(id=busy["id"], result=RESULT)
        assert calls.ok(answer_of(update))["updates"]
        request = external.answer("step", **RESULT)
        assert request["action"] in (1, 2)
        stepped = calls.ok(answer_of(stepping))
        assert stepped["observation"] == RESULT["observation"]
        answer = timing(instance)
        assert answer["skipped"] >= 4
        counts = answer["actions"]
        names = ("applied", "superseded", "expired", "rejected", "waiting")
        assert counts["received"] == sum(counts[name] for name in names)
    instance.close()


def test_requests_that_touch_no_world_pass_a_busy_environment(api: Api) -> None:
    with ExternalEnv.to(api) as external:
        instance = create_and_reset(api, external, realtime=FREE)
        busy = external.expect("step")
        before = timing(instance)
        changed = calls.ok(instance.post("realtime/", {"hz": 10}))
        assert changed["settings"]["hz"] == 10
        assert calls.ok(instance.get("monitor/"))["active"] is False
        after = timing(instance)
        # The call has ended neither by an answer nor by its deadline.
        assert (after["ticks"], after["skipped"]) == (0, before["skipped"])
        external.send_message(id=busy["id"], result=RESULT)
        assert external.answer("step", **RESULT)["action"] == 0
        answer = calls.ok(instance.get("updates/?after=2&wait_s=10"))
        assert answer["updates"][0]["realtime"]["tick"] >= 2
    instance.close()


def test_a_clock_waits_for_another_call_and_the_loop_goes_on(api: Api) -> None:
    rendering = {"capabilities": ["reset", "render"], "render_modes": ["ansi"]}
    with ExternalEnv.to(api, **rendering) as external:
        realtime = {**FREE, "hz": 5}
        instance = create_and_reset(
            api, external, realtime=realtime, render_mode="ansi"
        )
        pictured = in_background(instance.get, "render/")
        while (busy := external.receive())["type"] == "step":
            external.send_message(id=busy["id"], result=RESULT)
        assert busy["type"] == "render"
        until = timing(instance)["now_ns"] + 500_000_000
        while timing(instance)["now_ns"] < until:
            calls.ok(instance.post("action/", {"action": 2}))
        external.send_message(id=busy["id"], result={"rendered": "here"})
        assert answer_of(pictured).text == "here"
        assert external.answer("step", **RESULT)["action"] == 2
        assert timing(instance)["skipped"] >= 1
    instance.close()


def test_a_silent_environment_costs_ticks_and_a_step_gets_504(api: Api) -> None:
    with ExternalEnv.to(api) as external:
        instance = create_and_reset(api, external, realtime={**FREE, "hz": 5})
        stepping = in_background(instance.post, "step/", {"action": 1})
        external.expect("step")
        calls.error(answer_of(stepping), 504, "external-deadline")
        assert timing(instance)["skipped"] >= 1
    instance.close()


def test_a_lost_environment_is_answered_with_503(api: Api) -> None:
    with ExternalEnv.to(api) as external:
        instance = create_and_reset(api, external, realtime=FREE)
        stepping = in_background(instance.post, "step/", {"action": 1})
        before = 0
        # The world may step by itself until the action arrives.
        while (asked := external.expect("step"))["action"] != 1:
            external.send_message(id=asked["id"], result=RESULT)
            before += 1
        external.drop()
        answer = answer_of(stepping)
        assert answer.status in (502, 503), answer
        assert timing(instance)["ticks"] == before
    instance.close()


def test_a_channel_may_say_nothing(api: Api) -> None:
    with ExternalEnv.to(api, reward_channels=["food", "pain"]) as external:
        instance = create_and_reset(api, external, realtime=FREE)
        external.answer("step", **{**RESULT, "reward": [None, -1]})
        external.answer("step", **{**RESULT, "reward": [1.5, None]})
        external.answer("step", **{**RESULT, "reward": [None, None]})
        answer = calls.ok(instance.get("updates/?after=3&wait_s=10&deliver=all"))
        assert answer["updates"][0]["rewards"] == [None, None]
        path = "updates/?after=1&wait_s=10&deliver=all&max=2"
        answer = calls.ok(instance.get(path))
        given = [(each["rewards"], each["reward"]) for each in answer["updates"]]
        assert given == [([None, -1.0], -1.0), ([1.5, None], 1.5)]
    instance.close()


def test_the_default_action_is_the_last_one(api: Api) -> None:
    with ExternalEnv.to(api) as external:
        instance = create_and_reset(api, external, realtime={**FREE, "mode": "elastic"})
        stepping = in_background(instance.post, "step/", {"action": 2})
        assert external.answer("step", **RESULT)["action"] == 0
        calls.ok(answer_of(stepping))
        busy = external.expect("step")
        assert busy["action"] == 2
        closing = in_background(instance.close)
        external.send_message(id=busy["id"], result=RESULT)
        actions: list[int] = []
        while (request := external.receive())["type"] == "step":
            actions.append(request["action"])
            external.send_message(id=request["id"], result=RESULT)
        assert actions[-1] == 0
        external.send_message(id=request["id"], result={})
        assert answer_of(closing).status == 204


def test_a_server_that_stops_sends_the_default_action_last() -> None:
    with server_with_broker() as api, ExternalEnv.to(api) as external:
        instance = create_and_reset(api, external, realtime=FREE)
        calls.ok(instance.post("action/", {"action": 2}))
        stopping = in_background(lambda: Response("1.1", api.server.stop(), "", []))
        actions: list[int] = []
        while (request := external.receive())["type"] == "step":
            actions.append(request["action"])
            external.send_message(id=request["id"], result=RESULT)
        assert 2 in actions
        assert actions[-1] == 0
        assert request["type"] == "close"
        assert answer_of(stopping).status == 0


def test_an_idle_instance_gets_the_default_action_last() -> None:
    with server_with_broker("--idle-timeout", "1") as api, ExternalEnv.to(api) as env:
        instance = create_and_reset(api, env, realtime=FREE)
        calls.ok(instance.post("action/", {"action": 2}))
        actions: list[int] = []
        while (request := env.receive())["type"] == "step":
            actions.append(request["action"])
            env.send_message(id=request["id"], result=RESULT)
        assert 2 in actions
        assert actions[-1] == 0
        assert request["type"] == "close"
        env.send_message(id=request["id"], result={})
        wait_until(lambda: instance.id not in api.instances(), 10.0, "its end")
        assert instance.get("").json()["reason"] == "idle"


def test_an_instance_whose_agent_is_silent_is_closed(api: Api) -> None:
    lost = {**FREE, "agent_timeout_s": 0.3, "on_agent_lost": "close"}
    with ExternalEnv.to(api) as external:
        instance = create_and_reset(api, external, realtime=lost)
        actions: list[int] = []
        while (request := external.receive())["type"] == "step":
            actions.append(request["action"])
            external.send_message(id=request["id"], result=RESULT)
        assert actions[-1] == 0
        assert request["type"] == "close"
        external.send_message(id=request["id"], result={})
        wait_until(lambda: instance.id not in api.instances(), 10.0, "its end")
        assert instance.get("").json()["reason"] == "agent-lost"
