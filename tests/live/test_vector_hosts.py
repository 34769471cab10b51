"""A vector over several processes behaves and ends like a single instance."""

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import psutil
import pytest

from tests.support import api as calls
from tests.support.api import Api, Instance
from tests.support.server import Server
from tests.support.wait import wait_until

#: Has the server believe that it may use nine cores.
NINE_CORES = "import os; os.sched_getaffinity = lambda pid: set(range(9))"
# The environments are 0 and 1, 2 and 3, 4 and 5.
COUNT, HOSTS = 6, 3


@pytest.fixture(scope="module")
def hostile_server() -> Iterator[Server]:
    """A server whose limits are short."""
    limits = ("--step-deadline", "2", "--create-deadline", "4")
    with Server("--import", "tests.support.envs.hostile", *limits) as started:
        yield started


@pytest.fixture
def hostile(hostile_server: Server) -> Iterator[Callable[..., Any]]:
    """Return a factory of vectors, by misbehaviour, with their processes' IDs."""
    made: list[Instance] = []

    def create(vice: str, **options: Any) -> tuple[Instance, list[int]]:
        options = {"vectorization_mode": "sync", "hosts": HOSTS, **options}
        api = Api(hostile_server)
        instance = api.create(f"hostile/{vice}-v0", num_envs=COUNT, **options)
        made.append(instance)
        return instance, instance.reset()["info"]["pid"]

    yield create
    for instance in made:
        instance.close()


def gone(pids: list[int]) -> None:
    """Wait until processes have ended and were taken leave of."""
    wait_until(lambda: not any(map(psutil.pid_exists, pids)), 5.0, "the processes' end")


def test_each_shard_is_a_child_of_the_first(hostile: Callable[..., Any]) -> None:
    instance, pids = hostile("Harmless")
    assert pids[::2] == pids[1::2]
    assert len(set(pids)) == HOSTS
    leader, *parts = pids[::2]
    assert {psutil.Process(pid).ppid() for pid in parts} == {leader}
    assert instance.step([0] * COUNT)["observation"] == [1] * COUNT
    calls.no_content(instance.close())
    gone(pids)


@pytest.mark.parametrize("number", [0, 3, 5])
@pytest.mark.parametrize(
    ("vice", "output"),
    [("Segfault", "SIGSEGV"), ("KillSelf", "SIGKILL"), ("Exit0", "exit status 0")],
)
def test_the_death_of_a_shard_ends_the_instance_alike(
    hostile: Callable[..., Any], vice: str, output: str, number: int
) -> None:
    instance, pids = hostile(vice)
    action = [int(index == number) for index in range(COUNT)]
    problem = calls.error(instance.post("step/", {"action": action}), 502)
    assert problem["code"] == "env-crashed"
    assert output in problem["message"]
    if vice == "Segfault":
        assert "about to read address 0" in problem["log_tail"]
    calls.error(instance.get(""), 410, "instance-ended")
    gone(pids)


def test_the_death_of_an_idle_shard_is_noticed(hostile: Callable[..., Any]) -> None:
    instance, pids = hostile("Harmless")
    os.kill(pids[-1], signal.SIGTERM)
    problem = calls.error(instance.post("step/", {"action": [0] * COUNT}), 502)
    assert problem["signal"] == "SIGTERM"
    gone(pids)


def test_a_shard_that_closes_its_descriptors_is_a_crash(
    hostile: Callable[..., Any],
) -> None:
    instance, pids = hostile("CloseDescriptors")
    # The results may be there before it finds that it cannot answer.
    for action in ([0, 0, 0, 1, 0, 0], [0] * COUNT):
        answer = instance.post("step/", {"action": action})
        if answer.status != 200:
            break
    calls.error(answer, 502, "env-crashed")
    gone(pids)


def test_shards_end_with_the_first_process(hostile: Callable[..., Any]) -> None:
    instance, pids = hostile("Harmless")
    os.kill(pids[0], signal.SIGKILL)
    gone(pids)
    calls.error(instance.get(""), 410, "instance-ended")


