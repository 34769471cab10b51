"""The sandbox restricts what environments reach, and environments work in it."""

import io
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from PIL import Image

from gym_http_server.linux import landlock
from gym_http_wire.messages import Op
from tests.support.api import Api, Instance, error, no_content, ok
from tests.support.broker import listed_env, wait_until_unlisted
from tests.support.intruder_calls import INTRUDER, attempt
from tests.support.other_user import USER, as_another_user
from tests.support.peers.external_env import ExternalEnv
from tests.support.server import Server
from tests.support.wait import wait_until

# Before anything imports mujoco: without a display it renders by EGL only.
os.environ.setdefault("MUJOCO_GL", "egl")

MODULE = """
import gymnasium
from tests.support.envs.hostile import Hostile
gymnasium.register(__name__.partition(".")[0] + "/Own-v0", Hostile)
"""
TOKEN = "a-token-of-the-tests"

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        not landlock.abi() and not os.environ.get("CI"), reason="no Landlock"
    ),
]


class Sandboxed(Server):
    """A server with the sandbox on, a token file and a place that may be written."""

    def __init__(self, *args: str, **options: Any) -> None:
        super().__init__(
            "--sandbox",
            "on",
            "--import",
            "tests.support.envs.intruder",
            *args,
            token=TOKEN,
            **options,
        )
        self.secret = self.base / "secret"
        self.secret.write_text(TOKEN)
        self.open = self.base / "open"
        self.open.mkdir()
        self.readable = self.base / "readable"
        self.readable.write_text("for all")
        self.relay_dir = self.base / "samples"
        # What does not exist when the server starts is unreachable anyway.
        self.relay_dir.mkdir()
        self._args += ("--token-file", str(self.secret), "--writable", str(self.open))
        self._args += ("--relay-dir", str(self.relay_dir))

    @property
    def run(self) -> Path:
        """The run directory."""
        return next(self.run_dir.iterdir())


@pytest.fixture(scope="module")
def sandboxed() -> Iterator[Sandboxed]:
    """A server with the sandbox on, shared by this module."""
    with Sandboxed() as server:
        # This starts the broker and the relay, which stay.
        Api(server).post("/v1/external/", {})
        Api(server).get("/v1/runs/")
        yield server


@pytest.fixture
def make(sandboxed: Sandboxed) -> Iterator[Callable[..., Instance]]:
    """Return a factory of instances in the sandbox, closed after the test."""
    made: list[Instance] = []

    def create(env_id: str = INTRUDER, **options: Any) -> Instance:
        made.append(Api(sandboxed).create(env_id, **options))
        return made[-1]

    yield create
    for instance in made:
        instance.close()


def test_files_that_cannot_be_written(
    sandboxed: Sandboxed, make: Callable[..., Instance]
) -> None:
    intruder, other = make(), make()
    for path in (
        Path.home() / "intruder",
        sandboxed.base / "intruder",
        sandboxed.data_dir / "intruder",
        sandboxed.relay_dir / "bodies" / "intruder",
        sandboxed.run / "intruder",
        sandboxed.run / intruder.id / "status",
        sandboxed.run / intruder.id / "log",
        sandboxed.run / other.id / "work" / "intruder",
        Path("/tmp/intruder"),
        sandboxed.readable,
    ):
        assert attempt(intruder, "write", str(path)) == "EACCES", path
        assert not path.exists() or "x" not in path.read_text(errors="replace")


def test_files_that_cannot_be_read(
    sandboxed: Sandboxed, make: Callable[..., Instance]
) -> None:
    intruder, other = make(), make()
    assert attempt(other, "write", "mine") is None
    stored = sandboxed.data_dir / "stored"
    stored.write_text("a store")
    for path in (
        sandboxed.secret,
        stored,
        sandboxed.relay_dir / "relay.sqlite3",
        sandboxed.run / other.id / "work" / "mine",
        sandboxed.run / other.id / "log",
        Path(f"/proc/{sandboxed.pid}/environ"),
    ):
        assert attempt(intruder, "read", str(path)) == "EACCES", path
    for folder in (sandboxed.run, sandboxed.run / other.id / "work"):
        assert attempt(intruder, "names", str(folder)) == "EACCES", folder
    link = ("ln", "-s", str(sandboxed.secret), "link")
    attempt(intruder, "run", *link)
    assert attempt(intruder, "read", "link") == "EACCES"


