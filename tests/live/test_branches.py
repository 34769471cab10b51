"""Branches are what steps would be, and leave the instance where it is."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import psutil
import pytest

from gym_http_client import RemoteEnv, ServerError
from tests.support import api as calls
from tests.support import processes
from tests.support.api import Api, Instance
from tests.support.server import Server
from tests.support.wait import wait_until

KINDS = [
    "Acrobot-v1",
    "BipedalWalker-v3",
    "Blackjack-v1",
    "CarRacing-v3",
    "CartPole-v1",
    "FrozenLake-v1",
    "HalfCheetah-v5",
    "LunarLander-v3",
    "Pendulum-v1",
    "Taxi-v4",
]
BEFORE, LENGTH, BRANCHES = 3, 6, 16
#: With CHAOS_TIMES=60, more than 10,000 branches have to leave nothing.
TIMES = float(os.environ.get("CHAOS_TIMES", "1"))
#: Short, so that a branch that hangs is waited for briefly.
LIMITS = ("--step-deadline", "3", "--host-memory", "600M")


@pytest.fixture(scope="module")
def hostile_server() -> Iterator[Server]:
    modules = [
        f"tests.support.envs.{each}" for each in ("hostile", "odd_infos", "threaded")
    ]
    with Server(*(f"--import={each}" for each in modules), *LIMITS) as started:
        yield started


@pytest.fixture
def hostile(hostile_server: Server) -> Iterator[Any]:
    """Return a factory of instances, by the name of their misbehaviour."""
    made: list[Instance] = []

    def create(name: str, **options: Any) -> Instance:
        made.append(Api(hostile_server).create(f"hostile/{name}-v0", **options))
        return made[-1]

    yield create
    for instance in made:
        instance.close()


def rows_of(env_id: str, actions: list[Any]) -> list[tuple[Any, ...]]:
    """Step a local environment, until its episode ends."""
    rows = []
    with gymnasium.make(env_id) as local:
        local.reset(seed=5)
        for action in actions:
            row = local.step(action)
            rows.append(row)
            if row[2] or row[3]:
                break
    return rows


def equal(one: Any, other: Any) -> bool:
    """Whether two values are the same to the bit."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            equal(value, other[key]) for key, value in one.items()
        )
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(equal, one, other))
    first, second = np.asarray(one), np.asarray(other)
    return first.dtype == second.dtype and first.tobytes() == second.tobytes()


@pytest.mark.parametrize("env_id", KINDS)
def test_branches_are_the_steps_that_would_be(server: Server, env_id: str) -> None:
    space = gymnasium.make(env_id).action_space
    space.seed(1)
    # Its first step may end the episode.
    count = 0 if env_id == "Blackjack-v1" else BEFORE
    first = [space.sample() for _ in range(count)]
    lists = [[space.sample() for _ in range(LENGTH)] for _ in range(BRANCHES)]
    env = RemoteEnv(server.url, env_id)
    env.reset(seed=5)
    for action in first:
        env.step(action)
    before = env.np_random.bit_generator.state
    branches = env.branches(lists, observations=True)
    assert len(branches) == BRANCHES
    for actions, branch in zip(lists, branches, strict=True):
        rows = rows_of(env_id, first + actions)[count:]
        assert branch["steps"] == len(rows)
        assert equal(list(branch["observations"]), [row[0] for row in rows])
        assert equal(branch["rewards"], [row[1] for row in rows])
        last = [branch[name] for name in ("observation", "terminated", "truncated")]
        assert equal(last, [rows[-1][index] for index in (0, 2, 3)])
        assert equal(branch["info"], rows[-1][4])
        ended = rows[-1][2] or rows[-1][3]
        assert branch["stopped"] == ("episode" if ended else None)
    # As if there had been none.
    assert env.np_random.bit_generator.state == before
    assert equal(env.step(lists[0][0]), rows_of(env_id, [*first, lists[0][0]])[-1])
    env.close()


def test_the_instance_stays_as_it_is(api: Api) -> None:
    instance = api.create("CartPole-v1", render_mode="rgb_array")
    instance.reset(seed=1)
    instance.post("step/", {"action": 1})

    def facts() -> list[Any]:
        about = instance.get("").json()
        return [
            [about[name] for name in ("steps", "episodes")],
            instance.get("generator/").json(),
            instance.get("episodes/").json()["total"],
            instance.get("render/").body,
        ]

    before = facts()
    answer = instance.post("rollout/", {"count": 4, "steps": 200, "seed": 1})
    branches = calls.ok(answer)["branches"]
    assert {branch["stopped"] for branch in branches} == {"episode"}
    assert facts() == before
    calls.no_content(instance.close())


