"""Invalid settings and an unsuitable system stop the start with one sentence each."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.support.server import ROOT
from tests.support.wait import wait_until

pytestmark = pytest.mark.live

#: A user without an entry in the table of users, but with root's files.
NOBODY = ("unshare", "--user", "--map-user=12345", "--map-group=12345")
SERVE = (sys.executable, "-m", "gym_http_server", "serve", "--port", "0")
# Not a file system of its own, which would hide a checkout that lies below it.
READ_ONLY = "mount --bind {0} {0} && mount -o remount,bind,ro {0}"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="ghst-", dir="/tmp") as made:
        yield Path(made)


def in_namespace(*commands: str) -> tuple[str, ...]:
    """Return the prefix that runs a command with some mounts changed."""
    script = " && ".join([*commands, 'exec "$@"'])
    return ("unshare", "--mount", "sh", "-c", script, "sh")


def needs(wrapper: Sequence[str]) -> None:
    """Skip the test if this cannot be done here, or fail with CI."""
    done = subprocess.run([*wrapper, "true"], capture_output=True, text=True)
    if done.returncode:
        assert not os.environ.get("CI"), done.stderr
        pytest.skip(f"{wrapper[:2]} does not work here: {done.stderr}")


def environment(changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return the environment variables of a server."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GHS_", "XDG_"))}
    kept["PYTHONPATH"] = f"{ROOT}:{ROOT}/clients/python"
    merged = {**kept, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def refusal(
    *flags: str | bytes,
    wrapper: Sequence[str] = (),
    env: Mapping[str, str | None] | None = None,
    cwd: Path | None = None,
) -> str:
    """Start a server that has to refuse, and return the one line that it printed."""
    done = subprocess.run(
        [*wrapper, *SERVE, *flags],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        cwd=cwd,
        env=environment(env or {}),
    )
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("gym-http-server: ")
    return line


@contextlib.contextmanager
def started(
    folder: Path, *flags: str, wrapper: Sequence[str] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the end of the block; its output is in the folder."""
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [*wrapper, *SERVE, *flags],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            env=environment({}),
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0, (folder / "output").read_text()


def serves(folder: Path) -> bool:
    output = (folder / "output").read_text()
    assert "Traceback" not in output, output
    return "Listening on http://127.0.0.1:" in output


@pytest.mark.parametrize("home", [None, "", "relative"])
def test_no_home_directory(home: str | None) -> None:
    needs(NOBODY)
    line = refusal(wrapper=NOBODY, env={"HOME": home})
    assert "no home directory" in line
    assert "--data-dir" in line


@pytest.mark.parametrize("below", ["", "/below"])
@pytest.mark.parametrize("setting", ["--data-dir", "--relay-dir", "--run-dir"])
def test_a_path_that_is_no_directory(setting: str, below: str, folder: Path) -> None:
    (folder / "file").touch()
    path = f"{folder}/file{below}"
    line = refusal(setting, path)
    assert path in line
    assert setting in line


@pytest.mark.parametrize("below", ["", "/below"])
@pytest.mark.parametrize("setting", ["--data-dir", "--relay-dir", "--run-dir"])
def test_a_directory_that_cannot_be_written(
    setting: str, below: str, folder: Path
) -> None:
    needs(NOBODY)
    (folder / "closed").mkdir(mode=0o555)
    path = f"{folder}/closed{below}"
    line = refusal(setting, path, wrapper=NOBODY, env={"HOME": str(folder)})
    assert path in line
    assert setting in line


@pytest.mark.parametrize("absolute", [True, False])
def test_a_run_directory_whose_parent_does_not_exist(
    absolute: bool, folder: Path
) -> None:
    path = f"{folder}/absent/x/y" if absolute else "absent/x"
    line = refusal("--run-dir", path, cwd=folder)
    parent = os.path.dirname(path)
    assert f"in {path}: there is no directory {parent}; make it first" in line
    assert "--run-dir" in line
    assert not (folder / "absent").exists()


def test_no_temporary_directory() -> None:
    wrapper = in_namespace(*(READ_ONLY.format(path) for path in ("/tmp", "/var/tmp")))
    needs(wrapper)
    line = refusal(wrapper=wrapper, cwd=Path("/proc"))
    assert "temporary directory" in line
    assert "--run-dir" in line


def test_neither_a_temporary_directory_nor_shared_memory_is_needed(
    folder: Path,
) -> None:
    wrapper = in_namespace(
        "mount -t tmpfs tmpfs /mnt",
        *(READ_ONLY.format(path) for path in ("/dev/shm", "/var/tmp", "/tmp")),
        "cd /proc",
    )
    needs(wrapper)
    flags = ("--run-dir", "/mnt", "--data-dir", "/mnt/data")
    with started(folder, *flags, wrapper=wrapper) as process:
        wait_until(lambda: serves(folder) or process.poll() is not None, 30.0)
        assert process.poll() is None, (folder / "output").read_text()