def test_files_that_can_be_used(
    sandboxed: Sandboxed, make: Callable[..., Instance]
) -> None:
    intruder = make()
    assert attempt(intruder, "read", str(sandboxed.readable)) == "for all"
    assert "root" in attempt(intruder, "read", "/etc/passwd")
    own = sandboxed.run / intruder.id
    for path in (
        own / "work" / "file",
        own / "tmp" / "file",
        sandboxed.open / "file",
        Path("/dev/shm/gym-http-intruder"),
        Path("/dev/null"),
        Path("/dev/zero"),
    ):
        assert attempt(intruder, "write", str(path)) is None, path
    Path("/dev/shm/gym-http-intruder").unlink()
    assert (sandboxed.open / "file").read_text() == "x"
    moved = str(own / "tmp" / "moved")
    assert attempt(intruder, "rename", str(own / "work" / "file"), moved) is None
    assert attempt(intruder, "read", moved) == "x"


def test_a_refused_write_names_the_setting(make: Callable[..., Instance]) -> None:
    intruder = make()
    intruder.reset()
    problem = error(intruder.post("step/", {"action": 1}), 502, "env-error")
    assert "--writable" in problem["message"]
    assert "--writable" not in problem["text"]


def test_processes_that_cannot_be_signalled(
    sandboxed: Sandboxed, make: Callable[..., Instance]
) -> None:
    intruder, other = make(), make()
    pids = [process.pid for process in sandboxed.members()] + [sandboxed.pid]
    own = int(attempt(intruder, "status", "Pid"))
    assert own in pids
    for pid in set(pids) - {own}:
        assert attempt(intruder, "kill", pid) == "EPERM"
    assert attempt(intruder, "child") == -15
    assert attempt(other, "status", "NoNewPrivs") == "1"


def test_processes_whose_limits_cannot_be_changed(
    sandboxed: Sandboxed, make: Callable[..., Instance]
) -> None:
    intruder, other = make(), make()
    own = int(attempt(intruder, "status", "Pid"))
    pids = [process.pid for process in sandboxed.members()] + [sandboxed.pid]
    for pid in set(pids) - {own}:
        assert attempt(intruder, "limit", pid) == "EPERM"
        for how in ("nice", "user", "scheduler", "disk"):
            assert attempt(intruder, "slow_down", how, pid) == "EPERM"
    assert attempt(intruder, "limits", own) == attempt(other, "limits", own)
    assert attempt(intruder, "limit_own") == sorted(os.sched_getaffinity(0))
    other.reset()


def test_system_calls_that_are_refused(make: Callable[..., Instance]) -> None:
    intruder = make()
    assert attempt(intruder, "set_linger") == "EPERM"
    assert attempt(intruder, "ring") == "ENOSYS"
    assert attempt(intruder, "status", "Seccomp:") == "2"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "env_id", ["CartPole-v1", "LunarLander-v3", "HalfCheetah-v5", "ALE/Pong-v5"]
)
def test_environments_render_as_they_do_here(
    make: Callable[..., Instance], env_id: str
) -> None:
    import ale_py

    gymnasium.register_envs(ale_py)
    local = gymnasium.make(env_id, render_mode="rgb_array")
    remote = make(env_id, render_mode="rgb_array")
    try:
        local.action_space.seed(4)
        expected, _ = local.reset(seed=11)
        assert _same(remote.reset(seed=11)["observation"], expected)
        for _ in range(5):
            action = local.action_space.sample()
            expected, reward, *_ = local.step(action)
            given = remote.step(np.asarray(action, np.float64).tolist())
            assert _same(given["observation"], expected)
            assert _same(given["reward"], reward)
        picture = remote.get("render/", headers={"Accept": "image/png"})
        frame = Image.open(io.BytesIO(picture.body))
        np.testing.assert_array_equal(frame, np.asarray(local.render()))
    finally:
        local.close()


def _same(given: Any, expected: Any) -> bool:
    kind = np.asarray(expected).dtype
    return np.array_equal(np.asarray(given, kind), np.asarray(expected))


