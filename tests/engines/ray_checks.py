"""The command ``ray`` in a real Ray, which runs on this machine for the test."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import requests

from tests.support.fleet import TOKEN, Redis, redis_server
from tests.support.server import ROOT
from tests.support.wait import wait_until

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]
pytest.importorskip("ray", reason="Ray is not installed")

PASSWORD = "password-of-the-store"


@dataclass
class Command:
    """The command, and the files of its Ray."""

    process: subprocess.Popen[bytes]
    output: Path
    logs: Path
    token: str

    @property
    def text(self) -> str:
        """What it has printed."""
        return self.output.read_text()

    def urls(self, server: int) -> list[str]:
        """Return the addresses that it has printed of a server."""
        return re.findall(rf"ray-{server}: listening on (\S+)", self.text)

    def server_log(self) -> str:
        """Return what the servers have printed, from Ray's logs of their actors."""
        files = self.logs.glob("ray/session_2*/logs/worker-*.out")
        return "".join(each.read_text() for each in files)


@contextlib.contextmanager
def running(redis: Redis, folder: Path) -> Iterator[Command]:
    """Run the command, with two servers."""
    (folder / "fleet-token").write_text(TOKEN)
    words = [sys.executable, "-m", "gym_http_server"]
    made = subprocess.run(
        [*words, "token", "ops", "--scopes=admin"], capture_output=True, check=True
    )
    (folder / "tokens").write_bytes(made.stdout)
    # Paths of sockets are short.
    with (
        tempfile.TemporaryDirectory(prefix="ghst-") as logs,
        (folder / "output").open("wb") as output,
    ):
        variables = {
            "GHS_FLEET": redis.url.replace("//", f"//:{PASSWORD}@"),
            "GHS_FLEET_TOKEN_FILE": str(folder / "fleet-token"),
            "GHS_TOKENS": str(folder / "tokens"),
            "GHS_DATA_DIR": str(folder / "data"),
            "PYTHONUNBUFFERED": "1",
            "RAY_TMPDIR": logs,
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        words += ["ray", "--nodes=2", "--cpus=0.5", "--", "--fleet-plain"]
        process = subprocess.Popen(
            [*words, "--workers=1"],
            cwd=ROOT,
            env={**os.environ, **variables},
            stdout=output,
            stderr=output,
        )
        token = made.stderr.decode().split()[-1]
        command = Command(process, folder / "output", Path(logs), token)
        try:
            listening = lambda: command.urls(0) and command.urls(1)  # noqa: E731
            wait_until(listening, 45.0, "the servers")
            yield command
        finally:
            process.terminate()
            process.wait(60.0)


def launchers() -> dict[str, psutil.Process]:
    """Return the servers of this machine, by their addresses."""
    listed = psutil.process_iter(["cmdline"])
    titles = {" ".join(each.info["cmdline"] or ()).strip(): each for each in listed}
    start = "gym: launcher "
    return {k.removeprefix(start): p for k, p in titles.items() if k.startswith(start)}


def numbers(command: Command, server: int) -> list[str]:
    """Return the numbers with which a server has joined."""
    pattern = rf"joined the fleet at \S+ as ray-{server}, number (\w+)"
    return re.findall(pattern, command.server_log())


def test_servers_are_watched_and_end(tmp_path: Path) -> None:
    with redis_server() as redis:
        redis.command("config", "set", "requirepass", PASSWORD)
        with running(redis, tmp_path) as command:
            check_a_killed_server(command)
            check_a_killed_actor(command)
            check_secrets(command)
            urls = {*command.urls(0), *command.urls(1)}
            assert urls & launchers().keys()
            command.process.send_signal(signal.SIGINT)
            assert command.process.wait(60.0) == 0
            assert "ray-0: stopped" in command.text
            assert not urls & launchers().keys()


def check_a_killed_server(command: Command) -> None:
    (url,) = command.urls(0)
    assert url != command.urls(1)[0]
    assert "//127." not in url
    wait_until(lambda: numbers(command, 0), 10.0, "its log")
    headers = {"Authorization": f"Bearer {command.token}"}
    for host in (url, *command.urls(1)):
        body = {"env_id": "CartPole-v1", "node": "ray-0"}
        assert requests.post(f"{host}/v1/envs/", json=body, headers=headers).ok
    launchers()[url].kill()
    wait_until(lambda: command.urls(0) == [url, url], 20.0, "the server")
    assert "ray-0: its server ended with status -9" in command.text
    # Its data directory has its number.
    wait_until(lambda: len(numbers(command, 0)) == 2, 10.0, "its log")
    assert len(set(numbers(command, 0))) == 1


def check_a_killed_actor(command: Command) -> None:
    (url,) = command.urls(1)
    launcher = launchers()[url]
    launcher.parent().kill()  # type: ignore[union-attr]
    wait_until(lambda: len(command.urls(1)) == 2, 30.0, "another actor")
    assert "ray-1: its actor ended: " in command.text
    # It had no instance.
    wait_until(lambda: not launcher.is_running(), 10.0, "its end")


def check_secrets(command: Command) -> None:
    secrets = [each.encode() for each in (TOKEN, PASSWORD, command.token)]
    files = [each for each in command.logs.rglob("*") if each.is_file()]
    texts = [each.read_bytes() for each in (*files, command.output)]
    listed = psutil.process_iter(["cmdline"])
    texts += [" ".join(each.info["cmdline"] or ()).encode() for each in listed]
    assert len(files) > 10
    assert not [text for text in texts for secret in secrets if secret in text]
