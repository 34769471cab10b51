"""The reports of exceptions and crashes for the author of an environment."""

import contextlib
import gc
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gym_http_client import Client, RemoteEnv, RemoteVectorEnv, ServerError
from gym_http_client import Server as Address
from tests.support import api as calls
from tests.support.api import Api
from tests.support.peers.watcher import Watcher
from tests.support.server import Server
from tests.support.token_file import api_of, write_file
from tests.support.wait import wait_until
from tests.support.websocket import TEXT

UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}
SOURCE = '''\
import ctypes

import gymnasium
import numpy as np


class Faulty(gymnasium.Env):
    """Fails in a way of its own for each action."""

    metadata = {"render_modes": []}
    action_space = gymnasium.spaces.Discrete(9)
    observation_space = gymnasium.spaces.Discrete(2)

    def __init__(self, fail=False, render_mode=None):
        self.render_mode = render_mode
        if fail:
            raise KeyError("made")  # line 17

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if options:
            raise ValueError("reset")  # line 22
        return 0, {}

    def step(self, action):
        if action == 1:
            self.divide(0)  # line 27
        if action == 2:
            ctypes.string_at(0)  # line 29
        if action == 3:
            raise RuntimeError("x" * 100_000 + " the end")
        return 1, 1.0, False, False, {}

    def divide(self, number):
        return 1 // number  # line 35


class Moody(Faulty):
    """Cannot be described any more once it is broken."""

    broken = False

    def __init__(self, render_mode=None):
        pass

    @property
    def render_mode(self):
        if self.broken:
            raise RuntimeError("moody")
        return None


gymnasium.register("Faulty-v0", Faulty)
gymnasium.register("Moody-v0", Moody)
'''


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with an environment, in a directory that no module is looked for in."""
    path = tmp_path_factory.mktemp("envs") / "my_envs.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture(scope="module")
def server(path: Path) -> Iterator[Server]:
    """A server that imports the file by its path."""
    with Server("--import", str(path)) as server:
        # Its broker is a process that stays.
        Api(server).post("/v1/external/")
        yield server


@pytest.fixture(autouse=True)
def collected(nothing_left_behind: None) -> Iterator[None]:
    """Collect the objects that exceptions hold, such as sockets of clients."""
    yield
    gc.collect()


def shown(error: BaseException) -> str:
    """Return the text that Python prints for an uncaught exception."""
    return "".join(traceback.format_exception(error))


def assert_frames(error: BaseException, path: Path, *frames: tuple[int, str]) -> None:
    """Check that Python's text of an error has each frame, file and line."""
    text = shown(error)
    for line, function in frames:
        assert f'File "{path}", line {line}, in {function}' in text


@pytest.mark.parametrize("streams", [True, False])
def test_python_shows_the_file_and_the_line(
    server: Server, path: Path, streams: bool
) -> None:
    env = RemoteEnv(Address(server.url, streams=streams), "Faulty-v0")
    env.reset()
    env.step(0)
    with pytest.raises(ZeroDivisionError, match="by zero") as step:
        env.step(1)
    assert_frames(step.value, path, (27, "step"), (35, "divide"))
    (note,) = step.value.__notes__
    assert "return 1 // number" in note
    # The server's own frames do not help the author.
    assert "gym_http_core" not in note
    assert "gym_http_wire" not in note
    assert "gym_http_server" not in note
    with pytest.raises(ValueError, match="reset") as reset:
        env.reset(options={"any": 1})
    assert_frames(reset.value, path, (22, "reset"))
    with pytest.raises(ZeroDivisionError) as called:
        env.unwrapped.divide(0)
    assert_frames(called.value, path, (35, "divide"))
    env.close()
    with pytest.raises(Exception, match="made") as made:
        RemoteEnv(server.url, "Faulty-v0", fail=True)
    assert_frames(made.value, path, (17, "__init__"))


@pytest.mark.parametrize("hosts", [1, 2])
def test_so_it_is_with_vectors(server: Server, path: Path, hosts: int) -> None:
    vector = RemoteVectorEnv(server.url, "Faulty-v0", num_envs=2, hosts=hosts)
    vector.reset()
    with pytest.raises(ZeroDivisionError) as caught:
        vector.step([0, 1])
    assert_frames(caught.value, path, (27, "step"), (35, "divide"))
    vector.close()