def test_permissions_of_the_run_directory_are_restored() -> None:
    prefix = as_another_user("dac_read_search")
    server = Server(
        *("--sandbox", "on", "--import", "tests.support.envs.intruder"), prefix=prefix
    )
    for path in (server.base, server.run_dir, server.data_dir):
        os.chown(path, USER, USER)
    with server:
        api = Api(server)
        api.post("/v1/external/", {})
        intruder, other = api.create(INTRUDER), api.create()
        (run,) = server.run_dir.iterdir()
        for path in (
            run / other.id / "host.sock",
            run / other.id,
            run / "broker.sock",
            run / "supervisor.sock",
            run / "control.sock",
            run / "trash",
            run,
        ):
            assert attempt(intruder, "chmod", str(path), 0) is None
        wait_until(lambda: path.stat().st_mode & 0o777 == 0o700)
        folder = run / other.id
        wait_until(lambda: folder.stat().st_mode & 0o777 == 0o700)
        wait_until(lambda: (folder / "host.sock").stat().st_mode & 0o777 == 0o600)
        other.reset()
        no_content(api.create().close())
        assert (run / "broker.sock").stat().st_mode & 0o777 == 0o600
        no_content(other.close())
        assert server.stderr.count("--host-user") == 1


@pytest.mark.parametrize(
    "vector",
    [{"vectorization_mode": "sync", "hosts": 2}, {"vectorization_mode": "async"}],
)
def test_vectors_over_several_processes(
    make: Callable[..., Instance], vector: dict[str, Any]
) -> None:
    instance = make("CartPole-v1", num_envs=4, **vector)
    local = gymnasium.make_vec("CartPole-v1", num_envs=4, vectorization_mode="sync")
    try:
        expected, _ = local.reset(seed=3)
        assert _same(instance.reset(seed=3)["observation"], expected)
        expected, *_ = local.step(np.array([0, 1, 0, 1]))
        assert _same(instance.step([0, 1, 0, 1])["observation"], expected)
    finally:
        local.close()


def test_a_fresh_interpreter_is_in_the_sandbox(
    make_server: Callable[..., Server],
) -> None:
    server = make_server("--sandbox", "on", "--import", "tests.support.envs.threaded")
    intruder = Api(server).create("intruder/Apart-v0")
    command = attempt(intruder, "command")
    assert "gym_http_server.host" in command[1]
    assert attempt(intruder, "status", "NoNewPrivs") == "1"
    assert attempt(intruder, "write", "/etc/gym-http-intruder") == "EACCES"
    assert attempt(intruder, "write", "file") is None
    assert attempt(intruder, "kill", server.pid) == "EPERM"
    no_content(intruder.close())


def test_places_that_contain_the_servers_own_files(
    launch_server: Callable[..., Server],
) -> None:
    server = launch_server("--sandbox", "on", "--writable", "/tmp")
    assert server.wait_exit() == 1
    assert "Traceback" not in server.stderr
    assert "--writable" in server.stderr


def test_monitors_write_below_the_data_directory(
    sandboxed: Sandboxed, make: Callable[..., Instance]
) -> None:
    instance = make("CartPole-v1")
    no_content(instance.post("monitor/start/", {"directory": "runs/one"}))
    error(instance.post("monitor/start/", {"directory": "two"}), 409, "monitor-active")
    instance.reset(seed=1)
    while not instance.step(1)["terminated"]:
        pass
    no_content(instance.post("monitor/close/"))
    file = sandboxed.data_dir / "runs" / "one" / "episodes.jsonl"
    assert file.read_text().count("\n") == 1
    again = {"directory": "runs/one"}
    refused = error(instance.post("monitor/start/", again), 400, "bad-parameter")
    assert "force" in refused["message"]
    climbing = {"directory": "../runs"}
    error(instance.post("monitor/start/", climbing), 400, "bad-parameter")
    no_content(instance.post("monitor/start/", {**again, "resume": True}))
    assert file.read_text().count("\n") == 1
    no_content(instance.post("monitor/close/"))
    no_content(instance.post("monitor/start/", {**again, "force": True}))
    assert file.read_text() == ""


def test_a_network_of_its_own(make_server: Callable[..., Server]) -> None:
    server = make_server(
        "--network",
        "none",
        "--import",
        "tests.support.envs.intruder",
        "--sandbox",
        "on",
    )
    intruder = Api(server).create(INTRUDER)
    assert attempt(intruder, "interfaces") == ["lo"]
    assert attempt(intruder, "reach", "127.0.0.1", server.port) == "ECONNREFUSED"
    assert attempt(intruder, "exchange") == "word"
    no_content(intruder.close())


