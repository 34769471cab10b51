"""An instance of ``external/NAME`` starts the command that the server has for it."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import gymnasium
import psutil
import pytest

from gym_http_client import RemoteEnv, RemoteVectorEnv
from gym_http_server.external.provider import PATH
from tests.clients.command_tests import DEVICES, assert_refused
from tests.support.api import Api, error, ok
from tests.support.local_reference import assert_same_description, assert_same_episodes
from tests.support.peers import stdio_program
from tests.support.peers.agent_calls import answer_of, in_background
from tests.support.peers.external_env import ExternalEnv
from tests.support.peers.stdio_host import StdioHost
from tests.support.server import ROOT, Server
from tests.support.wait import wait_until

pytestmark = pytest.mark.live

PROGRAM = Path(stdio_program.__file__)
CART = """
import gymnasium
from gym_http_client import serve_env

print("printed at the start")

def make(**kwargs):
    env = gymnasium.make("CartPole-v1", **kwargs)
    print("printed by the environment")
    return env

serve_env(make, "stdio:", name="ignored")
"""


def flag(name: str, *words: str) -> tuple[str, str]:
    """Return the flag for a command that this Python executes."""
    return "--env-command", f"{name}={shlex.join([sys.executable, *words])}"


def flags(*hows: str) -> list[str]:
    """Return the flags for programs that misbehave, each under the name of how."""
    return [word for how in hows for word in flag(how, str(PROGRAM), how)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with commands of many kinds."""
    cart = tmp_path_factory.mktemp("cart") / "cart.py"
    # Prints before `serve_env` would be taken for messages.
    cart.write_text(CART.replace('print("printed at the start")', ""))
    with Server(
        *flags("good", "slow", "ends", "banner", "huge", "no-spaces"),
        *flags("killed", "closes", "prints", "children", "hangs"),
        *flag("cart", str(cart)),
        *("--env-command", "missing=/no/such/program --flag"),
        *("--env-command", f"unexecutable={PROGRAM}"),
    ) as server:
        yield server


def away(server: Server, name: str) -> str:
    """Return the message with which a create of a command is refused."""
    answer = Api(server).post("/v1/envs/", {"env_id": f"external/{name}"})
    return str(error(answer, 503, "external-away")["message"])


def programs(how: str) -> list[psutil.Process]:
    """Return the running programs of a kind, of any server."""
    found = []
    for each in psutil.process_iter(["cmdline"]):
        if each.info["cmdline"] and each.info["cmdline"][-2:] == [str(PROGRAM), how]:
            found.append(each)
    return found


@pytest.mark.filterwarnings("ignore")
def test_it_is_equal_to_the_same_made_here(server: Server) -> None:
    local = gymnasium.make("CartPole-v1")
    with RemoteEnv(server.url, "external/cart") as env:
        assert_same_description(env, local)
        assert_same_episodes(env, local)
    local.close()


def test_what_it_prints_is_in_the_log_of_the_instance(server: Server) -> None:
    instance = Api(server).create("external/cart")
    wait_until(lambda: "printed by the env" in instance.get("log/").body.decode())
    instance.close()


def test_the_command_has_its_variables_and_three_descriptors(server: Server) -> None:
    instance = Api(server).create("external/good/ALE/Pong-v5")
    info = instance.reset()["info"]
    assert info["environ"] == {"NAME": "good", "ENV_ID": "ALE/Pong-v5", "STDIO": "1"}
    assert info["descriptors"] == [0, 1, 2]
    instance.close()


def test_the_process_ends_with_the_instance(server: Server) -> None:
    instance = Api(server).create("external/good")
    process = psutil.Process(instance.reset()["info"]["pid"])
    assert process.ppid() == server.host(instance.id).pid
    instance.close()
    wait_until(lambda: not process.is_running())