@pytest.mark.parametrize("action", [0, 1])
def test_values_in_plain_json_are_those_of_steps(
    hostile_server: Server, action: int
) -> None:
    """Also those that no other form has: the action 1 returns a set."""
    instance = Api(hostile_server).create("odd/Infos-v0")
    instance.reset()
    given = {"branches": [[0, action]], "observations": True}
    (branch,) = calls.ok(instance.post("rollout/", given))["branches"]
    steps = [instance.step(0), instance.step(action)]
    assert branch.pop("observations") == [step["observation"] for step in steps]
    assert branch.pop("rewards") == [step["reward"] for step in steps]
    del steps[-1]["done"], steps[-1]["reward"]
    assert branch == steps[-1] | {"steps": 2, "stopped": None}
    calls.no_content(instance.close())


def test_random_branches_differ_and_repeat_with_their_seed(api: Api) -> None:
    instance = api.create("CartPole-v1")
    instance.reset(seed=1)

    def drawn(**members: Any) -> list[Any]:
        given = {"count": 5, "steps": 12, **members}
        answer = calls.ok(instance.post("rollout/", given))
        return [branch["actions"] for branch in answer["branches"]]

    assert drawn(seed=7) == drawn(seed=7)
    assert len(set(map(tuple, drawn(seed=7)))) == 5
    assert drawn() != drawn()
    calls.no_content(instance.close())


def test_chance_repeats_itself_unless_it_is_reseeded(api: Api) -> None:
    instance = api.create("FrozenLake-v1")
    instance.reset(seed=1)
    lists = [[1] * 4] * 12

    def ends(**members: Any) -> set[int]:
        answer = instance.post("rollout/", {"branches": lists, **members})
        return {each["observation"] for each in calls.ok(answer)["branches"]}

    assert len(ends()) == 1
    assert len(ends(reseed=True)) > 1
    assert ends(reseed=True, seed=3) == ends(reseed=True, seed=3)
    calls.no_content(instance.close())


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        ({"branches": []}, "bad-parameter", "a list of 1 to 256 lists"),
        ({"branches": [[0]] * 257}, "bad-parameter", "a list of 1 to 256 lists"),
        ({"branches": [[0], []]}, "missing-parameter", "branches[1]"),
        ({"branches": [[0], [1, 0], [1, 7]]}, "invalid-action", "branches[2][1]: "),
        (
            {"branches": [[0], 5]},
            "bad-parameter",
            "s[1] is 5: expected a list of actions",
        ),
        ({"branches": [[0] * 5001] * 2}, "bad-parameter", "10002 actions"),
        ({"branches": [[0]], "episodes": 2}, "bad-parameter", "either branches or"),
        ({"branches": [[0]], "steps": 2}, "bad-parameter", "either branches or"),
        ({"branches": [[0]], "policy": "random"}, "bad-parameter", "either branches"),
        ({"count": 2}, "missing-parameter", "steps"),
        ({"steps": 2}, "missing-parameter", "count"),
        ({"reseed": True}, "missing-parameter", "branches"),
        ({"count": 257, "steps": 1}, "bad-parameter", "count"),
        ({"count": 200, "steps": 51}, "bad-parameter", "10200"),
    ],
    ids=str,
)
def test_bad_requests_fork_nothing(
    api: Api, given: dict[str, Any], code: str, words: str
) -> None:
    instance = api.create("CartPole-v1")
    instance.reset()
    problem = calls.error(instance.post("rollout/", given), 400, code)
    assert words in problem["message"]
    if code == "invalid-action":
        assert (problem["branch"], problem["index"]) == (2, 1)
    calls.no_content(instance.close())


