"""``gym-http-server bench`` against correct and failing servers."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from gym_http_server.commands import cli
from tests.support.api import Api
from tests.support.server import ROOT, Server
from tests.support.wait import wait_until

MakeServer = Callable[..., Server]


def command(*args: str) -> list[str]:
    """Return the command line."""
    return [sys.executable, "-m", "gym_http_server", "bench", *args]


def environment(**more: str) -> dict[str, str]:
    """Return the variables that it runs with."""
    own = {k: v for k, v in os.environ.items() if not k.startswith("GHS_")}
    paths = os.pathsep.join([str(ROOT), str(ROOT / "clients" / "python")])
    return {**own, "PYTHONPATH": paths, **more}


def bench(*args: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        command(*args),
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


@pytest.mark.slow
def test_it_measures_and_closes_its_instances(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    done = bench(server.url, "--seconds", "0.2", "--json", str(file))
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())
    found = [(row["name"], row["clients"]) for row in rows]
    assert found == [
        ("rest_1", 1),
        ("rest_4", 4),
        ("rest_16", 16),
        ("remote_env_rest", 1),
        ("remote_env_stream", 1),
        ("vector_stream", 1),
    ]
    for row in rows:
        assert row["steps_per_second"] > 0
        assert 0 < row["p50_us"] <= row["p99_us"] < 200_000
        assert f"{row['name']} " in done.stdout
    assert server.url in done.stdout
    assert Api(server).instances() == {}


def test_a_token(make_server: MakeServer) -> None:
    token = "bench-0d5c1f7e9a3b2468"
    running = make_server("--token", token, token=token)
    only = ["--only", "rest_1", "--seconds", "0.1"]
    within = running.url.replace("//", f"//:{token}@")
    for done in (bench(running.url, *only, GHS_TOKEN=token), bench(within, *only)):
        assert done.returncode == 0, done.stderr
        assert token not in done.stdout
    refused = bench(running.url, *only)
    assert refused.returncode == 1
    assert "token is missing" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_a_server_that_has_no_place_for_so_many(make_server: MakeServer) -> None:
    running = make_server("--max-instances", "3")
    done = bench(running.url, "--only", "rest_4", "--seconds", "0.1")
    assert done.returncode == 1
    assert done.stderr.startswith("bench: ")
    assert "3 instances" in done.stderr
    assert done.stderr.count("\n") == 1
    assert Api(running).instances() == {}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_when_it_is_stopped_nothing_stays(number: int, server: Server) -> None:
    args = [server.url, "--only", "rest_4", "--seconds", "2"]
    with subprocess.Popen(
        command(*args),
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # As in a shell, all of its processes receive the signal.
        start_new_session=True,
    ) as process:
        wait_until(lambda: len(Api(server).instances()) == 4)
        os.killpg(process.pid, number)
        _, message = process.communicate(timeout=20)
    assert process.returncode != 0
    assert message == ""
    wait_until(lambda: Api(server).instances() == {})


def test_no_server() -> None:
    with socket.socket() as held:
        # Bound but not listening: no other process can use this port meanwhile.
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        done = bench(url)
    assert done.returncode == 1
    assert done.stderr.startswith("bench: ")
    assert url in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "required: url"),
        (["secret-host:5000"], "looks like http://127.0.0.1:5000"),
        (["http://127.0.0.1:1", "--seconds", "0"], "from 0 to 3600"),
        (["http://127.0.0.1:1", "--only", "rest_3"], "rest_1"),
    ],
)
def test_invalid_arguments(args: list[str], words: str) -> None:
    done = bench(*args)
    assert done.returncode == 2
    assert words in done.stderr
    assert "secret" not in done.stderr


def test_help() -> None:
    answer = bench("--help")
    assert answer.returncode == 0
    assert "GHS_TOKEN" in answer.stdout
    assert bench("-h").stdout == answer.stdout


def test_without_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "BENCH", "no_such_client.bench")
    done = CliRunner().invoke(cli.main, ["bench", "http://127.0.0.1:5000"])
    assert done.exit_code == 1
    assert "pip install gymnasium-http-client" in done.output
