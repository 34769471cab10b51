"""Instances with a clock, over REST and streams, by the shipped command."""

import contextlib
import http.client
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import gymnasium
import numpy as np
import psutil
import pytest

from gym_http_server.rundir.status import Status
from gym_http_wire.messages import Op
from gym_http_wire.step_records import Kind, StepDecoder
from gym_http_wire.values import binary
from tests.support import api as calls
from tests.support.api import Api, Instance
from tests.support.faults.http_faults import FaultyNetwork
from tests.support.peers.agent_calls import answer_of, in_background
from tests.support.processes import titled
from tests.support.raw import Response
from tests.support.server import Server
from tests.support.status_page import reader_of
from tests.support.wait import wait_until
from tests.support.websocket import TEXT, WebSocket

ELASTIC = {"mode": "elastic", "hz": 20, "default_action": [0.0]}
FREE = {"mode": "free_running", "hz": 50, "default_action": 0, "on_done": "reset"}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def api(data_dir: Path) -> Iterator[Api]:
    """A client of a server with a short queue."""
    flags = ("--workers", "2", "--max-waiting", "1", "--data-dir", str(data_dir))
    with Server(*flags) as server:
        yield Api(server)


@pytest.fixture
def clocked(api: Api) -> Iterator[Callable[..., Instance]]:
    """Return a function that creates instances, and close them at the end."""
    with contextlib.ExitStack() as stack:

        def create(env_id: str = "CartPole-v1", **realtime: Any) -> Instance:
            made = api.create(env_id, realtime={**FREE, **realtime})
            stack.callback(made.close)
            return made

        yield create


@contextlib.contextmanager
def status_of(instance: Instance) -> Iterator[Callable[[], Status]]:
    """Return a function that reads the status page of an instance."""
    with contextlib.closing(reader_of(instance)) as reader:
        yield reader.read


def watcher_of(instance: Instance, query: str = "") -> WebSocket:
    """Open a stream that watches."""
    path = instance.path(f"stream?watch=1{query}")
    return WebSocket.to(instance, path=path, sec_websocket_protocol=TEXT)


def host_of(instance: Instance) -> psutil.Process:
    """Return the process that hosts an instance of CartPole."""
    return instance.api.server.host(instance.id)


def timing(instance: Instance) -> Any:
    """Return the state and the statistics of a clock."""
    return calls.ok(instance.get("realtime/"))


@pytest.mark.parametrize("streamed", [False, True])
def test_elastic_steps_return_what_the_action_before_caused(
    api: Api, streamed: bool
) -> None:
    local = gymnasium.make("Pendulum-v1")
    instance = api.create("Pendulum-v1", realtime=ELASTIC, seed=7)
    with contextlib.ExitStack() as stack:
        stack.callback(instance.close)
        if streamed:
            stream = stack.enter_context(
                WebSocket.to(instance, sec_websocket_protocol=TEXT)
            )

        def call(op: str, **given: Any) -> Any:
            if streamed:
                return stream.call(op=op, **given)["body"]
            return calls.ok(instance.post(f"{op}/", given))

        observation, _ = local.reset(seed=7)
        # The clock begins before the answer is here, which may take its time.
        began = time.monotonic()
        begun = call("reset")
        assert np.float32(begun["observation"]).tobytes() == observation.tobytes()
        actions = [[0.0], [1.0], [-2.0], [0.5]]
        for number, action in enumerate(actions):
            answer = call("step", action=(*actions, action)[number + 1])
            expected, reward, _, _, _ = local.step(np.float32(action))
            assert np.allclose(answer["observation"], expected, atol=1e-6)
            assert answer["reward"] == pytest.approx(float(reward))
            result = answer["realtime"]
            assert (result["tick"], result["update"]) == (number + 1, number + 2)
            assert result["action"]["number"] == number
        # Four time steps, of which the last may be shorter by its predecessors' delay.
        assert time.monotonic() - began > 0.14
    local.close()