def test_a_vector_starts_its_commands_side_by_side(server: Server) -> None:
    began = time.monotonic()
    single = Api(server).create("external/slow")
    alone = time.monotonic() - began
    single.close()
    began = time.monotonic()
    env = RemoteVectorEnv(server.url, "external/slow", num_envs=6)
    # One after the other, six would sleep 3 s.
    assert time.monotonic() - began < alone + 1.5
    env.reset()
    assert env.step([0] * 6)[0].tolist() == [1] * 6
    assert len(programs("slow")) == 6
    env.close()
    wait_until(lambda: not programs("slow"))


def test_a_vector_has_at_most_as_many_as_vectors_have_processes(
    make_server: Callable[..., Server],
) -> None:
    server = make_server(*flags("good"), "--max-vector-processes", "2")
    body = {"env_id": "external/good", "num_envs": 3}
    answer = error(Api(server).post("/v1/envs/", body), 400, "bad-parameter")
    assert "--max-vector-processes" in answer["message"]


def test_the_registry_lists_it_without_starting_it(server: Server) -> None:
    rows = ok(Api(server).get("/v1/registry/?search=external/good"))["envs"]
    (row,) = rows
    assert row["available"]
    assert row["reason"] is None
    assert row["external"]["command"] == "good"
    assert row["external"]["observation_space"] is None
    assert not programs("good")


def test_a_connection_of_its_name_is_refused(server: Server) -> None:
    with ExternalEnv(Api(server), name="good") as external:
        _, payload = external.websocket.read_frame()
    assert b"--env-python good=" in payload


def test_patterns_of_env_ids_hold_for_it(make_server: Callable[..., Server]) -> None:
    server = make_server(*flags("good"), "--allow-env", "external/good/A*")
    Api(server).create("external/good/A-v0").close()
    answer = Api(server).post("/v1/envs/", {"env_id": "external/good/B-v0"})
    error(answer, 403, "env-refused")


def test_other_names_with_an_id_are_unknown(server: Server) -> None:
    answer = Api(server).post("/v1/envs/", {"env_id": "external/other/A-v0"})
    error(answer, 400, "unknown-env")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing", "No such file or directory: '/no/such/program'"),
        ("unexecutable", "Permission denied"),
        ("ends", "exit status 3 after printing 'no module named simulator'"),
        ("banner", "b'Welcome to the simulator 3.1, built for speed"),
        ("banner", "prints must go to standard error"),
        ("huge", "announces 314572800 bytes"),
        ("no-spaces", "action_space: "),
    ],
)
def test_a_create_fails_with_the_reason(server: Server, name: str, words: str) -> None:
    began = time.monotonic()
    assert words in away(server, name)
    assert time.monotonic() - began < 20
    wait_until(lambda: not programs(name))


def test_the_server_warns_of_a_command_that_is_not_there(server: Server) -> None:
    wait_until(lambda: "external/missing" in server.stderr)
    assert "'/no/such/program'" in server.stderr
    assert "external/unexecutable" in server.stderr
    assert "external/good" not in server.stderr.split("made", maxsplit=1)[0]


def test_a_command_that_says_nothing_ends_at_the_deadline(
    make_server: Callable[..., Server],
) -> None:
    server = make_server(*flags("silent"), "--create-deadline", "1")
    message = away(server, "silent")
    assert "1 s allowed (--create-deadline)" in message
    assert "still loading" in message
    wait_until(lambda: not programs("silent"))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("killed", "SIGKILL) after printing 'about to crash'"),
        ("closes", "it ended the connection"),
        # Not what it prints when nobody reads its output any more.
        ("prints", "announces"),
        ("prints", "prints must go to standard error"),
    ],
)
def test_the_step_in_which_it_ends_says_how(
    server: Server, how: str, words: str
) -> None:
    instance = Api(server).create(f"external/{how}")
    instance.reset()
    answer = error(instance.post("step/", {"action": 1}), 502, "env-crashed")
    assert words in answer["message"]
    error(instance.post("step/", {"action": 1}), 410, "instance-ended")
    wait_until(lambda: not programs(how))