def test_so_it_is_with_the_thin_client(server: Server, path: Path) -> None:
    client = Client(server.url)
    instance_id = client.env_create("Faulty-v0")
    client.env_reset(instance_id)
    with pytest.raises(ServerError) as step:
        client.env_step(instance_id, 1)
    with pytest.raises(ServerError) as batch:
        client.rollout(instance_id, actions=[[0, 1]])
    for caught in (step, batch):
        assert_frames(caught.value, path, (27, "step"), (35, "divide"))
    client.env_close(instance_id)
    client.close()


def test_rest_has_it_as_a_member_and_the_message_stays(
    server: Server, path: Path
) -> None:
    instance = Api(server).create("Faulty-v0")
    instance.reset()
    error = calls.error(instance.post("step/", {"action": 1}), 502, "env-error")
    assert error["message"] == (
        "the environment raised ZeroDivisionError in step: "
        "integer division or modulo by zero"
    )
    lines = error["traceback"].splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "ZeroDivisionError: integer division or modulo by zero"
    assert f'  File "{path}", line 35, in divide' in lines
    instance.reset()
    long = calls.error(instance.post("step/", {"action": 3}), 502, "env-error")
    assert len(long["traceback"].encode()) <= 16 * 1024
    assert long["traceback"].endswith("the end\n")
    calls.no_content(instance.close())


def test_the_servers_log_has_it_with_the_instance(server: Server, path: Path) -> None:
    instance = Api(server).create("Faulty-v0")
    instance.reset()
    calls.error(instance.post("step/", {"action": 1}), 502, "env-error")

    def logged() -> bool:
        _, found, after = server.stderr.partition(f"{instance.id} (Faulty-v0): ")
        return bool(found) and f'File "{path}", line 35, in divide' in after

    wait_until(logged, 10.0, "the traceback in the log")
    calls.no_content(instance.close())


def test_a_crash_begins_with_the_failing_frame(server: Server, path: Path) -> None:
    instance = Api(server).create("Faulty-v0")
    instance.reset()
    error = calls.error(instance.post("step/", {"action": 2}), 502, "env-crashed")
    first, second = error["log_tail"].splitlines()[:2]
    assert first.endswith("in string_at")
    assert second == f'File "{path}", line 29 in step'
    assert "Fatal Python error: Segmentation fault" in error["log_tail"]
    assert "Extension modules" not in error["log_tail"]
    # Without the folder, which is the server's.
    assert "in string_at (__init__.py, line " in error["message"]
    env = RemoteEnv(server.url, "Faulty-v0")
    env.reset()
    with pytest.raises(ServerError) as caught:
        env.step(2)
    assert "in string_at (__init__.py, line " in str(caught.value)
    assert second in shown(caught.value)
    with contextlib.suppress(ServerError):
        env.close()


def test_no_tracebacks_leaves_them_out_of_answers(
    make_server: Callable[..., Server], path: Path
) -> None:
    server = make_server("--no-tracebacks", "--import", str(path))
    api = Api(server)
    instance = api.create("Faulty-v0")
    instance.reset()
    error = calls.error(instance.post("step/", {"action": 1}), 502, "env-error")
    made = calls.error(
        api.post("/v1/envs/", {"env_id": "Faulty-v0", "kwargs": {"fail": True}}), 400
    )
    crash = calls.error(instance.post("step/", {"action": 2}), (409, 502))
    instance.reset()
    crash = calls.error(instance.post("step/", {"action": 2}), 502, "env-crashed")
    logs = [each.get("log/") for each in (instance, api.create("Faulty-v0"))]
    assert "logs" not in calls.ok(api.get("/v1/"))["capabilities"]
    hidden = [calls.error(each, 403, "logs-disabled") for each in logs]
    listed = calls.ok(api.get("/v1/instances/"))["ended"]
    events = calls.ok(api.get("/v1/events/"))["events"]
    for each in (error, made, crash, *hidden, *listed, *events):
        assert "my_envs.py" not in str(each)
        assert ".py" not in str(each)
    assert [each["log"] for each in listed] == [None]
    assert "crashed (SIGSEGV)" in [each["reason"] for each in events]
    assert error["error_type"] == "ZeroDivisionError"
    wait_until(
        lambda: f'File "{path}", line 35, in divide' in server.stderr,
        10.0,
        "the traceback in the log",
    )