def test_a_free_running_world_goes_on_and_counts_what_it_gets(
    clocked: Callable[..., Instance],
) -> None:
    instance = clocked("Pendulum-v1", default_action=[0.0], on_done="wait")
    assert timing(instance)["state"] == "ready"
    instance.reset(seed=1)
    seen = 1
    rewards = []
    while len(rewards) < 10:
        path = f"updates/?after={seen}&wait_s=5&deliver=all"
        for each in calls.ok(instance.get(path))["updates"]:
            assert each["realtime"]["update"] == seen + 1
            seen += 1
            rewards.append(each["reward"])
    local = gymnasium.make("Pendulum-v1")
    local.reset(seed=1)
    expected = [float(local.step(np.float32([0.0]))[1]) for _ in rewards]
    local.close()
    assert rewards == pytest.approx(expected)
    answer = calls.ok(instance.post("action/", {"action": [1.5], "sequence": 1}))
    again = calls.ok(instance.post("action/", {"action": [1.5], "sequence": 1}))
    assert again["repeated"]
    assert "repeated" not in answer
    calls.error(instance.post("action/", {"action": "left"}), 400, "invalid-action")
    stepped = calls.ok(instance.post("step/", {"action": [0.5]}))
    assert stepped["realtime"]["action"]["value"] == [0.5]
    result = timing(instance)
    counts = result["actions"]
    names = ("applied", "superseded", "expired", "rejected", "waiting")
    assert counts["received"] == sum(counts[name] for name in names) == 3
    assert counts["rejected"] == 1
    assert result["scheduler"] == {"policy": "other", "priority": 0, "spin_us": 0}


FAR = {"mode": "free_running", "default_action": [0.0], "on_done": "wait"}
WRONG = "must be a finite number from -2.0 to 2.0"


@pytest.mark.parametrize("mode", ["free_running", "elastic"])
def test_no_action_outside_the_action_space_reaches_a_world_with_a_clock(
    clocked: Callable[..., Instance], mode: str
) -> None:
    instance = clocked("Pendulum-v1", **FAR | {"mode": mode})
    instance.reset(seed=1)
    far, nothing = [1e30], [float("nan")]
    with contextlib.ExitStack() as stack:
        text = stack.enter_context(WebSocket.to(instance, sec_websocket_protocol=TEXT))
        lossless = stack.enter_context(WebSocket.to(instance))
        refused = [
            instance.post("action/", {"action": far}),
            instance.post("action/", {"action": far, "priority": 9, "valid_s": 1}),
            instance.post("action/", {"actions": [[0.5], far]}),
            instance.post("step/", {"action": far}),
            instance.post("step/", {"action": [2.001]}),
        ]
        for answer in refused:
            calls.error(answer, 400, "invalid-action")
            assert WRONG in answer.json()["message"]
        assert "actions[1]: action[0] is 1e+30" in refused[2].json()["message"]
        for op in ("act", "step"):
            body = text.call(op=op, action=far)["body"]
            assert (body["code"], WRONG in body["message"]) == ("invalid-action", True)
        for number, (op, wrong) in enumerate(
            (op, wrong) for op in (Op.ACT, Op.STEP) for wrong in (far, nothing)
        ):
            given = binary.encode({"action": np.array(wrong)})
            reply = lossless.call_binary(op, number + 1, given)
            assert (reply.status, WRONG.encode() in reply.body) == (400, True)
        # Bounds are legal in any dtype.
        for number, action in enumerate((np.float32([2.0]), np.array([-2.0]))):
            given = binary.encode({"action": action})
            assert lossless.call_binary(Op.STEP, number + 9, given).status == 200
        assert text.call(op="act", action=[2])["status"] == 200
    counts = timing(instance)["actions"]
    assert (counts["rejected"], counts["received"]) == (12, 15)
    read = calls.ok(instance.get("updates/?after=0&deliver=all"))["updates"]
    actions = [each["realtime"]["action"] for each in read]
    assert {each["value"][0] for each in actions if each} <= {0.0, 2.0, -2.0}