def test_a_command_that_reads_nothing_loses_its_instance(
    make_server: Callable[..., Server],
) -> None:
    server = make_server(*flags("deaf"), "--external-deadline", "5")
    instance = Api(server).create("external/deaf")
    instance.reset()
    began = time.monotonic()
    answer = instance.post("step/", {"action": [0] * 1_000_000})
    assert 5 <= time.monotonic() - began < 15
    message = error(answer, 502, "env-crashed")["message"]
    assert message.endswith("it does not read what is sent to it'")
    error(instance.post("step/", {"action": 1}), 410, "instance-ended")
    wait_until(lambda: not programs("deaf"))


def test_processes_that_it_started_are_gone_with_it(server: Server) -> None:
    instance = Api(server).create("external/children")
    instance.reset()
    instance.step(1)
    host = server.host(instance.id)
    (child,) = [e for e in host.children(recursive=True) if e.name() == "sleep"]
    instance.close()
    wait_until(lambda: not child.is_running(), 3.0)


@pytest.mark.parametrize("end", ["host", "supervisor"])
def test_what_it_has_left_may_end_by_itself(
    launch_server: Callable[..., Server], tmp_path: Path, end: str
) -> None:
    tidied = tmp_path / "tidied"
    server = launch_server(*flag("leaves", str(PROGRAM), "leaves", str(tidied)))
    server.wait_listening()
    instance = Api(server).create("external/leaves")
    ended = server.host(instance.id) if end == "host" else server.supervisor
    ended.kill()
    wait_until(tidied.exists, 3.0)


def test_it_is_gone_in_the_middle_of_a_step(server: Server) -> None:
    instance = Api(server).create("external/hangs")
    instance.reset()
    future = in_background(instance.post, "step/", {"action": 1})
    wait_until(lambda: programs("hangs"))
    os.kill(server.host(instance.id).pid, 9)
    error(answer_of(future), 502, "env-crashed")
    wait_until(lambda: not programs("hangs"))


def test_the_server_has_the_provider_in_one_file(server: Server) -> None:
    answer = Api(server).get("/v1/external/client/gym_serve_stdio.py")
    assert answer.status == 200
    assert answer.content_type == "text/x-python; charset=utf-8"
    command = [sys.executable, "-m", "gym_http_server", "provider"]
    path = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert Path(path.strip()).read_bytes() == answer.body


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["good"], "expected NAME=COMMAND"),
        (["=true"], "expected NAME=COMMAND"),
        (["a/b=true"], "expected NAME=COMMAND"),
        (["good="], "expected a command"),
        (["good=''"], "expected a command"),
        (["good='true"], "No closing quotation"),
        (["good=true", "good=false"], "good is a command already"),
    ],
)
def test_a_malformed_setting_stops_the_start(
    launch_server: Callable[..., Server], given: list[str], words: str
) -> None:
    server = launch_server(*(w for each in given for w in ("--env-command", each)))
    assert server.wait_exit() == 1
    assert f"--env-command is {given[-1]!r}" in server.stderr
    assert words in server.stderr


@pytest.mark.parametrize("given", ["old=", "old=python:module", "old=python::make"])
def test_a_malformed_python_stops_the_start(
    launch_server: Callable[..., Server], given: str
) -> None:
    server = launch_server("--env-python", given)
    assert server.wait_exit() == 1
    assert f"--env-python is {given!r}" in server.stderr
    assert "NAME=PYTHON:MODULE:FACTORY" in server.stderr


