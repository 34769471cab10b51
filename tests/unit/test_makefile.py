"""The targets of `make` for new users, checked without running their commands."""

import os
import re
import shlex
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOORS = ROOT / "tests" / "doors.txt"


def make(*args: str, **environment: str) -> list[str]:
    """Return the lines that make prints."""
    # The tests may run under make itself, whose variables would be passed on.
    own = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        ["make", *args],
        cwd=ROOT,
        env={**own, **environment},
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    return done.stdout.splitlines()


def server_command(*args: str, **environment: str) -> list[str]:
    """Return the command with which `make serve` would end."""
    return shlex.split(make("-n", "serve", *args, **environment)[-1])


def test_make_alone_lists_every_target() -> None:
    targets = re.findall(
        r"^([a-z0-9]+):", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    assert [line.split()[1] for line in make()] == targets
    assert all(len(line.split()) > 2 for line in make("help"))


def test_check_runs_a_test_for_each_door() -> None:
    doors = [line.split() for line in DOORS.read_text().splitlines()]
    assert len({name for name, _ in doors}) == len(doors)
    command = shlex.split(make("-n", "check")[-1])
    assert command[-len(doors) :] == [test for _, test in doors]
    for _, test in doors:
        path, _, name = test.partition("::")
        function = f"def {name.partition('[')[0]}(" if name else ""
        assert function in (ROOT / path).read_text(), test


def test_serve_replaces_its_shell_by_the_server() -> None:
    assert server_command() == ["exec", ".venv/bin/gym-http-server", "serve"]


def test_serve_takes_host_and_port_from_its_command_line() -> None:
    command = server_command("HOST=0.0.0.0", "PORT=7000")
    assert command[3:] == ["--listen", "0.0.0.0", "--port", "7000"]


def test_serve_does_not_take_them_from_the_environment() -> None:
    assert server_command(HOST="workstation", PORT="7000") == server_command()


def test_serve_takes_a_token_from_its_command_line() -> None:
    assert server_command("TOKEN=auto")[3:] == ["--token", "auto"]
    assert server_command(TOKEN="auto") == server_command()