def test_a_clock_need_not_check_actions_and_no_other_instance_does(
    api: Api, clocked: Callable[..., Instance]
) -> None:
    lenient = clocked("Pendulum-v1", **FAR, strict_actions=False)
    assert timing(lenient)["settings"]["strict_actions"] is False
    plain = api.create("Pendulum-v1")
    for each in (lenient, plain):
        each.reset(seed=1)
        # As Gymnasium, which clips it within.
        assert calls.ok(each.post("step/", {"action": [1e30]}))["reward"] < 0
        assert calls.ok(each.post("step/", {"action": [[True]]}))["reward"] < 0
    plain.close()


def test_limits_of_actions_are_told_and_recorded(
    clocked: Callable[..., Instance], data_dir: Path
) -> None:
    limits = {"clip": True, "rate": 0.5}
    instance = clocked("Pendulum-v1", **FAR, hz=50, limits=limits)
    calls.no_content(
        instance.post("monitor/start/", {"directory": "limits", "steps": True})
    )
    instance.reset(seed=1)
    stepped = calls.ok(instance.post("step/", {"action": [1e30]}))
    action = stepped["realtime"]["action"]
    # A tick of 20 ms at most: 0.01.
    assert 0 < action["value"][0] <= 0.0101
    assert action["asked"][0] == pytest.approx(1e30)
    assert action["limited"] == ["clip", "rate"]
    result = timing(instance)
    assert result["limited"] >= 1
    assert result["settings"]["limits"] == limits
    calls.no_content(instance.post("monitor/close/"))
    records = StepDecoder().feed((data_dir / "limits" / "steps.gym").read_bytes())
    taken = [each.value["action"] for each in records if each.kind == Kind.STEP]
    assert action["value"][0] in [float(str(each[0])) for each in taken]
    assert max(taken) <= 2


def test_after_a_takeover_the_newest_action_of_the_policy_acts(
    clocked: Callable[..., Instance],
) -> None:
    instance = clocked("Pendulum-v1", default_action=[0.0], on_done="wait")
    instance.reset(seed=1)

    def actions(until: Callable[[Any], bool]) -> list[Any]:
        """Return the actions in force, in their order, until there is a certain one."""
        found: list[Any] = []
        seen = 0
        deadline = time.monotonic() + 10.0
        while not found or not until(found[-1]):
            assert time.monotonic() < deadline, found
            path = f"updates/?after={seen}&wait_s=5&deliver=all&max=1"
            (update,) = calls.ok(instance.get(path))["updates"]
            seen = update["realtime"]["update"]
            action = update["realtime"]["action"]
            if action not in found[-1:]:
                found.append(action)
        return [(each["value"], each["priority"]) for each in found if each]

    person = {"action": [-1.0], "priority": 10, "valid_s": 1.0}
    for request in ({"action": [0.5]}, person, {"action": [1.5]}):
        calls.ok(instance.post("action/", request))
    found = actions(lambda action: action is not None and action["value"] == [1.5])
    # The first one may have been too short for a tick.
    assert found[-2:] == [([-1.0], 10), ([1.5], 0)]


def test_a_keyed_step_sent_three_times_while_it_waits_is_one_step(api: Api) -> None:
    period = {"mode": "elastic", "period_s": 3, "default_action": [0.0]}
    instance = api.create("Pendulum-v1", realtime=period)
    instance.reset(seed=1)
    ends: list[float] = []

    def step() -> Response:
        key = {"Idempotency-Key": "one"}
        answer = instance.post("step/", {"action": [1.0]}, headers=key)
        ends.append(time.monotonic())
        return answer

    sent = [in_background(step) for _ in range(3)]
    # Requests that do not touch the world are answered meanwhile.
    assert timing(instance)["ticks"] == 0
    answers = [answer_of(each) for each in sent]
    assert {each.body for each in answers} == {answers[0].body}
    replayed = sorted(each.header("Idempotent-Replayed") or "" for each in answers)
    assert replayed == ["", "true", "true"]
    # The repetitions did not wait for another time step.
    assert ends[2] - ends[0] < 2.5
    assert timing(instance)["actions"]["received"] == 1
    instance.close()