def test_a_hanging_shard_ends_with_the_first_process(
    hostile: Callable[..., Any],
) -> None:
    instance, pids = hostile("Loop")
    answers: list[Any] = []
    action = [0, 0, 0, 0, 0, 1]
    asking = threading.Thread(
        target=lambda: answers.append(instance.post("step/", {"action": action}))
    )
    asking.start()
    loop = psutil.Process(pids[-1])
    wait_until(lambda: loop.status() == psutil.STATUS_RUNNING, 5.0, "the loop")
    os.kill(pids[0], signal.SIGKILL)
    gone(pids)
    asking.join()
    assert calls.error(answers[0], 502, "env-crashed")["signal"] == "SIGKILL"


@pytest.mark.parametrize("vice", ["Loop", "GilLoop"])
@pytest.mark.parametrize("number", [1, 4])
def test_a_hanging_shard_is_ended_with_all_others(
    hostile: Callable[..., Any], vice: str, number: int
) -> None:
    instance, pids = hostile(vice)
    action = [int(index == number) for index in range(COUNT)]
    calls.error(instance.post("step/", {"action": action}), 504, "step-deadline")
    gone(pids)


def test_an_exception_in_a_shard_is_returned_and_ends_nothing(
    hostile: Callable[..., Any],
) -> None:
    instance, _ = hostile("RaiseKeyError")
    action = [0, 0, 0, 0, 0, 1]
    problem = calls.error(instance.post("step/", {"action": action}), 502, "env-error")
    assert problem["error_type"] == "KeyError"
    calls.error(instance.post("step/", {"action": [0] * COUNT}), 409, "reset-needed")
    instance.reset()
    assert instance.step([0] * COUNT)["observation"] == [1] * COUNT


def test_a_failed_create_of_a_shard_leaves_nothing(
    hostile_server: Server,
) -> None:
    request = {"num_envs": COUNT, "hosts": HOSTS, "vectorization_mode": "sync"}
    api = Api(hostile_server)
    for env_id, status in (
        ("hostile/FailInit-v0", 502),
        ("hostile/SlowInit-v0", 504),
        ("Nonsense-v0", 400),
    ):
        answer = api.post("/v1/envs/", {"env_id": env_id, **request})
        calls.error(answer, status)
    wait_until(lambda: not hostile_server.environments(), 5.0, "the parts' end")


def test_the_memory_of_shards_counts(make_server: Callable[..., Server]) -> None:
    started = make_server(
        "--import",
        "tests.support.envs.hostile",
        "--host-memory",
        str(700 * 1024 * 1024),
    )
    api = Api(started)
    instance = api.create(
        "hostile/Leak-v0",
        num_envs=COUNT,
        hosts=HOSTS,
        vectorization_mode="sync",
    )
    pids = instance.reset()["info"]["pid"]
    answer = instance.post("step/", {"action": [0] * (COUNT - 1) + [1]})
    assert answer.status in (410, 502)
    gone(pids)


def test_many_processes_end_when_an_async_vector_does(
    hostile: Callable[..., Any],
) -> None:
    instance, pids = hostile("Harmless", vectorization_mode="async", hosts=None)
    assert len(set(pids)) == COUNT
    calls.no_content(instance.close())
    gone(pids)
    instance, pids = hostile("Loop", vectorization_mode="async", hosts=None)
    action = [1] + [0] * (COUNT - 1)
    calls.error(instance.post("step/", {"action": action}), 504, "step-deadline")
    gone(pids)


