"""A recording from the beginning is resumed: a new instance at the same state."""

import json
import shlex
import shutil
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import msgspec
import numpy as np
import pytest

import gym_http_client
from gym_http_client import RemoteEnv, RemoteVectorEnv, ServerError, resume
from gym_http_server.operations.instances import CREATE
from gym_http_server.web.api import service
from gym_http_wire.frames import VALUE_HEADER
from gym_http_wire.step_records import (
    MAGIC,
    Kind,
    Record,
    StepDecoder,
    StepEncoder,
)
from gym_http_wire.values import binary, typed
from tests.support import token_file
from tests.support.api import Api, Instance, error, no_content, ok
from tests.support.envs.resumable import Walker
from tests.support.identity import assert_identical
from tests.support.server import ROOT, Server

pytestmark = pytest.mark.live
WALKER = "resumable/Walker-v0"


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def server(
    data_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server with the sandbox on, whose hosts cannot read the data directory."""
    folder = tmp_path_factory.mktemp("tokens")
    flags = ["--import", "tests.support.envs.resumable", "--data-dir", str(data_dir)]
    flags += ["--tokens", token_file.write_file(folder)]
    token = token_file.token_of("root")
    with Server("--sandbox", "on", *flags, token=token) as running:
        yield running


@pytest.fixture
def client(server: Server) -> gym_http_client.Server:
    return gym_http_client.Server(server.url, token=server.token)


@pytest.fixture
def record(
    client: gym_http_client.Server, request: pytest.FixtureRequest
) -> Callable[..., Any]:
    """Make a recorded environment, which is closed after the test."""

    def make(env_id: str, directory: str, **options: Any) -> RemoteEnv:
        env = RemoteEnv(client, env_id, record=directory, **options)
        request.addfinalizer(env.close)
        return env

    return make


def read(folder: Path) -> list[Record]:
    """Read the records of the first part of a recording."""
    return StepDecoder().feed((folder / "steps.gym").read_bytes())


def write(folder: Path, records: list[Record]) -> None:
    """Write a recording of one part."""
    folder.mkdir()
    (folder / "episodes.jsonl").touch()
    encoder = StepEncoder()
    data = b"".join(encoder.encode(*record) for record in records)
    (folder / "steps.gym").write_bytes(MAGIC + data)


def walk(env: Any, actions: Any) -> list[Any]:
    """Take steps, and return the results without what cannot be sent."""
    return [env.step(action)[:4] for action in actions]


@pytest.fixture(scope="module")
def recorded(server: Server, data_dir: Path) -> str:
    """A recording of 20 steps of CartPole, whose instance was closed."""
    client = gym_http_client.Server(server.url, token=server.token)
    with RemoteEnv(client, "CartPole-v1", record="recorded") as env:
        env.reset(seed=3)
        for action in (0, 1) * 10:
            env.step(action)
    return "recorded"


def test_a_killed_instance_goes_on_where_it_was(
    server: Server, client: gym_http_client.Server, record: Callable[..., Any]
) -> None:
    with gymnasium.make("LunarLander-v3") as local:
        env = record("LunarLander-v3", "killed")
        observation, _ = env.reset()
        assert_identical(observation, local.reset(seed=env.np_random_seed)[0])
        for action in (1, 2, 3, 0) * 10:
            assert_identical(env.step(action), local.step(action))
        server.host(env.instance_id).kill()
        with resume(client, "killed") as resumed:
            assert resumed.last["action"] == 0
            for action in (3, 2, 1, 0) * 10:
                assert_identical(resumed.step(action), local.step(action))


def test_a_recording_is_resumed_again_and_at_earlier_steps(
    client: gym_http_client.Server, data_dir: Path, record: Callable[..., Any]
) -> None:
    def local(actions: list[int]) -> list[Any]:
        with gymnasium.make("CartPole-v1") as env:
            env.reset(seed=5)
            return walk(env, actions)

    env = record("CartPole-v1", "tree", label="first")
    env.reset(seed=5)
    assert_identical(walk(env, [0, 1] * 4), local([0, 1] * 4))
    env.close()
    for taken, further in (([0, 1] * 4, [1, 1]), ([0, 1, 0], [0, 0, 1])):
        with resume(client, "tree", step=len(taken)) as env:
            found = walk(env, further)
            assert_identical(found, local(taken + further)[len(taken) :])
    with resume(client, "tree") as env:
        assert_identical(walk(env, [1]), local([0, 1, 0, 0, 0, 1, 1])[6:])
    with resume(client, "tree", step=0) as env:
        assert env.last["op"] == "reset"
        assert_identical(walk(env, [1]), local([1]))
    with pytest.raises(ServerError, match="step is 9: expected at most 1, the steps"):
        resume(client, "tree", step=9)
    assert len(list((data_dir / "tree").glob("steps*.gym"))) == 5


def test_the_host_draws_a_seed_for_the_first_reset_only(
    data_dir: Path, record: Callable[..., Any]
) -> None:
    def seeds(directory: str) -> list[tuple[Any, Any]]:
        records = read(data_dir / directory)
        resets = [each.value for each in records if each.kind == Kind.RESET]
        return [(each["seed"], each.get("drawn")) for each in resets]

    env = record(WALKER, "drawn")
    env.reset()
    env.reset()
    (first, drawn), later = seeds("drawn")
    assert drawn is True
    assert 0 <= first < 2**31
    assert later == (None, None)
    env = record(WALKER, "given")
    env.reset(seed=6)
    env.reset()
    assert seeds("given") == [(6, None), (None, None)]
    env = record("resumable/TakesNoSeed-v0", "without")
    with pytest.raises(TypeError):
        env.reset()
    records = read(data_dir / "without")
    assert [each.kind for each in records] == [Kind.HEADER, Kind.FAILURE]
    assert records[1].value["given"]["seed"] is None


def test_no_seed_is_drawn_where_the_generator_was_set(
    client: gym_http_client.Server, data_dir: Path, record: Callable[..., Any]
) -> None:
    local = Walker()
    local.np_random = np.random.default_rng(8)
    env = record(WALKER, "generator")
    env.np_random = np.random.default_rng(8)
    assert_identical(env.reset()[0], local.reset()[0])
    env.close()
    with resume(client, "generator") as env:
        assert_identical(walk(env, [0, 2]), walk(local, [0, 2]))


def test_all_that_changes_an_environment_is_done_again(
    client: gym_http_client.Server, record: Callable[..., Any]
) -> None:
    def change(env: Any) -> None:
        env.reset(seed=4)
        env.pace = 2.5
        env.step(2)
        env.jump(3.0)
        env.np_random.normal()
        env.step(0)
        # The third jump makes the next step fail.
        env.jump(-1.0)
        env.jump(far=1.0)
        with pytest.raises(RuntimeError, match="a step that fails"):
            env.step(2)
        with pytest.raises(RuntimeError, match="a reset that fails"):
            env.reset(options={"fails": True})
        env.step(1)

    local = Walker()
    change(local)
    env = record(WALKER, "changed")
    change(env)
    env.close()
    with resume(client, "changed") as env:
        assert env.pace == 7.0
        assert env.jumps == 0
        assert_identical(walk(env, [2, 0, 1]), walk(local, [2, 0, 1]))


def test_random_actions_go_on_where_they_were(server: Server) -> None:
    api = Api(server)
    drawn: list[Any] = []
    plan = {"episodes": 1, "max_steps": 5}
    for directory in (None, "sampled"):
        made = api.create(WALKER, **({"record": directory} if directory else {}))
        ok(made.post("rollout/", {**plan, "seed": 2}))
        ok(made.get("action_space/sample/"))
        if directory:
            no_content(made.close())
            made_again = ok(api.post("/v1/envs/", {"resume": directory}))
            made = type(made)(api, made_again["instance_id"])
        drawn.append([ok(made.get("action_space/sample/")) for _ in range(20)])
        no_content(made.close())
    assert drawn[0] == drawn[1]


def test_large_arguments_are_in_a_file_of_their_own(
    client: gym_http_client.Server, data_dir: Path, record: Callable[..., Any]
) -> None:
    start = np.random.default_rng(0).normal(size=5000)
    env = record(WALKER, "large", env_kwargs={"start": start})
    observation, _ = env.reset(seed=1)
    env.close()
    (beside,) = (data_dir / "large").glob("arguments-*.bin")
    request = read(data_dir / "large")[0].value["request"]
    assert request["arguments"]["bytes"] == beside.stat().st_size > 40_000
    assert "kwargs" not in request
    with resume(client, "large") as env:
        assert_identical(env.last["observation"], observation)
    beside.write_bytes(beside.read_bytes()[:-1] + b"\1")
    with pytest.raises(ServerError, match="not as it was written") as refused:
        resume(client, "large")
    assert refused.value.code == "cannot-resume"


def test_a_vector_is_resumed(client: gym_http_client.Server) -> None:
    options: dict[str, Any] = {"num_envs": 3, "vectorization_mode": "sync"}
    local = gymnasium.make_vec("CartPole-v1", **options)
    envs: Any = RemoteVectorEnv(client, "CartPole-v1", record="three", **options)
    local.reset(seed=2)
    envs.reset(seed=2)
    for actions in ([0, 1, 0], [1, 0, 0]):
        for _ in range(30):
            found = envs.step(np.array(actions))
            assert_identical(found, local.step(np.array(actions)))
        envs.close()
        envs = resume(client, "three")
        assert isinstance(envs, RemoteVectorEnv)
    envs.close()
    local.close()


@pytest.mark.filterwarnings("ignore:info:UserWarning")
def test_values_that_cannot_be_sent_are_compared_by_their_types(
    client: gym_http_client.Server, record: Callable[..., Any]
) -> None:
    env = record("resumable/HasUnsent-v0", "unsent")
    env.reset()
    walk(env, [0, 1, 2])
    env.close()
    with resume(client, "unsent") as env:
        walk(env, [0, 1, 2])


def test_the_monitor_goes_on_in_its_episode(
    client: gym_http_client.Server, data_dir: Path, record: Callable[..., Any]
) -> None:
    env = record("CartPole-v1", "monitored")
    env.reset(seed=1)
    lengths = []
    for _ in range(3):
        length = 0
        while not env.step(1)[2]:
            length += 1
        lengths.append(length + 1)
        env.reset()
    env.step(0)
    env.close()
    # The end of the instance has written the episode that it cut short.
    with resume(client, "monitored") as env:
        for _ in range(4):
            env.step(1)
    lines = (data_dir / "monitored" / "episodes.jsonl").read_text().splitlines()
    assert [json.loads(line)["length"] for line in lines] == [*lengths, 1, 5]


@pytest.mark.parametrize("part", [0.02, 0.3, 0.6, 0.999])
def test_the_readable_part_of_a_cut_recording_is_replayed(
    part: float, client: gym_http_client.Server, data_dir: Path, recorded: str
) -> None:
    whole = (data_dir / recorded / "steps.gym").read_bytes()
    name = f"cut-{part}"
    shutil.copytree(data_dir / recorded, data_dir / name)
    cut = whole[: int(len(whole) * part)]
    (data_dir / name / "steps.gym").write_bytes(cut)
    records = StepDecoder().feed(cut)
    if not records:
        with pytest.raises(ServerError, match="has no create request"):
            resume(client, name)
        return
    steps = [each for each in records if each.kind == Kind.STEP]
    with resume(client, name) as env:
        expected = steps[-1] if steps else records[-1]
        if expected.kind != Kind.HEADER:
            assert_identical(env.last["observation"], expected.value["observation"])


def test_a_differing_value_is_named_and_no_instance_is_left(
    server: Server,
    client: gym_http_client.Server,
    data_dir: Path,
    recorded: str,
) -> None:
    records = read(data_dir / recorded)
    index = [each.kind for each in records].index(Kind.STEP) + 6
    value = records[index].value
    edited = value["observation"].copy()
    edited[2] += 1
    records[index] = records[index]._replace(value={**value, "observation": edited})
    write(data_dir / "edited", records)
    api = Api(server)
    problem = error(api.post("/v1/envs/", {"resume": "edited"}), 409, "resume-differs")
    assert problem["step"] == 7
    assert problem["member"] == "observation[2]"
    assert problem["recorded"] == repr(edited[2])
    assert problem["replayed"] == repr(value["observation"][2])
    assert "at step 7: observation[2] was" in problem["message"]
    assert api.instances() == {}
    with resume(client, "edited", verify=False) as env:
        assert env.last["action"] == 1
    with resume(client, "edited", step=6, label="from 6") as env:
        assert env.last["action"] == 1
        (listed,) = ok(api.get("/v1/instances/"))["instances"]
        assert listed["label"] == "from 6"
    with pytest.raises(ServerError, match="in no fleet"):
        resume(client, "edited", node="elsewhere")


def test_an_environment_that_reads_the_clock_differs(
    server: Server, client: gym_http_client.Server, record: Callable[..., Any]
) -> None:
    env = record("resumable/ReadsClock-v0", "clock")
    env.reset(seed=1)
    env.step(1)
    env.close()
    problem = error(
        Api(server).post("/v1/envs/", {"resume": "clock"}), 409, "resume-differs"
    )
    assert problem["member"] == 'info["at"]'
    assert "may read the clock" in problem["message"]


def test_other_versions_are_warned_of(
    server: Server, client: gym_http_client.Server, data_dir: Path, recorded: str
) -> None:
    header, *rest = read(data_dir / recorded)
    versions = {**header.value["versions"], "numpy": "1.0.0", "package": "x 1"}
    changed = header._replace(value={**header.value, "versions": versions})
    write(data_dir / "versions", [changed, *rest])
    with (
        pytest.warns(UserWarning, match="made with numpy 1.0.0 and now"),
        resume(client, "versions") as env,
    ):
        assert env.last["op"] == "step"


def test_a_recording_that_began_later_is_refused(
    server: Server, client: gym_http_client.Server
) -> None:
    api = Api(server)
    made = api.create()
    made.reset(seed=1)
    no_content(made.post("monitor/start/", {"directory": "later", "steps": True}))
    made.step(1)
    no_content(made.close())
    problem = error(api.post("/v1/envs/", {"resume": "later"}), 409, "cannot-resume")
    assert "has no create request" in problem["message"]


def test_a_recording_that_is_written_is_refused(
    server: Server, record: Callable[..., Any]
) -> None:
    env = record("CartPole-v1", "written")
    env.reset()
    api = Api(server)
    problem = error(api.post("/v1/envs/", {"resume": "written"}), 409, "cannot-resume")
    assert "is being written" in problem["message"]
    assert list(api.instances()) == [env.instance_id]
    body = {"env_id": "CartPole-v1", "record": "written"}
    problem = error(api.post("/v1/envs/", body), 400, "bad-parameter")
    assert problem["message"] == (
        "record is 'written', which has a recording already: choose another name, or "
        "go on with it by resume"
    )


def test_no_other_monitor_spoils_a_recording(server: Server, data_dir: Path) -> None:
    api = Api(server)
    other, steps = api.create(), {"directory": "spoiled", "steps": True}
    resumed = {"resume": "spoiled"}
    flags = ({"force": True}, {"resume": True}, {"force": True, "resume": True})
    for create in ({"env_id": "CartPole-v1", "record": "spoiled"}, resumed, resumed):
        made = Instance(api, ok(api.post("/v1/envs/", create))["instance_id"])
        made.reset()
        for how in flags:
            started = other.post("monitor/start/", {**steps, **how})
            refused = error(started, 409, "recording-active")
            assert "'spoiled', which an instance records in" in refused["message"]
        made.step(1)
        no_content(made.close())
        # After its end, another monitor may add to it.
        no_content(other.post("monitor/start/", {**steps, "resume": True}))
        other.reset()
        other.step(0)
        no_content(other.post("monitor/close/"))
    parts = {each.name for each in (data_dir / "spoiled").glob("*.gym")}
    assert parts == {"steps.gym", *(f"steps.{number}.gym" for number in range(2, 7))}
    # As a resume leaves it for which the disk has no room.
    (data_dir / "spoiled" / "steps.7.gym").touch()
    again = Instance(api, ok(api.post("/v1/envs/", resumed))["instance_id"])
    last = ok(again.get(""))["resumed"]
    assert (last["steps"], last["last"]["action"]) == (3, 1)
    for each in (again, other):
        no_content(each.close())


def test_monitors_that_replace_no_steps_share_a_directory(server: Server) -> None:
    """As agents of gym-http-api do, each with the directory of its example."""
    api = Api(server)
    both, shared = [api.create(), api.create()], {"directory": "/tmp/random-agent"}
    for each in both:
        no_content(each.post("monitor/start/", {**shared, "force": True}))
    third = api.create()
    no_content(third.post("monitor/start/", {**shared, "resume": True, "steps": True}))
    no_content(both[0].post("monitor/close/"))
    replaced = both[0].post("monitor/start/", {**shared, "force": True})
    error(replaced, 409, "recording-active")
    for each in (*both, third):
        no_content(each.close())
    again = api.create()
    no_content(again.post("monitor/start/", {**shared, "force": True}))
    no_content(again.close())


def test_a_recording_of_another_token_is_not_found(server: Server) -> None:
    ada, bob, root = (
        token_file.api_of(server, name) for name in ("ada", "bob", "root")
    )
    body = {"env_id": "CartPole-v1", "record": "adas"}
    made = ok(ada.post("/v1/envs/", body))["instance_id"]
    no_content(ada.post(f"/v1/envs/{made}/close/"))
    for api, directory in ((bob, "adas"), (root, "nowhere")):
        error(api.post("/v1/envs/", {"resume": directory}), 404, "not-found")
    resumed = ok(ada.post("/v1/envs/", {"resume": "adas"}))["instance_id"]
    listed = ok(root.get("/v1/instances/"))["instances"]
    (own,) = [each for each in listed if each["instance_id"] == resumed]
    assert own["owner"] == "ada"
    no_content(ada.post(f"/v1/envs/{resumed}/close/"))


def test_an_instance_with_a_clock_is_not_resumed(server: Server) -> None:
    api = Api(server)
    clock = {"mode": "elastic", "hz": 100}
    made = api.create("Pendulum-v1", realtime=clock, record="ticking")
    made.reset()
    made.step([0.0])
    no_content(made.close())
    problem = error(api.post("/v1/envs/", {"resume": "ticking"}), 409, "cannot-resume")
    assert "has a clock" in problem["message"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"resume": "recorded", "env_id": "CartPole-v1"}, "env_id is 'CartPole-v1' b"),
        ({"resume": "recorded", "seed": 1}, "seed is 1 beside resume"),
        ({"resume": "recorded", "step": -1}, "step is -1: expected an integer from 0"),
        ({"resume": "recorded", "verify": 1}, "verify is 1: expected true or false"),
        ({"resume": "../recorded"}, "resume is '../recorded': expected a path wi"),
        ({"resume": ".owner"}, "resume is '.owner': "),
        ({"resume": 5}, "resume is 5: expected a string"),
        ({"env_id": "CartPole-v1", "step": 5}, "step is 5 without resume"),
        (
            {"env_id": "CartPole-v1", "record": "../x"},
            "record is '../x': expected a pa",
        ),
        (
            {"env_id": "CartPole-v1", "record": "a/" * 99},
            "record has 99 parts: expected 16 at most",
        ),
        (
            {"env_id": "CartPole-v1", "record": "ab/" * 171},
            "record has 513 characters: expected 512 at most",
        ),
        (
            {"env_id": "CartPole-v1", "record": "a/" + "\u00fc" * 128},
            "record has a part of 256 bytes, 'üüü",
        ),
        ({"resume": "a" * 300}, "aaa: expected 255 at most"),
        ({"record": "x"}, "env_id"),
    ],
)
def test_requests_that_make_no_sense_are_refused(
    body: dict[str, Any], words: str, server: Server, recorded: str
) -> None:
    answer = Api(server).post("/v1/envs/", body)
    assert answer.status == 400
    assert words in answer.json()["message"]


def escaped(form: Any, request: dict[str, Any], name: str) -> bytes:
    """Write a request whose member ``resume`` is spelled with an escape."""
    if form is binary:
        signature, leaves = binary.split(request)
        text = signature.replace(b'"resume"', name.encode()).rstrip()
        text += b" " * (-len(text) % 8)
        return b"".join((VALUE_HEADER.pack(len(text), 0), text, *leaves))
    body: bytes = form.encode(request)
    return body.replace(b'"resume"', name.encode())


@pytest.mark.parametrize("name", ['"\\u0072esume"', '"r\\u0065sum\\u0065"'])
@pytest.mark.parametrize(
    ("media", "form"),
    [
        ("application/json", msgspec.json),
        ("application/vnd.gym-http.typed+json", typed),
        ("application/vnd.gym-http.binary", binary),
    ],
    ids=["plain", "typed", "binary"],
)
def test_an_escaped_name_is_resume_too(
    media: str, form: Any, name: str, server: Server, recorded: str
) -> None:
    api, headers = Api(server), {"Content-Type": media}
    large = {"kwargs": {"beyond": "x" * 20_000}}
    for more in ({}, large):
        given = {"env_id": "Acrobot-v1", "resume": recorded, "verify": False, **more}
        answer = api.post("/v1/envs/", data=escaped(form, given, name), headers=headers)
        problem = error(answer, 400, "bad-parameter")
        assert problem["message"].startswith("env_id is 'Acrobot-v1' beside resume")
    body = escaped(form, {"resume": recorded}, name)
    made = ok(api.post("/v1/envs/", data=body, headers=headers))
    instance = Instance(api, made["instance_id"])
    try:
        assert ok(instance.get(""))["resumed"]["steps"] == 20
    finally:
        instance.close()


def test_null_beside_resume_leaves_what_was_recorded(server: Server) -> None:
    api = Api(server)
    given = {"env_id": WALKER, "kwargs": {"start": [1.0, 2.0]}, "label": "first"}
    made = api.create(**given, record="whole", num_envs=2)
    described = ok(made.get(""))
    no_content(made.close())
    nulls = {name: None for name in CREATE if name != "resume"}
    body = {**nulls, "resume": "whole"}
    again = Instance(api, ok(api.post("/v1/envs/", body))["instance_id"])
    found = ok(again.get(""))
    no_content(again.close())
    for member in ("env_id", "label", "num_envs", "observation_space"):
        assert found[member] == described[member], member


def forged(value: Any) -> bytes:
    """Return a part with a header of any value."""
    return MAGIC + StepEncoder().encode(Kind.HEADER, 0, value)


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 409),
        (b"no recording", 409),
        (MAGIC + struct.pack("<II", 2**31, 0), 409),
        (MAGIC + struct.pack("<II", 9, zlib.crc32(b"\2" * 9)) + b"\2" * 9, 409),
        (forged(5), 409),
        (forged({"request": "CartPole-v1"}), 409),
        (forged({"request": {}}), 400),
        (forged({"request": {"env_id": 5}}), 400),
        (forged({"request": {"env_id": "os:system"}}), 403),
        (forged({"request": {"env_id": "CartPole-v1", "arguments": 5}}), 409),
        (forged({"request": {"env_id": "CartPole-v1", "for": "ada"}}), 200),
        (forged({"after": -1, "request": {"env_id": "CartPole-v1"}}), 409),
        (forged({"after": 5, "request": {"env_id": "CartPole-v1"}}), 409),
    ],
)
def test_forged_recordings_are_refused(
    content: bytes, status: int, server: Server, data_dir: Path
) -> None:
    folder = data_dir / f"forged-{zlib.crc32(content):x}"
    folder.mkdir()
    (folder / "episodes.jsonl").touch()
    (folder / "steps.gym").write_bytes(content)
    api = Api(server)
    answer = api.post("/v1/envs/", {"resume": folder.name})
    assert answer.status == status, answer.text
    if status == 200:
        made = answer.json()["instance_id"]
        (each,) = ok(api.get("/v1/instances/?search=" + made))["instances"][:1]
        assert each["owner"] == "root"
        no_content(api.post(f"/v1/envs/{made}/close/"))


def test_a_recording_with_too_many_parts_is_refused(
    server: Server, data_dir: Path
) -> None:
    folder = data_dir / "many"
    folder.mkdir()
    (folder / "episodes.jsonl").touch()
    part = forged({"request": {"env_id": "CartPole-v1"}})
    for name in ("steps.gym", *(f"steps.{number}.gym" for number in range(2, 502))):
        (folder / name).write_bytes(part)
    answer = Api(server).post("/v1/envs/", {"resume": "many"})
    problem = error(answer, 409, "cannot-resume")
    assert "501 parts" in problem["message"]
    assert "at most 500" in problem["message"]


def test_the_deadlines_of_a_resume_are_those_of_its_steps(tmp_path: Path) -> None:
    signal = tmp_path / "signal"
    limits = ("--create-deadline", "1", "--step-deadline", "1")
    with Server(*limits, "--import", "tests.support.envs.resumable") as short:
        api = Api(short)
        options = {"seconds": 0.15, "signal": str(signal)}
        made = api.create("resumable/Slow-v0", kwargs=options, record="slow")
        made.reset()
        for _ in range(10):
            made.step(1)
        no_content(made.close())
        resumed = Instance(
            api, ok(api.post("/v1/envs/", {"resume": "slow"}))["instance_id"]
        )
        resumed.step(1)
        no_content(resumed.close())
        signal.touch()
        answer = api.post("/v1/envs/", {"resume": "slow"})
        problem = error(answer, 504, "step-deadline")
        assert "while its recording was repeated" in problem["message"]


EXTERNAL = """
import sys
sys.path.insert(0, {root!r})
from gym_http_client import serve_env
from tests.support.envs.resumable import Walker
serve_env(Walker, "stdio:", name="walker")
"""


def test_an_external_environment_is_resumed_and_gets_what_the_client_sends(
    tmp_path: Path,
) -> None:
    program = tmp_path / "walker.py"
    program.write_text(EXTERNAL.format(root=str(ROOT)))
    command = shlex.join([sys.executable, str(program)])
    with Server("--env-command", f"walker={command}") as server:
        env = RemoteEnv(server.url, "external/walker", record="external")
        env.reset()
        env.reset(seed=4)
        walk(env, [0, 2, 1])
        env.close()
        records = read(server.data_dir / "external")
        resets = [each.value for each in records if each.kind == Kind.RESET]
        assert [each["seed"] for each in resets] == [None, 4]
        # Nobody knows the seed of its first episode.
        with pytest.raises(ServerError, match="differs from the recording at the re"):
            resume(server.url, "external")
        local = Walker()
        local.reset(seed=4)
        walk(local, [0, 2, 1])
        with resume(server.url, "external", verify=False) as env:
            assert_identical(walk(env, [2, 0]), walk(local, [2, 0]))


def test_older_servers_are_asked_first(
    client: gym_http_client.Server, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ok(Api(server).get("/v1/"))["capabilities"]
    assert {"record", "resume"} <= set(found) <= set(service.CAPABILITIES)
    monkeypatch.setattr(
        "gym_http_client.envs.server.capabilities_of",
        lambda link: frozenset(found) - {"record", "resume"},
    )
    for call in (
        lambda: RemoteEnv(client, "CartPole-v1", record="older"),
        lambda: resume(client, "older"),
    ):
        with pytest.raises(ServerError, match="expected a newer one") as refused:
            call()
        assert refused.value.code == "unsupported"