def test_seven_percent_faults_lose_no_step(api: Api) -> None:
    realtime = {"mode": "elastic", "hz": 200, "default_action": [0.0]}
    instance = api.create("Pendulum-v1", realtime=realtime)
    instance.reset(seed=1)
    path = instance.path("step/")
    numbers = []
    with FaultyNetwork(api.server.port, probability=0.07, seed=1) as chaos:
        for number in range(60):
            answer = insist(chaos.url, path, {"action": [0.1]}, f"steps-{number}")
            numbers.append(answer["realtime"]["action"]["number"])
        chaos.finish()
    assert numbers == list(range(60))
    assert timing(instance)["actions"]["received"] == 60
    instance.close()


def insist(url: str, path: str, body: Any, key: str) -> Any:
    """Send a request with a key until it is answered."""
    headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
    deadline = time.monotonic() + 20.0
    while time.monotonic() < deadline:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=2.0)
        try:
            connection.request("POST", path, json.dumps(body), headers)
            answer = connection.getresponse()
            data = json.loads(answer.read())
            if answer.status == 200:
                return data
        except (OSError, ValueError, http.client.HTTPException):
            pass
        finally:
            connection.close()
    raise AssertionError(f"no answer to {key}")


def test_requests_for_updates_wait_without_a_place_in_the_queue(
    clocked: Callable[..., Instance],
) -> None:
    instance = clocked(hz=0.5)
    instance.reset()
    waiting = [
        in_background(instance.get, "updates/?after=1&wait_s=20") for _ in range(6)
    ]
    # All of them wait by now, or have waited, beyond --max-waiting 1.
    assert calls.ok(instance.get("action_space/"))
    for each in waiting:
        (update,) = calls.ok(answer_of(each))["updates"]
        assert update["realtime"]["update"] >= 2


def test_several_requests_of_a_stream_wait_and_others_pass(
    clocked: Callable[..., Instance],
) -> None:
    instance = clocked(hz=1)
    with WebSocket.to(instance, sec_websocket_protocol=TEXT) as stream:
        # The clock begins when all of them are on their way.
        stream.send_message(op="reset", number=1)
        for number, op in enumerate(("updates", "updates", "step", "step"), 2):
            more = {"after": 1} if op == "updates" else {"action": 1}
            stream.send_message(op=op, number=number, **more)
        stream.send_message(op="act", action=1, number=6)
        stream.send_message(op="action_space", number=7)
        order = [stream.receive()["number"] for _ in range(7)]
    assert order[:3] == [1, 6, 7]
    assert [each for each in order if each in (4, 5)] == [4, 5]


def test_a_stream_with_many_waiting_requests_costs_no_time(
    clocked: Callable[..., Instance],
) -> None:
    instance = clocked(hz=0.5)
    instance.reset()
    host = host_of(instance)
    with WebSocket.to(instance, sec_websocket_protocol=TEXT) as stream:
        for _ in range(80):
            stream.send_message(op="updates", after=1, wait_s=20)
        before, began = host.cpu_times(), time.monotonic()
        assert stream.receive()["body"]["updates"]
        after, took = host.cpu_times(), time.monotonic() - began
        used = after.user + after.system - before.user - before.system
        assert used < 0.5 * took + 0.2
        for _ in range(79):
            assert stream.receive()["status"] == 200