@pytest.mark.parametrize("number", [0, 5])
@pytest.mark.parametrize(
    ("vice", "output"),
    [
        ("Segfault", "SIGSEGV"),
        ("KillSelf", "SIGKILL"),
        ("Exit0", "exit status 0"),
        ("CloseDescriptors", "exit status 1"),
    ],
)
def test_the_death_of_an_async_worker_ends_the_instance_alike(
    hostile: Callable[..., Any], vice: str, output: str, number: int
) -> None:
    instance, pids = hostile(vice, vectorization_mode="async", hosts=None)
    action = [int(index == number) for index in range(COUNT)]
    problem = calls.error(instance.post("step/", {"action": action}), 502)
    assert problem["code"] == "env-crashed"
    assert output in problem["message"]
    assert "EOFError" not in problem["log_tail"]
    if vice == "Segfault":
        assert "about to read address 0" in problem["log_tail"]
        assert "string_at" in problem["message"]
    calls.error(instance.get(""), 410, "instance-ended")
    gone(pids)


def test_the_death_of_an_idle_async_worker_is_noticed(
    hostile: Callable[..., Any],
) -> None:
    instance, pids = hostile("Harmless", vectorization_mode="async", hosts=None)
    os.kill(pids[-1], signal.SIGTERM)
    problem = calls.error(instance.post("step/", {"action": [0] * COUNT}), 502)
    assert problem["signal"] == "SIGTERM"
    gone(pids)


def test_the_death_of_an_async_worker_ends_several_steps(
    hostile: Callable[..., Any],
) -> None:
    instance, pids = hostile("KillSelf", vectorization_mode="async", hosts=None)
    actions = [[0] * COUNT, [1] * COUNT]
    problem = calls.error(instance.post("step/", {"actions": actions}), 502)
    assert problem["signal"] == "SIGKILL"
    gone(pids)


def test_the_death_of_an_async_worker_fails_the_create(
    hostile_server: Server,
) -> None:
    request = {"num_envs": COUNT, "vectorization_mode": "async"}
    answer = Api(hostile_server).post(
        "/v1/envs/", {"env_id": "hostile/DiesInWorker-v0", **request}
    )
    problem = calls.error(answer, 502, "env-crashed")
    assert problem["signal"] == "SIGKILL"
    wait_until(lambda: not hostile_server.environments(), 5.0, "the workers' end")


def test_an_exception_in_an_async_worker_is_no_death(
    hostile: Callable[..., Any],
) -> None:
    instance, _ = hostile("RaiseEOFError", vectorization_mode="async", hosts=None)
    action = [0] * (COUNT - 1) + [1]
    problem = calls.error(instance.post("step/", {"action": action}), 502, "env-error")
    assert problem["error_type"] == "EOFError"
    assert instance.get("").status == 200


