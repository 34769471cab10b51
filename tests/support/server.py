"""Runs the shipped command as a process: starts it, reads its output, ends it.

It also searches for processes and files that an ended server left behind.
"""

import contextlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

import psutil

from gym_http_server.host.mark import DRAWING
from gym_http_server.linux.machine import chosen_workers
from tests.support import processes
from tests.support.wait import wait_until

ROOT = Path(__file__).resolve().parents[2]
_MARK = "TEST_SERVER_BASE"
#: The Python of servers, where tests of a client run with another one.
PYTHON = "TEST_SERVER_PYTHON"
# A test that is killed cannot stop its server. The thread that starts one lives as long
# as its process, as pytest's does.
_SETPRIV = shutil.which("setpriv")
_END_WITH_TEST = (_SETPRIV, "--pdeathsig", "TERM") if _SETPRIV else ()
_READY = re.compile(r"Listening on (https?://\S+)")
# Not that of a drawing, which comes and goes.
_INSTANCE_FOLDER = re.compile(f"(?!{DRAWING})[0-9a-f]{{8}}")


def free_port() -> int:
    """Return a port that is free now, and that the kernel gives nobody by itself."""
    # It gives those from 32768 on to connections and to listeners that name none. Tests
    # in other processes draw, too.
    draw = random.SystemRandom()
    while True:
        port = draw.randrange(20_000, 32_768)
        with (
            contextlib.suppress(OSError),
            socket.create_server(("127.0.0.1", port)),
        ):
            return port