def test_ticks_come_before_the_actions_of_a_flood(
    clocked: Callable[..., Instance],
) -> None:
    """Once a tick is due, at most the present request of the others precedes it."""
    instance = clocked(hz=1000)
    instance.reset()
    with contextlib.ExitStack() as stack:
        streams = [
            stack.enter_context(WebSocket.to(instance, sec_websocket_protocol=TEXT))
            for _ in range(32)
        ]
        for stream in streams:
            for _ in range(25):
                stream.send_message(op="act", action=1)
        for stream in streams:
            for _ in range(25):
                assert stream.receive()["status"] == 200
    path = "realtime/trace/?format=json&last=4096"
    events = calls.ok(instance.get(path))["events"]
    acts = [each["start_ns"] for each in events if each["event"] == "act"]
    assert len(acts) > 700
    before = [
        sum(
            tick["start_ns"] - tick["late_ns"] <= act < tick["start_ns"] for act in acts
        )
        for tick in events
        if tick["event"] == "tick"
    ]
    assert max(before) <= 2


def test_a_client_that_leaves_takes_its_requests_along(
    clocked: Callable[..., Instance],
) -> None:
    instance = clocked(hz=0.5)
    instance.reset()
    with WebSocket.to(instance, sec_websocket_protocol=TEXT) as stream:
        stream.send_message(op="step", action=1)
        stream.send_message(op="updates", after=1)
    assert calls.ok(instance.get("updates/?after=1&wait_s=20"))["updates"]
    assert timing(instance)["actions"]["received"] == 0


def test_ticks_go_on_beside_a_stopped_worker_a_deaf_reader_and_64_watchers() -> None:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(Server("--workers", "1"))
        api = Api(server)
        instance = api.create("CartPole-v1", realtime=FREE, render_mode="rgb_array")
        read = stack.enter_context(status_of(instance))
        instance.reset()
        for _ in range(64):
            stack.enter_context(watcher_of(instance))
        deaf = stack.enter_context(WebSocket.to(instance, sec_websocket_protocol=TEXT))
        for _ in range(60):
            deaf.send_message(op="render")
        (gunicorn,) = (
            each
            for each in psutil.Process(server.pid).children()
            if titled(each, "gunicorn")
        )
        (worker,) = gunicorn.children()
        pending = in_background(instance.get, "updates/?after=1&wait_s=10&deliver=all")
        worker.suspend()
        try:
            steps = read().steps
            wait_until(lambda: read().steps > steps + 40, 10.0, "ticks")
        finally:
            worker.resume()
        calls.ok(answer_of(pending))
        answer = timing(instance)
        periods = answer["now_ns"] // 20_000_000
        assert abs(answer["ticks"] + answer["skipped"] - periods) <= 50


def test_a_host_writes_to_no_mapped_page_of_a_disk(
    clocked: Callable[..., Instance],
) -> None:
    """While a disk stands still, writing to such a page stops the process."""
    instance = clocked()
    instance.reset()
    maps = Path(f"/proc/{host_of(instance).pid}/maps").read_text()
    shared = [line.split(maxsplit=5) for line in maps.splitlines() if " rw-s " in line]
    paths = [each[5] for each in shared]
    assert [each for each in paths if each.startswith("/memfd:status")]
    assert all(each.startswith(("/memfd:", "/dev/zero", "/dev/shm")) for each in paths)


def test_a_monitor_records_the_episodes_of_ticks(
    clocked: Callable[..., Instance],
) -> None:
    instance = clocked(hz=250)
    calls.no_content(instance.post("monitor/start/", {"directory": "clock"}))
    instance.reset(seed=5)

    def episodes() -> Any:
        return calls.ok(instance.get("monitor/"))["episodes"]

    wait_until(lambda: len(episodes()) > 1, 20.0, "two episodes")
    local = gymnasium.make("CartPole-v1")
    local.reset(seed=5)
    length = 1
    while not local.step(0)[2]:
        length += 1
    local.close()
    first = episodes()[0]
    assert (first["length"], first["return"], first["seed"]) == (length, length, 5)


