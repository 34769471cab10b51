"""With --host-user, environments of a server that runs as root run as that user."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gym_http_wire.messages import Op
from tests.support.api import Api, Instance, no_content, ok
from tests.support.intruder_calls import INTRUDER, attempt
from tests.support.peers.agent_calls import answer_of, in_background
from tests.support.peers.external_env import ExternalEnv
from tests.support.server import Server

USER, UID = "nobody", 65534

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        os.geteuid() != 0 and not os.environ.get("CI"), reason="needs root"
    ),
]


# An interpreter below a closed home, as pyenv's, is opened to others for one process.
OPENED = """
set -e
mount --bind "$2" /mnt
mount -t tmpfs -o mode=755 none "$1"
mkdir -p "$2"
mount --bind /mnt "$2"
shift 2
exec "$@"
"""


def opened() -> tuple[str, ...]:
    """Return the command that starts another with a Python that all can read."""
    prefix = Path(sys.base_prefix)
    for folder in reversed(prefix.parents):
        if not folder.stat().st_mode & 0o001:
            return ("unshare", "-m", "sh", "-c", OPENED, "sh", str(folder), str(prefix))
    return ()


class ForAnother(Server):
    """A server whose environments run as nobody."""

    def __init__(self, *args: str, **options: Any) -> None:
        flags = ("--host-user", USER, "--import", "tests.support.envs.intruder")
        super().__init__(*flags, *args, prefix=opened(), **options)
        self.base.chmod(0o711)
        self.run_dir.chmod(0o711)
        # Now, since the sandbox permits no reads of new entries beside it.
        self.program = self.base / "id"
        shutil.copy(shutil.which("id") or "id", self.program)
        self.program.chmod(0o4755)


@pytest.fixture(scope="module", params=["off", "on"])
def server(request: pytest.FixtureRequest) -> Iterator[ForAnother]:
    """A server that runs as root, its environments as nobody."""
    with ForAnother("--sandbox", request.param) as started:
        # The broker starts when it is first needed, and stays.
        Api(started).post("/v1/external/")
        yield started


def test_environments_run_as_that_user(server: Server) -> None:
    assert "SERVING AS ROOT" not in server.stderr
    intruder = Api(server).create(INTRUDER)
    assert attempt(intruder, "status", "Uid").split() == [str(UID)] * 4
    assert attempt(intruder, "status", "Gid").split() == [str(UID)] * 4
    assert set(attempt(intruder, "status", "Groups").split()) <= {str(UID)}
    assert attempt(intruder, "status", "CapEff") == "0" * 16
    assert attempt(intruder, "death_signal") == 9
    assert attempt(intruder, "write", "file") is None
    folder = next(server.run_dir.iterdir())
    socket = str(folder / "supervisor.sock")
    assert attempt(intruder, "connect", socket, Op.LIST) == "EACCES"
    for path in (folder / intruder.id / "log", folder / "intruder"):
        assert attempt(intruder, "write", str(path)) == "EACCES"
    assert attempt(intruder, "kill", server.pid) == "EPERM"
    no_content(intruder.close())


def test_programs_with_the_set_user_id_bit_gain_nothing(server: ForAnother) -> None:
    program = server.program
    normal = subprocess.run([program, "-u"], capture_output=True, check=True, user=UID)
    if normal.stdout.strip() != b"0":
        pytest.skip("the temporary directory is mounted with nosuid")
    intruder = Api(server).create(INTRUDER)
    assert attempt(intruder, "run", str(program), "-u") == str(UID)
    no_content(intruder.close())


def test_external_environments_are_reached(server: Server) -> None:
    api = Api(server)
    with ExternalEnv.to(api) as external:
        future = in_background(api.post, "/v1/envs/", {"env_id": "external/game"})
        external.answer("init")
        no_content(Instance(api, ok(answer_of(future))["instance_id"]).close())


def test_serving_as_root_is_warned_about(make_server: Callable[..., Server]) -> None:
    assert make_server().stderr.count("SERVING AS ROOT") == 1


def test_users_that_cannot_be(
    launch_server: Callable[..., Server],
) -> None:
    unknown = launch_server("--host-user", "no-such-user")
    root = launch_server("--host-user", "root")
    for server, words in (
        (unknown, "expected the name of a user"),
        (root, "expected another user"),
    ):
        assert server.wait_exit() == 1
        assert words in server.stderr
        assert "Traceback" not in server.stderr


def test_a_run_directory_that_the_user_cannot_reach() -> None:
    server = ForAnother("--sandbox", "off")
    try:
        server.run_dir.chmod(0o700)
        server.launch()
        assert server.wait_exit() == 1
        assert f"cannot reach {server.run_dir}" in server.stderr
        assert "Traceback" not in server.stderr
    finally:
        server.end()


def test_only_root_can_run_environments_as_another() -> None:
    done = subprocess.run(
        [
            *(*opened(), "setpriv", f"--reuid={UID}", f"--regid={UID}"),
            *("--clear-groups", sys.executable, "-m", "gym_http_server", "serve"),
            *("--host-user", "daemon"),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env={"HOME": "/", "PATH": os.environ["PATH"]},
    )
    assert done.returncode == 1
    assert "only root" in done.stderr
    assert "Traceback" not in done.stderr