def test_an_action_outside_the_space_is_refused_in_every_form(server: Server) -> None:
    env = RemoteEnv(server.url, "Pendulum-v1")
    env.reset()
    words = r"^branches\[1\]\[0\]: .*9\..* is not in Box"
    with pytest.raises(gymnasium.error.InvalidAction, match=words) as refused:
        env.branches([[np.array([1.0], np.float32)], [np.array([9.0], np.float32)]])
    assert isinstance(refused.value.__cause__, ServerError)
    body = refused.value.__cause__.body
    assert (body["branch"], body["index"]) == (1, 0)
    env.close()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {},
            "branches got nothing to play: expected actions, a list .* or count and s",
        ),
        ({"count": 2}, "branches got count: expected"),
        ({"actions": [[0]], "steps": 2}, "branches got actions and steps: expected"),
        (
            {"actions": [[1], 0]},
            r"actions\[1\] is 0: expected the list of actions of o",
        ),
        (
            {"actions": [[]]},
            r"actions\[0\] is \[\]: expected the list of actions of one",
        ),
    ],
)
def test_python_names_its_own_arguments(
    server: Server, given: dict[str, Any], words: str
) -> None:
    with (
        contextlib.closing(RemoteEnv(server.url, "CartPole-v1")) as env,
        pytest.raises(TypeError, match=words),
    ):
        env.branches(**given)


def test_before_the_first_reset_there_is_no_state(api: Api) -> None:
    instance = api.create("CartPole-v1")
    answer = instance.post("rollout/", {"branches": [[0], [1]]})
    calls.error(answer, 409, "reset-needed")
    calls.no_content(instance.close())


def test_what_a_fork_does_not_have_is_refused(
    api: Api, hostile: Any, hostile_server: Server
) -> None:
    given = {"branches": [[0]]}
    for env_id, options in (
        ("CartPole-v1", {"num_envs": 2}),
        ("hostile/Threaded-v0", {}),
    ):
        made = Api(hostile_server).create(env_id, **options)
        made.reset()
        calls.error(made.post("rollout/", given), 409, "cannot-branch")
        calls.no_content(made.close())
    parent = hostile("Children")
    parent.reset()
    parent.post("step/", {"action": 1})
    problem = calls.error(parent.post("rollout/", given), 409, "cannot-branch")
    assert "python" in problem["message"]
    cut = hostile("CutName")
    cut.reset()
    cut.post("step/", {"action": 1})
    calls.error(cut.post("rollout/", given), 409, "cannot-branch")
    clocked = api.create("Pendulum-v1", realtime={"mode": "free_running", "hz": 10})
    calls.error(clocked.post("rollout/", given), 409, "cannot-branch")
    calls.no_content(clocked.close())


@pytest.mark.parametrize(
    ("vice", "code", "words"),
    [
        ("Segfault", "env-crashed", "SIGSEGV"),
        ("KillSelf", "env-crashed", "SIGKILL"),
        ("RealTimeSignal", "env-crashed", "signal 40"),
        ("IgnoreChildren", "env-crashed", "ended; the instance"),
        ("Exit0", "env-crashed", "exit status 0"),
        ("Loop", "step-deadline", "2.4 s"),
        ("GilLoop", "step-deadline", "2.4 s"),
        ("Leak", "env-error", "MemoryError"),
        ("RaiseKeyError", "env-error", "KeyError"),
        ("CloseDescriptors", "env-crashed", ""),
        ("ForgesResults", "env-crashed", ""),
        ("LeaksShared", "env-error", "OSError"),
    ],
)
def test_the_vice_of_a_branch_is_its_own(
    hostile: Any, vice: str, code: str, words: str
) -> None:
    instance = hostile(vice)
    pid = instance.reset()["info"]["pid"]
    answer = instance.post("rollout/", {"branches": [[0, 0], [0, 1, 0], [0]]})
    branches = calls.ok(answer)["branches"]
    error = branches[1]["error"]
    assert error["code"] == code
    assert words in error["message"]
    if code != "step-deadline":
        assert [each.get("steps") for each in branches[::2]] == [2, 1]
    # The instance has not moved, and nothing is left below it.
    assert calls.ok(instance.post("step/", {"action": 0}))["observation"] == 1
    wait_until(lambda: not psutil.Process(pid).children(recursive=True), 3.0, "an end")


def test_the_daemons_of_a_branch_end_with_it(hostile: Any) -> None:
    instance = hostile("OutlivesBranches")
    host = psutil.Process(instance.reset()["info"]["pid"])
    for _ in range(3):
        answer = instance.post("rollout/", {"branches": [[0], [1], [0, 0]]})
        info = calls.ok(answer)["branches"][1]["info"]
        # Not with another branch.
        assert set(info["states"]) <= {"R", "S"}
        assert not any(map(psutil.pid_exists, info["daemons"]))
    assert host.children() == []
    instance.close()