@pytest.mark.parametrize("path", ["/proc", "/proc/below", "/sys/below"])
@pytest.mark.parametrize("setting", ["--data-dir", "--relay-dir", "--run-dir"])
def test_a_directory_of_the_kernel(setting: str, path: str) -> None:
    """Permissions let root write there, but the file system refuses."""
    line = refusal(setting, path)
    assert path in line
    assert f"another one with {setting}" in line or f"place with {setting}" in line


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--allow-env", "["], "--allow-env is '[': expected a pattern of env IDs"),
        (["--max-body", "lots"], "--max-body is 'lots': expected a size from 1K, as"),
        (["--idle-timeout", "5 min"], "--idle-timeout is '5 min': expected a time"),
        (["--log-level", "loud"], "--log-level is 'loud': expected debug, info,"),
        (["--tango-action-space", "{bad"], "--tango-action-space is '{bad': expected"),
        (["--tango-action-space", '{"type":"Dizcrete"}'], "expected a space as JSON"),
        (["--tango-observation-space", "7"], "--tango-observation-space is '7'"),
    ],
)
def test_values_that_cannot_be(flags: list[str], words: str) -> None:
    assert words in refusal(*flags)


def test_an_unknown_variable() -> None:
    line = refusal(env={"GHS_MAX_INSTANCE": "3"})
    assert "GHS_MAX_INSTANCE is not a setting (did you mean GHS_MAX_INSTANCES?)" in line


def test_the_help_shows_groups_defaults_and_units() -> None:
    command = [sys.executable, "-m", "gym_http_server"]
    env = environment({"COLUMNS": "80"})

    def printed(*words: str) -> str:
        done = subprocess.run(
            [*command, *words], capture_output=True, text=True, env=env, check=True
        )
        return " ".join(done.stdout.split())

    shown, all_ = printed("serve", "--help"), printed("settings")
    for words in ("Address: -p, --port N", "[default: 5000]", "[default: 2G]", "15m"):
        assert words in shown
    for flag in ("--spin-us", "--answer-budget", "--tango-name"):
        assert flag not in shown
        assert flag in all_
    assert "--spin-us N [GHS_SPIN_US, default 1000]" in all_


def test_the_list_of_commands_cuts_no_description() -> None:
    command = [sys.executable, "-m", "gym_http_server", "--help"]
    env = environment({"COLUMNS": "80"})
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
    commands = done.stdout.partition("Commands:")[2].splitlines()[1:]
    assert len(commands) >= 10
    assert all(line.endswith(".") and not line.endswith("..") for line in commands)


@pytest.mark.parametrize("host", ["*", "*.example", "http://a.example", "a:80", ""])
def test_invalid_hosts(host: str) -> None:
    line = refusal("--allow-host", host)
    assert f"--allow-host is {host!r}" in line


@pytest.mark.parametrize("mode", ["666", "0602"])
def test_a_socket_for_everybody_wants_a_token(mode: str, folder: Path) -> None:
    path = folder / "s.sock"
    line = refusal("--unix", str(path), "--unix-mode", mode)
    assert mode in line
    assert "--token" in line
    assert not path.exists()


def test_a_socket_for_everybody_with_a_token(folder: Path) -> None:
    path = folder / "s.sock"
    flags = ("--unix", str(path), "--unix-mode", "666", "--token", "t" * 20)
    with started(folder, *flags):
        wait_until(lambda: serves(folder), 30.0)
        assert path.stat().st_mode & 0o777 == 0o666


@pytest.mark.parametrize("setting", ["--data-dir", "--run-dir", "--import"])
def test_names_that_are_not_utf8(setting: str) -> None:
    line = refusal(setting, b"/tmp/\xff")
    assert "UTF-8" in line
    assert setting in line


def test_a_working_directory_that_was_removed() -> None:
    script = 'cd "$(mktemp -d)" && rmdir "$PWD" && exec "$@"'
    line = refusal(wrapper=("sh", "-c", script, "sh"))
    assert "working directory" in line


def test_output_that_cannot_be_written() -> None:
    wrapper = ("sh", "-c", 'exec "$@" > /dev/full', "sh")
    assert "No space left on device" in refusal(wrapper=wrapper)


def test_too_few_descriptors() -> None:
    wrapper = ("sh", "-c", 'ulimit -n 12 && exec "$@"', "sh")
    assert "Too many open files" in refusal(wrapper=wrapper)


def test_standard_streams_may_be_closed(folder: Path) -> None:
    wrapper = ("sh", "-c", 'exec "$@" <&-', "sh")
    with started(folder, wrapper=wrapper) as process:
        wait_until(lambda: serves(folder) or process.poll() is not None, 30.0)
        assert process.poll() is None, (folder / "output").read_text()