@pytest.fixture(scope="module")
def nine_cores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server that may use nine cores, as far as it knows."""
    folder: Path = tmp_path_factory.mktemp("cores")
    (folder / "sitecustomize.py").write_text(NINE_CORES)
    modules = ("tests.support.envs.hostile", "tests.support.envs.threaded")
    flags = [flag for module in modules for flag in ("--import", module)]
    with Server(*flags, python_path=(folder,)) as started:
        yield Api(started)


def stepped(instance: Instance) -> tuple[str, int, str | None]:
    """Return what the description says about how a vector steps."""
    about = instance.get("").json()
    return about["vectorization_mode"], about["hosts"], about["other_mode"]


def test_the_server_chooses_the_processes(nine_cores: Api) -> None:
    instance = nine_cores.create("hostile/Harmless-v0", num_envs=16, hosts="auto")
    pids = instance.reset()["info"]["pid"]
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [4, 4, 4, 4]
    assert stepped(instance) == ("sync", 4, None)
    calls.no_content(instance.close())


def test_the_answer_to_a_create_stays_as_it_was(nine_cores: Api) -> None:
    request = {"env_id": "CartPole-v1", "num_envs": 16, "hosts": "auto"}
    answer = nine_cores.post("/v1/envs/", request)
    assert answer.json().keys() == {"instance_id"}
    calls.no_content(Instance(nine_cores, answer.json()["instance_id"]).close())


def test_a_vector_of_its_package_says_how_to_have_processes(nine_cores: Api) -> None:
    instance = nine_cores.create("CartPole-v1", num_envs=16, hosts="auto")
    mode, hosts, other = stepped(instance)
    assert (mode, hosts) == ("vector_entry_point", 1)
    assert '"vectorization_mode": "sync" and "hosts": "auto"' in str(other)
    calls.no_content(instance.close())
    # As it says.
    wanted = {"vectorization_mode": "sync", "hosts": "auto"}
    instance = nine_cores.create("CartPole-v1", num_envs=16, **wanted)
    mode, hosts, other = stepped(instance)
    assert (mode, hosts) == ("sync", 4)
    assert '"vectorization_mode": "vector_entry_point"' in str(other)
    calls.no_content(instance.close())
    # And back.
    instance = nine_cores.create(
        "CartPole-v1", num_envs=16, vectorization_mode="vector_entry_point"
    )
    assert stepped(instance)[:2] == ("vector_entry_point", 1)
    calls.no_content(instance.close())


def test_auto_is_one_process_where_nothing_can_be_spread(nine_cores: Api) -> None:
    for env_id, more, mode in (
        ("CartPole-v1", {"vectorization_mode": "async", "num_envs": 4}, "async"),
        ("hostile/Threaded-v0", {"num_envs": 16}, "sync"),
    ):
        instance = nine_cores.create(env_id, hosts="auto", **more)
        assert stepped(instance)[:2] == (mode, 1), env_id
        calls.no_content(instance.close())


def test_a_refusal_has_the_request_that_works(nine_cores: Api) -> None:
    request = {"env_id": "CartPole-v1", "num_envs": 8, "hosts": 2}
    answer = nine_cores.post("/v1/envs/", request)
    words = calls.error(answer, 400, "bad-parameter")["message"]
    assert words.startswith("hosts is 2, and CartPole-v1 makes its vectors itself")
    works = json.loads(words[words.index("{") :])
    assert works == {**request, "vectorization_mode": "sync"}
    instance = nine_cores.create(**works)
    assert stepped(instance)[:2] == ("sync", 2)
    calls.no_content(instance.close())


@pytest.mark.parametrize(
    "refused",
    [
        {"autoreset_mode": "same_step"},
        {"vector_kwargs": {"copy": False}},
        {"wrappers": ["FlattenObservation"]},
    ],
    ids=str,
)
@pytest.mark.parametrize("mode", [None, "vector_entry_point"])
def test_a_package_s_vector_that_refuses_names_one_that_works(
    nine_cores: Api, refused: dict[str, Any], mode: str | None
) -> None:
    request = {"env_id": "CartPole-v1", "num_envs": 8, **refused}
    answer = nine_cores.post("/v1/envs/", {**request, "vectorization_mode": mode})
    problem = calls.error(answer, 400, "bad-parameter")
    words = problem["message"]
    assert words.startswith("CartPole-v1 makes its vectors itself")
    # So that clients raise what is raised locally.
    with pytest.raises(gymnasium.error.Error) as local:
        gymnasium.make_vec(
            "CartPole-v1",
            num_envs=8,
            vectorization_mode="vector_entry_point",
            vector_kwargs={} if "wrappers" in refused else refused,
            wrappers=[gymnasium.wrappers.FlattenObservation],
        )
    assert problem["error_type"] == "gymnasium.error.Error"
    assert problem["text"][:40] == str(local.value)[:40]
    works = json.loads(words[words.index("for one that") :].partition(": ")[2])
    instance = nine_cores.create(**works, **refused)
    assert stepped(instance)[:2] == ("sync", 2)
    calls.no_content(instance.close())


def test_a_single_environment_says_nothing_about_vectors(nine_cores: Api) -> None:
    instance = nine_cores.create("CartPole-v1")
    assert not {"hosts", "other_mode", "vectorization_mode"} & set(
        instance.get("").json()
    )
    calls.no_content(instance.close())
