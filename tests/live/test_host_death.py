"""A host that dies, hangs or misbehaves ends only its own instance."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from gym_http_client import RemoteEnv, ServerError
from tests.support import api as calls
from tests.support.api import Api, Instance, Response
from tests.support.server import Server
from tests.support.wait import wait_until

HOSTILE = ("--import", "tests.support.envs.hostile")


@pytest.fixture(scope="module")
def hostile_server() -> Iterator[Server]:
    """A server whose limits are short."""
    limits = ("--step-deadline", "2", "--create-deadline", "2")
    with Server(*HOSTILE, *limits, "--max-instances", "12") as started:
        yield started


@pytest.fixture
def hostile(hostile_server: Server) -> Iterator[Callable[..., Instance]]:
    """Return a factory of instances, by the name of their misbehaviour."""
    made: list[Instance] = []

    def create(name: str, **options: Any) -> Instance:
        instance = Api(hostile_server).create(f"hostile/{name}-v0", **options)
        made.append(instance)
        instance.reset()
        return instance

    yield create
    for instance in made:
        instance.close()


@pytest.mark.parametrize(
    ("vice", "signal_name"),
    [
        ("Segfault", "SIGSEGV"),
        ("Abort", "SIGABRT"),
        ("KillSelf", "SIGKILL"),
        # It has no name.
        ("RealTimeSignal", "signal 40"),
    ],
)
def test_a_crash_is_502_then_410(
    hostile: Callable[..., Instance], vice: str, signal_name: str
) -> None:
    neighbour = hostile("Harmless")
    instance = hostile(vice)
    error = calls.error(instance.post("step/", {"action": 1}), 502, "env-crashed")
    assert error["signal"] == signal_name
    if vice == "Segfault":
        assert "about to read address 0" in error["log_tail"]
    for answer in (instance.post("step/", {"action": 0}), instance.get("")):
        assert calls.error(answer, 410, "instance-ended")["reason"] == "crashed"
    calls.error(instance.close(), 410, "instance-ended")
    assert neighbour.step(0)["observation"] == 1


def test_an_exit_with_status_0_is_a_crash_too(hostile: Callable[..., Instance]) -> None:
    instance = hostile("Exit0")
    error = calls.error(instance.post("step/", {"action": 1}), 502, "env-crashed")
    assert error["signal"] is None
    assert "exit status 0" in error["message"]


@pytest.mark.parametrize(
    ("vice", "kind"),
    [
        ("RaiseKeyError", "KeyError"),
        ("SystemExits", "SystemExit"),
        ("Interrupts", "KeyboardInterrupt"),
    ],
)
def test_an_exception_is_502_and_the_instance_lives(
    hostile: Callable[..., Instance], vice: str, kind: str
) -> None:
    instance = hostile(vice)
    error = calls.error(instance.post("step/", {"action": 1}), 502, "env-error")
    assert error["error_type"] == kind
    calls.error(instance.post("step/", {"action": 0}), 409, "reset-needed")
    instance.reset()
    assert instance.step(0)["observation"] == 1


@pytest.mark.parametrize("vice", ["Loop", "GilLoop"])
def test_a_call_past_its_deadline_is_504_then_410(
    hostile: Callable[..., Instance], vice: str
) -> None:
    instance = hostile(vice)
    pid = instance.reset()["info"]["pid"]
    calls.error(instance.post("step/", {"action": 1}), 504, "step-deadline")
    error = calls.error(instance.post("step/", {"action": 0}), 410, "instance-ended")
    assert error["reason"] == "step-deadline"
    wait_until(lambda: not psutil.pid_exists(pid), message="the host to be gone")


def test_memory_beyond_the_limit_ends_the_host(
    make_server: Callable[..., Server],
) -> None:
    server = make_server(*HOSTILE, "--host-memory", str(512 << 20))
    instance = Api(server).create("hostile/Leak-v0")
    instance.reset()
    error = calls.error(instance.post("step/", {"action": 1}), 502, "env-crashed")
    assert error["reason"] == "memory"
    assert error["message"].endswith("than the server allows (--host-memory)")


def test_a_forked_child_that_returns_ends_the_instance(
    hostile: Callable[..., Instance], hostile_server: Server
) -> None:
    neighbour = hostile("Harmless")
    instance = hostile("ForkReturns")
    answer = instance.post("step/", {"action": 1})
    if answer.status != 200:
        error = calls.error(answer, 502, "env-crashed")
        assert "forked returned" in error["message"]
    wait_until(lambda: instance.get("").status == 410, message="its end")
    error = calls.error(instance.get(""), 410, "instance-ended")
    assert error["reason"] == "crashed"
    assert "os._exit()" in error["message"]
    others = {hostile_server.host(neighbour.id)}
    wait_until(lambda: hostile_server.environments() == others, message="both ends")
    assert neighbour.step(0)["observation"] == 1


@pytest.mark.parametrize("action", [{"action": 1}, {"actions": [0, 1, 0]}])
def test_a_child_returns_from_one_step_or_from_several(
    hostile: Callable[..., Instance], action: dict[str, Any]
) -> None:
    instance = hostile("ForkReturns")
    assert instance.post("step/", action).status in (200, 502)
    wait_until(lambda: instance.get("").status == 410, message="its end")


def test_a_forked_child_that_returns_to_a_stream_ends_the_instance(
    hostile_server: Server,
) -> None:
    env = RemoteEnv(hostile_server.url, "hostile/ForkReturns-v0")
    env.reset()
    # From the second step on, requests are answered the short way.
    for number in range(1, 5):
        assert env.step(0)[0] == number

    def step_on() -> None:
        for action in (1, *[0] * 100_000):
            env.step(action)

    with pytest.raises(ServerError) as raised:
        step_on()
    assert raised.value.code in ("env-crashed", "instance-ended")
    assert "os._exit()" in str(raised.value)
    with contextlib.suppress(ServerError):
        env.close()


def test_a_forked_child_that_returns_from_making_makes_nothing(
    hostile_server: Server,
) -> None:
    api = Api(hostile_server)
    body = {"env_id": "hostile/ForkReturns-v0", "kwargs": {"when": "init"}}
    answer = api.post("/v1/envs/", body)
    if answer.status == 200:
        instance = Instance(api, calls.ok(answer)["instance_id"])
        wait_until(lambda: instance.get("").status == 410, message="its end")
    else:
        error = calls.error(answer, 502, "env-crashed")
        assert "forked returned" in error["message"]


def test_a_forked_child_of_a_shard_ends_the_vector(
    hostile: Callable[..., Instance],
) -> None:
    options = {"num_envs": 2, "vectorization_mode": "sync", "hosts": 2}
    instance = hostile("ForkReturns", **options)
    instance.post("step/", {"action": [0, 1]})

    def ended() -> bool:
        return instance.post("step/", {"action": [0, 0]}).status in (410, 502)

    wait_until(ended, message="its end")
    assert calls.error(instance.get(""), 410)["reason"] == "crashed"


def test_a_forked_child_that_exits_ends_nothing(
    hostile: Callable[..., Instance],
) -> None:
    instance = hostile("ForkEnds")
    assert instance.step(1)["info"]["status"] == 7
    assert instance.step(1)["observation"] == 2


def test_an_answer_beyond_the_limit_is_an_error(
    hostile: Callable[..., Instance],
) -> None:
    instance = hostile("HugeAnswer")
    calls.error(instance.post("step/", {"action": 1}), 502, "answer-too-large")
    assert instance.step(0)["observation"] == 2


def test_printed_output_is_bounded(
    hostile: Callable[..., Instance], hostile_server: Server
) -> None:
    instance = hostile("Spam")
    instance.step(1)
    (log,) = hostile_server.run_dir.glob(f"*/{instance.id}/log")
    wait_until(lambda: b"bytes were dropped here" in log.read_bytes(), 3.0)
    assert log.stat().st_size <= 1 << 20
    assert instance.step(0)["observation"] == 2


def test_a_burst_of_output_never_reaches_the_disk(
    make_server: Callable[..., Server],
) -> None:
    server = make_server(*HOSTILE)
    api = Api(server)
    neighbour, instance = api.create(), api.create("hostile/Burst-v0")
    (folder,) = server.run_dir.glob(f"*/{instance.id}")
    instance.reset()
    neighbour.reset()
    answers: list[Response] = []
    printing = threading.Thread(
        target=lambda: answers.append(instance.post("step/", {"action": 1}))
    )
    printing.start()
    most = 0
    while printing.is_alive():
        with contextlib.suppress(FileNotFoundError):
            used = sum(each.lstat().st_blocks * 512 for each in folder.iterdir())
            most = max(most, used)
        neighbour.reset()
    printing.join()
    assert 0 < most <= 2 << 20
    error = calls.error(answers[0], 502, "env-crashed")
    assert error["signal"] == "SIGABRT"
    assert "the last word\nFatal Python error: Aborted" in error["log_tail"]


def test_closed_descriptors_end_the_instance_only(
    hostile: Callable[..., Instance],
) -> None:
    neighbour = hostile("Harmless")
    instance = hostile("CloseDescriptors")
    calls.error(instance.post("step/", {"action": 1}), 502)
    assert neighbour.step(0)["observation"] == 1
    wait_until(
        lambda: instance.get("").status == 410, 3.0, "the host to be known as ended"
    )


def test_a_host_that_ignores_sigterm_is_gone_at_close(
    hostile: Callable[..., Instance],
) -> None:
    instance = hostile("IgnoreTerm")
    pid = instance.reset()["info"]["pid"]
    calls.no_content(instance.close())
    assert not psutil.pid_exists(pid)
    calls.error(instance.close(), 400, "unknown-instance")


def test_children_of_a_host_go_with_it(
    hostile: Callable[..., Instance], hostile_server: Server
) -> None:
    neighbour = hostile("Children")
    neighbour.step(1)
    before = hostile_server.environments()
    instance = hostile("Children")
    instance.step(1)
    started = hostile_server.environments() - before
    assert len(started) >= 3, "the host, its child and a daemon"
    calls.no_content(instance.close())
    wait_until(
        lambda: not any(p.is_running() for p in started), 3.0, "its processes to end"
    )
    assert all(p.is_running() for p in before), "a neighbour's processes live on"


def test_a_create_that_times_out_releases_its_slot(hostile_server: Server) -> None:
    api = Api(hostile_server)
    answer = api.post("/v1/envs/", {"env_id": "hostile/SlowInit-v0"})
    calls.error(answer, 504, "create-deadline")
    assert calls.ok(api.get("/v1/"))["instances"] == 0


@pytest.mark.parametrize(
    ("how", "code"), [("raise", "env-error"), ("die", "env-crashed")]
)
def test_a_failed_create_releases_its_slot(
    hostile_server: Server, how: str, code: str
) -> None:
    api = Api(hostile_server)
    body = {"env_id": "hostile/FailInit-v0", "kwargs": {"how": how}}
    calls.error(api.post("/v1/envs/", body), 502, code)
    wait_until(
        lambda: calls.ok(api.get("/v1/"))["instances"] == 0, 3.0, "the slot to be free"
    )


def test_kill_9_under_load_costs_one_call(
    hostile: Callable[..., Instance],
) -> None:
    neighbours = [hostile("Harmless") for _ in range(4)]
    victim = hostile("Harmless")
    pid = victim.reset()["info"]["pid"]
    stop = threading.Event()
    outcomes: dict[str, list[int]] = {each.id: [] for each in [victim, *neighbours]}

    def drive(instance: Instance) -> None:
        answers = outcomes[instance.id]
        while not stop.is_set() and not (answers and answers[-1] == 410):
            answers.append(instance.post("step/", {"action": 0}).status)

    threads = [threading.Thread(target=drive, args=(each,)) for each in neighbours]
    threads.append(threading.Thread(target=drive, args=(victim,)))
    for thread in threads:
        thread.start()
    wait_until(lambda: all(len(a) > 20 for a in outcomes.values()), 10.0, "a load")
    os.kill(pid, signal.SIGKILL)
    threads[-1].join(5.0)
    counts = {each.id: len(outcomes[each.id]) for each in neighbours}
    wait_until(
        lambda: all(len(outcomes[i]) > n + 20 for i, n in counts.items()), 10.0, "more"
    )
    stop.set()
    for thread in threads:
        thread.join(5.0)
    ended = [status for status in outcomes[victim.id] if status != 200]
    assert ended in ([502, 410], [410]), ended
    for each in neighbours:
        assert set(outcomes[each.id]) == {200}
        assert each.step(0)["observation"] == len(outcomes[each.id]) + 1