def test_v1_describes_the_sandbox(sandboxed: Sandboxed, server: Server) -> None:
    off = {"files": False, "host_user": None, "network": "host", "signals": False}
    off["system_calls"] = False
    assert ok(Api(server).get("/v1/"))["sandbox"] == off
    body = ok(Api(sandboxed).get("/v1/"))["sandbox"]
    signals = landlock.abi() >= 6
    assert body == {**off, "files": True, "signals": signals, "system_calls": True}


def test_auto_is_on_beyond_loopback(make_server: Callable[..., Server]) -> None:
    server = make_server("--listen", "0.0.0.0", "--no-token")
    assert ok(Api(server).get("/v1/"))["sandbox"]["files"] is True


def test_the_servers_sockets_refuse_environments(
    sandboxed: Sandboxed, make: Callable[..., Instance]
) -> None:
    intruder, other = make(), make()
    for path, op in (
        (sandboxed.run / "supervisor.sock", Op.LIST),
        (sandboxed.run / other.id / "host.sock", Op.ACTION_SPACE),
        (sandboxed.run / "broker.sock", Op.EXTERNAL_LIST),
        (sandboxed.run / "broker.sock", Op.EXTERNAL_STATUS),
        (sandboxed.run / "relay.sock", Op.RELAY_STATUS),
        (sandboxed.run / "relay.sock", Op.RUN_LIST),
        (sandboxed.run / "control.sock", Op.RELOAD),
    ):
        for daemon in (False, True):
            tried = attempt(intruder, "connect", str(path), op, daemon)
            assert tried == "ECONNREFUSED", path
    other.reset()


def test_environments_cannot_lease_external_connections(
    sandboxed: Sandboxed, make: Callable[..., Instance]
) -> None:
    api, intruder = Api(sandboxed), make()
    with ExternalEnv.to(api) as external:
        path = str(sandboxed.run / "broker.sock")
        assert attempt(intruder, "lease", path, "game") == 0
        assert listed_env(api)["free"] == 1
        assert "refused a connection of an environment to the broker" in (
            sandboxed.stderr
        )
        external.drop()
        wait_until_unlisted(api)


def test_descriptors_whose_close_waits_stop_neither_supervisor_nor_broker(
    make_server: Callable[..., Server],
) -> None:
    # In the sandbox, none can be made.
    server = make_server("--sandbox", "off", "--import", "tests.support.envs.intruder")
    api = Api(server)
    intruder = api.create(INTRUDER)
    assert attempt(intruder, "send_lingering", 600) == 1
    no_content(api.create().close())
    with ExternalEnv.to(api) as external:
        (path,) = server.run_dir.glob("*/broker.sock")
        # The first list surveys the registry, which takes long on a busy machine.
        assert listed_env(api)
        for count in (1, 5, 40):
            attempt(intruder, "send_broker_lingering", str(path), count)
            began = time.monotonic()
            assert listed_env(api)
            assert time.monotonic() - began < 5
        external.drop()
        wait_until_unlisted(api)
    assert server.stop() == 0


def test_nonsense_from_an_environment_does_not_end_the_broker(
    sandboxed: Sandboxed, make: Callable[..., Instance]
) -> None:
    api, intruder = Api(sandboxed), make()
    with ExternalEnv.to(api) as external:
        for op in (Op.EXTERNAL_LEASE, Op.EXTERNAL_CONNECT, Op.ACTION_SPACE):
            path = str(sandboxed.run / "broker.sock")
            assert attempt(intruder, "connect", path, op) == "ECONNREFUSED"
        assert listed_env(api) is not None
        external.drop()
        wait_until_unlisted(api)
    assert "the broker failed" not in sandboxed.stderr


def test_modules_beside_the_servers_own_folders_are_imported() -> None:
    server = Sandboxed("--allow-module", "own_envs", "--allow-module", "own_package")
    (server.base / "own_envs.py").write_text(MODULE)
    (server.base / "own_package").mkdir()
    (server.base / "own_package" / "__init__.py").write_text("from . import inner")
    (server.base / "own_package" / "inner.py").write_text(MODULE)
    with server:
        # Python lists a folder again once it has changed.
        (server.base / "new").touch()
        for name in ("own_envs", "own_package"):
            instance = Api(server).create(f"{name}:{name}/Own-v0")
            assert instance.reset()["observation"] == 0
            no_content(instance.close())