class Server:
    """A server in a separate session, with its own folders and one web worker.

    Its folders are short: the path of a Unix socket holds 107 bytes. Another web worker
    costs a third of a second, and hundreds of servers are started: tests of several
    ones request them, and so do the shared servers.
    """

    running: ClassVar[list["Server"]] = []

    def __init__(
        self,
        *args: str,
        env: Mapping[str, str] | None = None,
        python_path: tuple[Path, ...] = (),
        token: str | None = None,
        parent: str = "/tmp",
        prefix: tuple[str, ...] = (),
        program: str | None = None,
        stderr: int | None = None,
    ) -> None:
        """Prepare a server; nothing runs yet.

        Args:
            args: Flags for ``serve``, which follow and override those of the harness.
            env: Environment variables. GHS_* variables are passed on from here only.
            python_path: Folders with modules that the server may import.
            token: The token that the tests' clients send; it sets nothing.
            parent: Where to make the server's folders.
            prefix: A command that executes the server's command.
            program: An installed command to start, which finds its own modules; the
                repository's by default.
            stderr: Descriptor for the log; by default a file in its folder.
        """
        # Not "ghs-": a server removes folders that look like stale run directories.
        self.base = Path(tempfile.mkdtemp(prefix="ghst-", dir=parent))
        self.run_dir = self.base / "r"
        self.data_dir = self.base / "d"
        self.run_dir.mkdir(mode=0o700)
        self.data_dir.mkdir()
        self.token = token
        self.url = ""
        self.port = 0
        self._args = args
        self._prefix = prefix
        self._program = program
        self._stderr = stderr
        self._env = self._environment(env or {}, python_path)
        self._process: subprocess.Popen[bytes] | None = None
        self._seen: set[psutil.Process] = set()
        self._left_out = 0

    def __enter__(self) -> Self:
        self.launch()
        try:
            self.wait_listening()
            self.wait_complete()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        leftovers = self.end()
        if error is None:
            assert not leftovers, f"left behind by the server:\n{leftovers}"

    @property
    def pid(self) -> int:
        """The process id of the command."""
        assert self._process, "the server was not launched"
        return self._process.pid

    @property
    def supervisor(self) -> psutil.Process:
        """The server's supervisor."""
        return processes.supervisor(self.pid)

    @property
    def stdout(self) -> str:
        """The output of the command so far."""
        return self._read("stdout")

    @property
    def stderr(self) -> str:
        """The log of the command so far, without what `begin_log` left out."""
        return self._read("stderr", self._left_out)

    def begin_log(self) -> None:
        """Leave out the lines so far from `stderr`, for the next test."""
        self._left_out = (self.base / "stderr").stat().st_size

    def log(self) -> str:
        """Return all output so far, stdout first."""
        return f"--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"

    def launch(self) -> None:
        """Start the command and return at once."""
        python = os.environ.get(PYTHON, sys.executable)
        command = [python, "-m", "gym_http_server"]
        command = [self._program] if self._program else command
        command += ["serve", "--port", "0"]
        command += ["--run-dir", str(self.run_dir), "--data-dir", str(self.data_dir)]
        with (
            (self.base / "stdout").open("wb") as out,
            (self.base / "stderr").open("wb") as err,
        ):
            self._process = subprocess.Popen(
                [*self._prefix, *_END_WITH_TEST, *command, *self._args],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err if self._stderr is None else self._stderr,
                cwd=self.base,
                env=self._env,
                start_new_session=True,
            )
        Server.running.append(self)

    def wait_listening(self, timeout: float = 30.0) -> None:
        """Wait for the ready line and read the address from it."""

        def ready() -> re.Match[str] | None:
            match = _READY.search(self.stdout)
            if not match and self.returncode is not None:
                raise AssertionError(f"exited with {self.returncode}")
            return match

        try:
            match = wait_until(ready, timeout, "the line with the address")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log()}") from None
        self.url = match[1].rstrip("/")
        self.port = int(self.url.rpartition(":")[2])

    def wait_complete(self) -> None:
        """Wait until all web workers and services run; the address is printed before.

        A test that is under way would otherwise have left the gateway behind.
        """
        count = self._count_of_workers()
        wait_until(
            lambda: len(processes.gunicorn(self.pid)[1]) == count,
            20.0,
            f"{count} web workers",
        )
        if "--zmq" in self._args:
            wait_until(lambda: self.services("gateway"), 20.0, "the gateway")

    @property
    def returncode(self) -> int | None:
        """The exit status, or None while the command runs."""
        assert self._process
        return self._process.poll()

    def wait_exit(self, timeout: float = 15.0) -> int:
        """Wait until the command has ended by itself and return its status."""
        assert self._process
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"still runs after {timeout} s\n{self.log()}"
            ) from None

    def stop(self, sig: int = signal.SIGTERM, timeout: float = 10.0) -> int:
        """Send a signal, wait for the end and return the exit status."""
        self._seen |= processes.descendants(self.pid)
        if self.returncode is None:
            os.kill(self.pid, sig)
        return self.wait_exit(timeout)

    def kill_and_restart(self) -> None:
        """Kill the command, whose processes then end, and start it at the same port."""
        before = processes.descendants(self.pid)
        self._seen |= before
        os.kill(self.pid, signal.SIGKILL)
        self.wait_exit()
        wait_until(lambda: not processes.alive(before), 20.0, "the server's end")
        self.launch_again()

    def launch_again(self) -> None:
        """Start the command at the same port after its end."""
        Server.running.remove(self)
        self._args = (*self._args, "--port", str(self.port))
        self.launch()
        self.wait_listening()

    def members(self) -> set[psutil.Process]:
        """Return all processes below the command, but those that come and go.

        A server starts others by itself, such as its remover. So a process that a test
        wants is found by `services`, `host` or `environments`, never as the difference
        of two sets of members.
        """
        below = processes.descendants(self.pid)
        return {each for each in below if not processes.comes_and_goes(each)}

    def services(self, title: str) -> list[psutil.Process]:
        """Return the children of the supervisor with a title, such as ``broker``."""
        below = self.supervisor.children()
        return [each for each in below if processes.titled(each, title)]

    def host(self, instance_id: str) -> psutil.Process:
        """Return the process that holds an instance."""
        below = self.supervisor.children()
        (found,) = (each for each in below if processes.holds(each, instance_id))
        return found

    def environments(self) -> set[psutil.Process]:
        """Return the processes of all instances: hosts and what they have started."""
        below = processes.descendants(self.supervisor.pid)
        return {each for each in below if not processes.belongs_to_server(each)}

    def supervisor_descriptors(self) -> int:
        """Count the supervisor's descriptors, but one for each spare host."""
        return self.supervisor.num_fds() - len(self.services("spare host"))

    def instance_folders(self) -> set[Path]:
        """Return the folders of instances in the run directory."""
        # Not below them, where folders may be nested deeply and vanish meanwhile.
        return {
            path
            for path in self.run_dir.glob("*/*")
            if _INSTANCE_FOLDER.fullmatch(path.name)
        }

    def end(self) -> str:
        """End all processes, remove the folders and return what was left behind."""
        left: list[str] = []
        if self._process:
            left += self._end_processes()
            Server.running.remove(self)
            self._process = None
        left += [f"folder {path}" for path in self.instance_folders()]
        sockets = self.run_dir.rglob("*.sock")
        left += [f"socket {path}" for path in sockets if _is_served(path)]
        shutil.rmtree(self.base)
        return "\n".join(left)

    def _count_of_workers(self) -> int:
        count = self._env["GHS_WORKERS"]
        if "--workers" in self._args:
            count = self._args[self._args.index("--workers") + 1]
        return chosen_workers() if count == "auto" else int(count)

    def _read(self, name: str, begin: int = 0) -> str:
        path = self.base / name
        if not path.exists():
            return f"no {path}"
        return path.read_bytes()[begin:].decode(errors="replace")

    def _end_processes(self) -> list[str]:
        left = []
        try:
            self.stop()
        except AssertionError as error:
            left.append(str(error))
        self._seen |= processes.marked(_MARK, str(self.base))
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not processes.alive(self._seen), 3.0)
        if remains := processes.alive(self._seen):
            left.append(processes.describe(remains))
        processes.kill(remains)
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)
        self.wait_exit()
        return left

    def _environment(
        self, extra: Mapping[str, str], python_path: tuple[Path, ...]
    ) -> dict[str, str]:
        env = {k: v for k, v in os.environ.items() if not k.startswith("GHS_")}
        env[_MARK] = str(self.base)
        env["GHS_WORKERS"] = "1"
        if self._program:
            env.pop("PYTHONPATH", None)
            return {**env, **extra}
        paths = [*python_path, ROOT, ROOT / "clients" / "python"]
        before = env.get("PYTHONPATH")
        parts = [str(path) for path in paths] + ([before] if before else [])
        env["PYTHONPATH"] = os.pathsep.join(parts)
        return {**env, **extra}


def _is_served(path: Path) -> bool:
    """Whether a process listens on a socket; one that was killed leaves its file."""
    with socket.socket(socket.AF_UNIX) as end, contextlib.suppress(OSError):
        end.connect(str(path))
        return True
    return False