def test_watchers_get_so_many_copies_a_second(
    clocked: Callable[..., Instance],
) -> None:
    instance = clocked(hz=200)
    instance.reset()
    for query, least in (("", 7 / 30), ("&fps=100", 7 / 100)):
        with watcher_of(instance, query) as watcher:
            assert watcher.receive()["number"] == 0
            copies = [watcher.receive() for _ in range(11)]
            first, last = (
                each["body"]["realtime"] for each in copies[:: len(copies) - 1]
            )
            assert (last["capture_ns"] - first["capture_ns"]) / 1e9 > least
            numbers = [each["number"] for each in copies]
            gaps = np.diff(numbers) - 1
            assert gaps.tolist() == [each["dropped"] for each in copies[1:]]
            assert sum(gaps) > 0
    with watcher_of(instance, "&fps=0") as refused:
        assert refused.response.status == 400


def test_a_host_takes_a_real_time_priority_or_tells_that_it_was_refused(
    make_server: Callable[..., Server],
) -> None:
    server = make_server("--realtime-priority", "7", "--max-hz", "60")
    instance = Api(server).create("CartPole-v1", realtime=FREE)
    result = timing(instance)["scheduler"]
    host = host_of(instance)
    if result["policy"] == "fifo":
        assert (result["priority"], "refused" in result) == (7, False)
        assert os.sched_getscheduler(host.pid) & ~os.SCHED_RESET_ON_FORK == (
            os.SCHED_FIFO
        )
    else:
        assert result["refused"].startswith("7: ")
        assert os.sched_getscheduler(host.pid) == os.SCHED_OTHER
    answer = instance.post("realtime/", {"hz": 61})
    calls.error(answer, 400, "bad-parameter")
    assert "--max-hz" in answer.json()["message"]


@pytest.fixture(scope="module")
def strict() -> Iterator[Api]:
    """A client of a server with short limits, and environments that exceed them."""
    flags = ("--step-deadline", "1", "--idle-timeout", "1")
    with Server("--import", "tests.support.envs.hostile", *flags) as server:
        yield Api(server)


def test_ticks_are_no_use_and_waiting_is(strict: Api) -> None:
    waiting, idle = (
        strict.create("CartPole-v1", realtime={**FREE, "hz": hz}) for hz in (1, 100)
    )
    idle.reset()
    calls.error(waiting.get("updates/?after=1000"), 400, "bad-parameter")
    update = in_background(waiting.get, "updates/?after=0&wait_s=2.7")

    def ended() -> bool:
        # A dashboard that looks at it is no agent.
        paths = "", "realtime/", "realtime/trace/?last=10"
        looks = [idle.get(path).status for path in paths]
        return looks[-1] == 410 and idle.id not in strict.instances()

    wait_until(ended, 20.0, "the end of one")
    assert idle.get("realtime/").json()["reason"] == "idle"
    assert calls.ok(answer_of(update))["updates"] == []


def test_the_step_deadline_holds_for_ticks(make_server: Callable[..., Server]) -> None:
    # Not on the strict server: ticks are no use, so it could be idle before.
    flags = ("--import", "tests.support.envs.hostile", "--step-deadline", "1")
    api = Api(make_server(*flags))
    instance = api.create("hostile/Loop-v0", realtime={**FREE, "default_action": 1})
    instance.reset()
    wait_until(lambda: instance.id not in api.instances(), 20.0, "its end")
    assert instance.get("realtime/").json()["reason"] == "step-deadline"


def test_a_world_that_raises_stops_its_clock(strict: Api) -> None:
    raising = {**FREE, "default_action": 1}
    instance = strict.create("hostile/RaiseKeyError-v0", realtime=raising)
    instance.reset()
    wait_until(lambda: timing(instance)["state"] == "failed", 10.0)
    calls.error(instance.post("step/", {"action": 0}), 502, "env-error")
    calls.error(instance.post("step/", {"action": 0}), 409, "reset-needed")
    instance.reset()