def test_the_variable_has_one_command_a_line(
    make_server: Callable[..., Server],
) -> None:
    commands = "\n".join(flag(name, str(PROGRAM), "a,b")[1] for name in ("x", "y"))
    server = make_server(env={"GHS_ENV_COMMAND": commands})
    for name in ("x", "y"):
        Api(server).create(f"external/{name}").close()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_many_instances_and_kills_leave_nothing(
    make_server: Callable[..., Server],
) -> None:
    server = make_server(*flags("good"))
    api, random = Api(server), Random(3)

    def make_and_close(count: int) -> None:
        for _ in range(count):
            api.create("external/good").close()

    def settle() -> None:
        wait_until(lambda: not programs("good"))
        wait_until(lambda: not server.environments())

    # The archiver starts with the first instance that ends after a step, and stays.
    first = api.create("external/good")
    first.reset()
    first.step(1)
    first.close()
    wait_until(lambda: server.services("archiver"))
    make_and_close(20)
    settle()
    descriptors = server.supervisor_descriptors()
    memory = server.supervisor.memory_info().rss
    make_and_close(80)
    for _ in range(15):
        create = in_background(api.post, "/v1/envs/", {"env_id": "external/good"})
        (program,) = wait_until(lambda: programs("good"))
        time.sleep(random.uniform(0, 0.05))
        program.kill()
        answer = answer_of(create)
        assert answer.status in (200, 502, 503), answer
        wait_until(lambda: not api.instances())
    settle()
    # The last instances may wait for the archiver, with a descriptor each.
    wait_until(lambda: server.supervisor_descriptors() <= descriptors)
    assert server.supervisor.memory_info().rss < memory + 4 * 1024 * 1024


@pytest.mark.parametrize("end", ["supervisor", "launcher", "both"])
def test_commands_end_with_the_server(
    launch_server: Callable[..., Server], end: str
) -> None:
    server = launch_server(*flags("good", "hangs"))
    server.wait_listening()
    idle = Api(server).create("external/good")
    busy = Api(server).create("external/hangs")
    pids = [each.reset()["info"]["pid"] for each in (idle, busy)]
    in_background(busy.post, "step/", {"action": 1})
    found = [psutil.Process(pid) for pid in pids]
    supervisor = server.supervisor
    if end == "both":
        # So that neither can end what the other leaves.
        os.kill(server.pid, signal.SIGSTOP)
    if end != "launcher":
        supervisor.kill()
    if end != "supervisor":
        os.kill(server.pid, signal.SIGKILL)
    wait_until(lambda: not any(each.is_running() for each in found), 3.0)
    server.wait_exit()
    if end == "both":
        # As the next server would do.
        for folder in server.run_dir.iterdir():
            shutil.rmtree(folder)


def test_a_create_in_the_sandbox_names_its_setting(
    make_server: Callable[..., Server],
) -> None:
    server = make_server(*flags("ends"), "--sandbox", "on", parent="/var/tmp")
    assert "--sandbox off" in away(server, "ends")


SLEEPER = """
import os, sys, time
import gymnasium

class Sleeper(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        print("a step begins", flush=True)
        time.sleep(600)

if __name__ == "__main__":
    from gym_http_client import serve_env
    serve_env(Sleeper, "stdio:", name="sleeper", dialect="typed")
"""


@pytest.mark.parametrize("way", ["serve_env", "gym_serve_stdio"])
def test_a_provider_ends_with_its_input_in_the_middle_of_a_step(
    tmp_path: Path, way: str
) -> None:
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    words = ["sleeper.py"] if way == "serve_env" else [PATH, "sleeper:Sleeper"]
    places = [str(ROOT), str(ROOT / "clients" / "python")]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    with StdioHost([sys.executable, *words], cwd=tmp_path, env=environ) as host:
        host.welcome()
        host.request("init")
        host.request("reset")
        host.begin("step", action=1)
        host.wait_for_line("a step begins")
        host.end_input()
        status, output, _ = host.wait_exit()
    assert status == 0
    # What the environment printed is no message.
    assert output == b""


@pytest.mark.parametrize("device", DEVICES)
def test_serve_env_refuses_a_device(tmp_path: Path, device: str) -> None:
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    path = os.pathsep.join([str(ROOT), str(ROOT / "clients" / "python")])
    environ = {**os.environ, "PYTHONPATH": path}
    words = [sys.executable, "sleeper.py"]
    assert_refused(words, device, cwd=tmp_path, env=environ)
