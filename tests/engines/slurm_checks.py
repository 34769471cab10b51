"""deploy/slurm in a real Slurm: a controller, and three nodes on this machine."""

import contextlib
import getpass
import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.support.api import Api, Instance, no_content, ok
from tests.support.drivers import needs
from tests.support.fleet import TOKEN, redis_server
from tests.support.server import ROOT
from tests.support.wait import wait_until

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

PASSWORD = "password-of-the-store"
SCRIPT = ROOT / "deploy" / "slurm" / "gym.sbatch"
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
SlurmctldPort={ports[0]}
StateSaveLocation={folder}
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
NodeName=n[1-3] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{ports[1]}-{ports[3]}]
PartitionName=all Nodes=ALL Default=YES State=UP
"""


@dataclass
class Address:
    """A server as its clients reach it."""

    port: int
    token: str


@dataclass
class Cluster:
    """A Slurm, with an array of three servers in it."""

    folder: Path
    environment: dict[str, str]
    apis: list[Api]
    job: str = ""

    def submit(self) -> None:
        """Submit the array: a task for each node."""
        options = (f"--chdir={self.folder}", "--cpus-per-task=1", "--exclusive")
        words = ("sbatch", "--parsable", "--array=0-2", *options, str(SCRIPT))
        self.job = self.run(*words, "--workers=1").strip()

    def run(self, *words: str) -> str:
        """Run a command of Slurm, and return its output."""
        done = subprocess.run(
            words, env=self.environment, capture_output=True, check=True, text=True
        )
        return done.stdout

    def log(self, task: int) -> str:
        """Return what a server, and the script around it, have said."""
        return (self.folder / f"gym-{self.job}-{task}.log").read_text()

    def running(self) -> set[str]:
        """Return the tasks that Slurm runs."""
        listed = self.run("squeue", "--noheader", "--format=%K", f"--jobs={self.job}")
        return set(listed.split())


def free_ports(count: int) -> int:
    """Return the first of so many free ports in a row."""
    for first in range(20_000, 32_000, count):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + count):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            return first
    raise AssertionError("no free ports")


@contextlib.contextmanager
def daemons(folder: Path, first: int) -> Iterator[dict[str, str]]:
    """Run a controller and three nodes; yield the environment of commands.

    Args:
        folder: For their files.
        first: The first of their four ports.
    """
    configuration = folder / "slurm.conf"
    text = CONFIGURATION.format(
        host=socket.gethostname().partition(".")[0],
        user=getpass.getuser(),
        folder=folder,
        ports=range(first, first + 4),
    )
    configuration.write_text(text)
    commands = [["slurmctld"], *(["slurmd", "-N", f"n{each}"] for each in (1, 2, 3))]
    with contextlib.ExitStack() as stack, (folder / "daemons").open("wb") as output:
        for command in commands:
            command += ["-D", "-f", str(configuration)]
            process = subprocess.Popen(command, stdout=output, stderr=output)
            stack.callback(process.wait, 20)
            stack.callback(process.terminate)
        yield {**os.environ, "SLURM_CONF": str(configuration)}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A Slurm with three nodes, and a server on each."""
    with pytest.MonkeyPatch.context() as patch:
        # Debian puts some of it where only root looks for programs.
        patch.setenv("PATH", f"{os.environ['PATH']}:/usr/sbin")
        needs("slurmctld", "slurmd", "sbatch")
        folder = tmp_path_factory.mktemp("slurm")
        home = folder / "home" / ".gym"
        home.mkdir(parents=True)
        (home / "fleet-token").write_text(TOKEN)
        words = [ROOT / ".venv/bin/gym-http-server", "token", "ops", "--scopes=admin"]
        made = subprocess.run(words, capture_output=True, check=True, text=True)
        (home / "tokens").write_text(made.stdout)
        token = made.stderr.split()[-1]
        port = free_ports(7)
        servers = [Address(each, token) for each in range(port, port + 3)]
        with redis_server() as redis, daemons(folder, port + 3) as environment:
            redis.command("config", "set", "requirepass", PASSWORD)
            environment |= {
                "HOME": str(home.parent),
                "PATH": f"{ROOT / '.venv/bin'}:{environment['PATH']}",
                "GYM_FIRST_PORT": str(port),
                "GHS_FLEET": redis.url.replace("//", f"//:{PASSWORD}@"),
            }
            cluster = Cluster(folder, environment, list(map(Api, servers)))  # type: ignore[arg-type]
            wait_until(lambda: "idle" in cluster.run("sinfo"), 30.0, "the nodes")
            cluster.submit()
            try:
                wait_until(
                    lambda: all(joined(cluster, task) for task in range(3)), 60.0
                )
                yield cluster
            finally:
                cluster.run("scancel", "--batch", "--signal=TERM", cluster.job)
                wait_until(lambda: cluster.running() == set(), 60.0, "the ends")


def joined(cluster: Cluster, task: int, times: int = 1) -> bool:
    """Whether a server has joined the fleet so many times."""
    with contextlib.suppress(FileNotFoundError):
        return cluster.log(task).count("joined the fleet") == times
    return False


def make(cluster: Cluster, at: int, node: int) -> Instance:
    """Make an instance on a node, by another one, once that knows it."""

    def made() -> Instance | None:
        body = {"env_id": "CartPole-v1", "node": f"gym-{node}"}
        answer = cluster.apis[at].post("/v1/envs/", body)
        if answer.status != 200:
            return None
        return Instance(cluster.apis[at], ok(answer)["instance_id"])

    return wait_until(made, 20.0, f"an instance on gym-{node}")


def launcher(cluster: Cluster, task: int) -> psutil.Process:
    """Return the process of a server."""
    title = f"gym: launcher http://0.0.0.0:{cluster.apis[task].server.port}"
    listed = psutil.process_iter(["cmdline"])
    (found,) = (each for each in listed if title in (each.info["cmdline"] or ()))
    return found


def test_servers_that_were_killed_are_started_again(cluster: Cluster) -> None:
    before = [make(cluster, 0, node) for node in (1, 2)]
    for node in (1, 2):
        launcher(cluster, node).kill()
    for node in (1, 2):
        wait_until(lambda node=node: joined(cluster, node, 2), 20.0, "the server")
    after = [make(cluster, 0, node) for node in (1, 2)]
    # Each goes on with its number, and with the count of its IDs.
    assert [each.id[:3] for each in before] == [each.id[:3] for each in after]
    assert not {each.id for each in before} & {each.id for each in after}
    for each in after:
        no_content(each.close())
    assert cluster.running() == {"0", "1", "2"}


def test_scancel_drains(cluster: Cluster) -> None:
    instance = make(cluster, 0, 2)
    instance.reset(seed=1)
    cluster.run("scancel", "--batch", "--signal=TERM", f"{cluster.job}_2")
    wait_until(lambda: "stopping" in cluster.log(2), 10.0, "the drain")
    instance.step(1)
    assert "2" in cluster.running()
    no_content(instance.close())
    wait_until(lambda: cluster.running() == {"0", "1"}, 30.0, "the end")
    assert not joined(cluster, 2, 3)
    logs = "".join(map(cluster.log, range(3)))
    token = cluster.apis[0].server.token
    assert not any(each in logs for each in (TOKEN, PASSWORD, str(token)))