def test_a_server_that_stops_answers_requests_that_wait(
    make_server: Callable[..., Server],
) -> None:
    server = make_server()
    instance = Api(server).create("CartPole-v1", realtime={**FREE, "hz": 0.1})
    instance.reset()
    with status_of(instance) as read:
        used = read().last_used_ns
        sent = [
            in_background(instance.get, "updates/?after=1&wait_s=50"),
            in_background(instance.post, "step/", {"action": 1}),
        ]
        wait_until(lambda: read().last_used_ns > used, 5.0, "a waiting request")
    # For the other one.
    assert instance.get("realtime/").status == 200
    began = time.monotonic()
    assert server.stop(timeout=20.0) == 0
    assert time.monotonic() - began < 15.0
    for each in sent:
        calls.error(answer_of(each), 503, "draining")


@pytest.mark.parametrize(
    ("op", "given", "status", "words"),
    [
        (Op.UPDATES, {"deliver": np.zeros(2)}, 400, "deliver is array([0., 0.])"),
        (Op.UPDATES, {"deliver": ""}, 400, "deliver is ''"),
        (Op.UPDATES, {"after": np.zeros(2)}, 400, "after is array([0., 0.])"),
        (Op.ACT, {"action": np.array([1j])}, 400, "must be numbers in an array"),
        (Op.ACT, {"action": np.array(["x"])}, 400, "must be numbers in an array"),
        (Op.ACT, {"action": np.array([0.5])}, 200, "queued"),
    ],
)
def test_wrong_values_in_a_lossless_form_are_refused(
    clocked: Callable[..., Instance], op: Op, given: Any, status: int, words: str
) -> None:
    instance = clocked("Pendulum-v1", default_action=[0.0])
    instance.reset()
    with WebSocket.to(instance) as stream:
        answer = stream.call_binary(op, 1, binary.encode(given))
    assert answer.status == status
    assert words in answer.body.decode(errors="replace")
    assert timing(instance)["state"] == "running"


@pytest.mark.parametrize("ten", ["10", "10.0", "1e1"])
def test_a_number_means_the_same_however_it_is_written(api: Api, ten: str) -> None:
    clock = f'"mode": "free_running", "hz": {ten}, "buffer": {ten}, "default_action": 0'
    made = f'{{"env_id": "CartPole-v1", "realtime": {{{clock}}}}}'
    answer = calls.ok(api.post("/v1/envs/", data=made.encode()))
    with contextlib.closing(Instance(api, answer["instance_id"])) as instance:
        instance.reset()
        settings = timing(instance)["settings"]
        assert (settings["hz"], settings["period_s"], settings["buffer"]) == (
            10,
            0.1,
            10,
        )
        act = f'{{"action": 1, "sequence": {ten}, "priority": {ten}, "valid_s": {ten}}}'
        assert calls.ok(instance.post("action/", data=act.encode()))["sequence"] == 10
        repeated = calls.ok(instance.post("action/", {"action": 1, "sequence": 10}))
        assert repeated["repeated"] is True
        changed = instance.post("realtime/", data=f'{{"hz": {ten}}}'.encode())
        assert calls.ok(changed)["settings"]["period_s"] == 0.1
        for path in (
            f"updates/?after=0&deliver=all&wait_s={ten}&max={ten}",
            f"realtime/trace/?format=json&last={ten}",
        ):
            calls.ok(instance.get(path))
        with WebSocket.to(instance, sec_websocket_protocol=TEXT) as stream:
            for op in (
                f'"op": "updates", "after": 0, "wait_s": {ten}, "max": {ten}',
                f'"op": "trace", "last": {ten}',
                f'"op": "act", "sequence": {ten}, "priority": {ten}',
            ):
                stream.send_frame(1, f"{{{op}}}".encode())
                assert stream.receive()["status"] == 200


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"op": "updates", "aftr": 3}, "unknown member 'aftr'"),
        ({"op": "updates", "aftr": 3}, "did you mean 'after'?"),
        (
            {"op": "updates", "wait_s": 51},
            "wait_s is 51: expected seconds from 0 to 50",
        ),
        ({"op": "updates", "max": 0}, "max is 0: expected an integer from 1"),
        ({"op": "trace", "lst": 3}, "did you mean 'last'?"),
        ({"op": "trace", "format": "chrom"}, "did you mean 'chrome'?"),
        ({"op": "act", "acton": 1}, "did you mean 'action'?"),
        ({"op": "set_realtime", "hertz": 1}, "unknown member 'hertz'"),
    ],
)
def test_wrong_members_over_a_stream_are_refused_with_words(
    clocked: Callable[..., Instance], given: dict[str, Any], words: str
) -> None:
    instance = clocked()
    instance.reset()
    with WebSocket.to(instance, sec_websocket_protocol=TEXT) as stream:
        answer = stream.call(**given)
    assert (answer["status"], answer["body"]["code"]) == (400, "bad-parameter")
    assert words in answer["body"]["message"]