def test_watchers_without_scope_see_no_code(
    make_server: Callable[..., Server], path: Path, tmp_path: Path
) -> None:
    server = make_server("--tokens", write_file(tmp_path), "--import", str(path))
    ada = api_of(server, "ada").create("Faulty-v0")
    shown = ada.api.headers["Authorization"]
    path_of_stream = ada.path("stream?watch=1")
    watching = Watcher.to(
        ada, path=path_of_stream, sec_websocket_protocol=TEXT, authorization=shown
    )
    with watching as watcher:
        ada.reset()
        watcher.copy()
        error = calls.error(ada.post("step/", {"action": 1}), 502, "env-error")
        assert "my_envs.py" in error["traceback"]
        copy = watcher.copy()
    assert copy["status"] == 502
    assert "my_envs.py" not in str(copy)
    calls.no_content(ada.close())


def test_a_token_that_may_only_read_finds_code_in_the_log_alone(
    make_server: Callable[..., Server], path: Path, tmp_path: Path
) -> None:
    server = make_server("--tokens", write_file(tmp_path), "--import", str(path))
    root, reader = api_of(server, "root"), api_of(server, "reader")
    made = root.create("Moody-v0", **{"for": "reader"})
    made.reset()
    calls.ok(made.post("attributes/broken/", {"value": True}))
    assert "my_envs.py" in calls.error(made.get(""), 502, "env-error")["traceback"]
    error = calls.error(reader.get(made.path()), 502, "env-error")
    assert (error["text"], "traceback" in error) == ("moody", False)
    assert "my_envs.py" not in str(error)
    logged = reader.get(made.path("log/"))
    assert (logged.status, "my_envs.py" in logged.text) == (200, True)
    crash = calls.error(made.post("step/", {"action": 2}), 502, "env-crashed")
    assert "my_envs.py" in crash["log_tail"]
    for query in ("", "?watch=1", "?watch=1&lost=1"):
        answer = reader.get(made.path(f"stream{query}"), headers=UPGRADE)
        assert "my_envs.py" not in str(calls.error(answer, (403, 410, 502)))
    for rest in ("", "action_space/", "monitor/"):
        answer = reader.get(made.path(rest))
        assert "my_envs.py" not in str(calls.error(answer, 410, "instance-ended"))
    assert "my_envs.py" in reader.get(made.path("log/")).text


def test_the_traceback_of_a_provided_environment_reaches_the_agent(
    server: Server, path: Path
) -> None:
    words = (
        "import sys; sys.path.insert(0, sys.argv[2]); import my_envs, gymnasium;"
        "from gym_http_client import serve_env;"
        "serve_env(gymnasium.make('Faulty-v0'), sys.argv[1], name='faulty')"
    )
    provider = subprocess.Popen(
        [sys.executable, "-c", words, server.url, str(path.parent)]
    )
    try:
        env = RemoteEnv(server.url, "external/faulty", wait_s=30.0)
        env.reset()
        with pytest.raises(ZeroDivisionError) as caught:
            env.step(1)
        assert_frames(caught.value, path, (27, "step"), (35, "divide"))
        env.close()
    finally:
        provider.terminate()
        provider.wait(10)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("\nx = {}\nx['y']\n", "KeyError: 'y' ({path}, line 3)"),
        ("\ndef f(:\n", "SyntaxError: invalid syntax ({path}, line 2)"),
    ],
)
def test_a_module_that_fails_shows_file_and_line(
    launch_server: Callable[..., Server], tmp_path: Path, source: str, words: str
) -> None:
    broken = tmp_path / "broken_envs.py"
    broken.write_text(source)
    server = launch_server("--import", str(broken))
    assert server.wait_exit() == 1
    assert words.format(path=broken) in server.stderr


THREADED = """\
import threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
"""


def test_a_path_is_found_by_fresh_interpreters_too(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    (tmp_path / "my_threads.py").write_text(
        THREADED + SOURCE.replace("Faulty-v0", "Threads-v0")
    )
    server = make_server("--import", str(tmp_path / "my_threads.py"))
    instance = Api(server).create("Threads-v0")
    instance.reset()
    error = calls.error(instance.post("step/", {"action": 1}), 502, "env-error")
    assert "my_threads.py" in error["traceback"]
    calls.no_content(instance.close())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("absent.py", "expected a module's name, as my_envs, or the path"),
        ("my-envs.py", "rename the file"),
        ("random.py", "another module is named 'random'"),
    ],
)
def test_a_path_that_cannot_be_imported_is_refused(
    launch_server: Callable[..., Server], tmp_path: Path, name: str, words: str
) -> None:
    if name != "absent.py":
        (tmp_path / name).write_text("")
    server = launch_server("--import", str(tmp_path / name))
    assert server.wait_exit() == 1
    assert words in server.stderr