def test_daemons_of_the_instance_survive_its_branches(hostile: Any) -> None:
    instance = hostile("Daemonise")
    instance.reset()
    daemon = psutil.Process(instance.step(1)["info"]["daemon"])
    # Daemons that come later go to the supervisor, too.
    for _ in range(2):
        lists = {"branches": [[1], [1]]}
        for each in calls.ok(instance.post("rollout/", lists))["branches"]:
            assert not psutil.pid_exists(each["info"]["daemon"])
        assert daemon.is_running()
        daemon = psutil.Process(instance.step(1)["info"]["daemon"])
    parent = daemon.parent()
    assert parent is not None
    assert processes.titled(parent, "supervisor")


def test_a_crash_is_noticed_though_a_fork_has_the_pipe(hostile: Any) -> None:
    instance = hostile("DiesBesideItsFork")
    instance.reset()
    (branch,) = calls.ok(instance.post("rollout/", {"branches": [[1]]}))["branches"]
    assert branch["error"]["code"] == "env-crashed"
    assert "exit status 3" in branch["error"]["message"]


def test_a_fork_in_a_branch_answers_nothing(hostile: Any) -> None:
    instance = hostile("ForkReturns")
    pid = instance.reset()["info"]["pid"]
    # The branch may have ended before its fork is noticed.
    calls.ok(instance.post("rollout/", {"branches": [[1], [0]]}))
    assert calls.ok(instance.post("step/", {"action": 0}))["observation"] == 1
    wait_until(lambda: not psutil.Process(pid).children(recursive=True), 3.0, "an end")


def test_answers_that_are_too_large_are_refused(server: Server) -> None:
    env = RemoteEnv(server.url, "CarRacing-v3")
    env.reset(seed=1)
    with pytest.raises(ServerError, match="without their observations"):
        env.branches(count=32, steps=20, observations=True)
    (branch,) = env.branches(count=1, steps=2)
    assert branch["steps"] == 2
    env.close()


def test_a_host_that_is_killed_takes_its_branches_with_it(hostile: Any) -> None:
    instance = hostile("Loop")
    pid = instance.reset()["info"]["pid"]
    host = psutil.Process(pid)
    sent = threading.Thread(
        target=instance.post, args=("rollout/", {"branches": [[1], [1]]})
    )
    sent.start()
    wait_until(lambda: len(host.children()) > 0, 3.0, "a branch")
    below = host.children(recursive=True)
    os.kill(pid, signal.SIGKILL)
    sent.join()
    wait_until(lambda: not any(map(psutil.Process.is_running, below)), 3.0, "an end")


@pytest.mark.timeout(60 + 30 * TIMES)
def test_many_branches_leave_nothing(server: Server) -> None:
    # No answer is kept without a key.
    instance = Api(server).create()
    instance.reset(seed=1)
    (folder,) = server.run_dir.glob(f"*/{instance.id}")
    below = psutil.Process(server.pid).children(recursive=True)
    (host,) = (each for each in below if processes.holds(each, instance.id))

    def play() -> list[Any]:
        given = {"count": 64, "steps": 10}
        branches = calls.ok(instance.post("rollout/", given))["branches"]
        assert [each.get("error") for each in branches] == [None] * 64
        files = [os.readlink(each) for each in Path(f"/proc/{host.pid}/fd").iterdir()]
        # Each web worker may have a connection.
        assert sum(each.startswith("socket:") for each in files) < 8
        files = [each for each in files if not each.startswith("socket:")]
        names = sorted(folder.rglob("*"))
        return [host.children(), host.num_threads(), sorted(files), names]

    before, size = play(), host.memory_full_info().uss
    for _ in range(round(3 * TIMES)):
        assert play() == before
    grown = host.memory_full_info().uss - size
    print(f"{size} bytes before, {grown} more after")
    assert grown < 1 << 20
    instance.close()


@pytest.mark.timeout(180)
def test_shooting_is_better_than_chance(server: Server) -> None:
    fewer = ("--episodes", "1", "--plans", "12")
    command = [sys.executable, "examples/shooting.py", *fewer, server.url]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    last = done.stdout.splitlines()[-1]
    assert last.endswith(" better than random play")
    assert int(last.split()[0]) > 0