@pytest.mark.parametrize(
    ("realtime", "beside", "words"),
    [
        ({"hz": 20, "period_s": 0.05}, {}, "period_s"),
        ({"mode": "elastic"}, {}, "hz"),
        ({"hz": 5000}, {}, "--max-hz"),
        ({"hz": 20, "speed": 3}, {}, "speed"),
        ({"hz": 20}, {"num_envs": 2}, "num_envs"),
        (["elastic"], {}, "realtime"),
    ],
)
def test_wrong_settings_of_a_clock_are_named(
    api: Api, realtime: Any, beside: dict[str, Any], words: str
) -> None:
    if isinstance(realtime, dict):
        realtime = {"mode": "free_running", "default_action": 0, **realtime}
    body = {"env_id": "CartPole-v1", "realtime": realtime, **beside}
    answer = api.post("/v1/envs/", body)
    calls.error(answer, 400, "bad-parameter")
    assert words in answer.json()["message"]


def test_a_description_has_the_mode_of_the_clock(
    clocked: Callable[..., Instance],
) -> None:
    free, elastic = clocked(), clocked("Pendulum-v1", **ELASTIC, on_done="wait")
    modes = [calls.ok(each.get(""))["realtime"] for each in (free, elastic)]
    assert modes == [{"mode": "free_running"}, {"mode": "elastic"}]


def test_an_instance_without_a_clock_refuses_its_calls(api: Api) -> None:
    instance = api.create("CartPole-v1")
    assert "realtime" not in calls.ok(instance.get(""))
    for method, path in (
        ("POST", "action/"),
        ("GET", "updates/?after=3"),
        ("GET", "realtime/"),
        ("POST", "realtime/"),
        ("POST", "realtime/pause/"),
        ("POST", "realtime/resume/"),
        ("GET", "realtime/trace/"),
    ):
        call = instance.get(path) if method == "GET" else instance.post(path, {})
        calls.error(call, 409, "not-real-time")
    calls.error(instance.get("updates/?after=-1"), 400, "bad-parameter")
    for path, words in (
        ("updates/?aftr=3", "'aftr' is unknown: expected after, wait_s, deliver, max"),
        ("updates/?aftr=3", "did you mean 'after'?"),
        ("realtime/trace/?max=3", "'max' is unknown: expected last, format"),
        ("realtime/?x=1", "'x' is unknown: expected none"),
        ("updates/?after=1&after=2", "after is given twice"),
    ):
        refused = instance.get(path)
        calls.error(refused, 400, "bad-parameter")
        assert words in refused.json()["message"]
    posted = instance.post("action/?priority=1", {"action": 0})
    calls.error(posted, 400, "bad-parameter")
    instance.close()
    clocked = api.create("CartPole-v1", realtime=FREE)
    clocked.reset()
    for path, body in (("rollout/", {}), ("step/", {"actions": [0, 1]})):
        answer = clocked.post(path, body)
        calls.error(answer, 400, "bad-parameter")
        assert "chunk" in answer.json()["message"]
    clocked.close()
