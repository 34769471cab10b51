"""The launcher: the process that a user starts, parent of supervisor and gunicorn.

It handles signals, so the server can report that it drains while it still answers. If
one of its two children dies, the launcher ends all processes, and exits with 1.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import logging
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import msgspec

from gym_http_server.access.identities import quotas
from gym_http_server.commands.listeners import file_name
from gym_http_server.commands.module_paths import resolve_imports
from gym_http_server.commands.reload import ControlSocket, describe, read_anew
from gym_http_server.config import inherited_settings
from gym_http_server.config.certificates import Certificate
from gym_http_server.config.inherited_settings import (
    Inherited,
    Replaced,
    SettingsMemory,
)
from gym_http_server.config.setting_type import PREFIX
from gym_http_server.config.settings import Settings
from gym_http_server.errors import Draining, StartError
from gym_http_server.fleet.joining import Membership
from gym_http_server.linux import prctl
from gym_http_server.processes import log_lines
from gym_http_server.processes.peer_credentials import PeerCredentials
from gym_http_server.rundir.directory import RunDir
from gym_http_server.supervisor import processes
from gym_http_server.web.api.tickets import Tickets
from gym_http_server.web.backends.supervisor_client import SupervisorClient
from gym_http_wire.messages import Op, RequestHead
from gym_http_wire.problems import BadParameter, Problem

__all__ = ["Launcher"]

log = logging.getLogger("gym_http_server.launcher")

START_SECONDS = 120.0
GUNICORN_SECONDS = 1.5
HOSTS_SECONDS = 5.0
MEMBER_SECONDS = 10.0
STRAYS_SECONDS = 2.0
TIMEOUT_SECONDS = 2.0
#: Seconds without a heartbeat after which the supervisor counts as dead.
SILENT_SECONDS = 30.0
LOOK_SECONDS = 0.5
#: Seconds that web workers have to use new settings.
CONFIRM_SECONDS = 2.0
_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
# A log rotation tool, for example, may send them by mistake.
_IGNORED = (signal.SIGUSR1, signal.SIGUSR2)


def _raise_descriptor_limit() -> None:
    # A worker accepts as many clients as it may have descriptors.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class SupervisorHeartbeat:
    """A pipe to which the supervisor writes as long as its loop turns.

    Only time in which this process runs counts as silence: when a container is
    thawed, or a machine resumes, the supervisor has had no chance to write either.

    Attributes:
        writer: Descriptor for the supervisor.
    """

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self.writer, False)
        self._looked: float | None = None
        self._silent_s = 0.0

    def silent_s(self, now: float) -> float:
        """Return the seconds since the last write.

        Args:
            now: Monotonic seconds; to be called about every `LOOK_SECONDS`.
        """
        passed = 0.0 if self._looked is None else now - self._looked
        self._looked = now
        self._silent_s += min(passed, 2 * LOOK_SECONDS)
        with contextlib.suppress(BlockingIOError):
            while os.read(self._reader, 4096):
                self._silent_s = 0.0
        return self._silent_s

    def close(self) -> None:
        """Close both ends."""
        os.close(self._reader)
        os.close(self.writer)


def _number_of(level: str) -> int:
    return logging.getLevelNamesMapping()[level.upper()]


def _has_terminal() -> bool:
    """Whether this process has a controlling terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


class Launcher:
    """Starts the server's processes, waits, and ends them.

    Args:
        settings: The settings, with the token and the data directory filled in.
        run: The run directory.
        listeners: The sockets to serve on.
        external: The socket for external environments by plain TCP, or ``None``.
        zmq: The socket for ZeroMQ, or ``None``.
        given: The settings as they were given, for a reload.
        certificate: The certificate of a server with TLS.
        fleet_token: The token of its fleet, or "".
        node_url: Where other servers of its fleet reach it.
    """

    def __init__(
        self,
        settings: Settings,
        run: RunDir,
        listeners: Sequence[socket.socket],
        external: socket.socket | None = None,
        zmq: socket.socket | None = None,
        given: Settings | None = None,
        certificate: Certificate | None = None,
        fleet_token: str = "",
        node_url: str = "",
    ) -> None:
        self._inherited = Inherited(settings, run.path, certificate, fleet_token)
        self._node_url = node_url
        self._membership: Membership | None = None
        self._given = given or settings
        self._run = run
        self._listeners = listeners
        self._memory: SettingsMemory
        # By the name under which the supervisor gets them.
        others = {"external": external, "zmq": zmq}
        self._other_listeners = {k: v for k, v in others.items() if v is not None}
        self._signals, self._waker = socket.socketpair()
        self._alive_reader, self._alive_writer = os.pipe()
        self._heartbeat = SupervisorHeartbeat()
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._gunicorn: subprocess.Popen[bytes] | None = None
        self._control: ControlSocket | None = None
        # Names of all tokens that the server accepts, or accepted once.
        self._names = set(quotas(settings))
        # Whether SIGHUP has arrived, which does not stop a server without a terminal.
        self._hung_up = False
        self._has_terminal = _has_terminal()
        self._draining = False

    def start(self) -> int:
        """Start both processes and wait until they serve.

        Returns:
            How many environments can be made.

        Raises:
            StartError: One of the processes cannot start.
        """
        self._catch_signals()
        _raise_descriptor_limit()
        prctl.become_subreaper()
        prctl.set_dumpable(False)
        self._memory = SettingsMemory.of(self._inherited)
        if self._inherited.settings.fleet:
            self._membership = self._join()
        supervisor_report, supervisor_pid = self._start_supervisor()
        # Commands that connect from now on wait until the server has started.
        control = ControlSocket(self._run, PeerCredentials(supervisor_pid))
        gunicorn_report = self._start_gunicorn()
        report = msgspec.json.decode(self._report(supervisor_report, "supervisor"))
        if "error" in report:
            raise StartError(report["error"])
        self._report(gunicorn_report, "web worker")
        if self._membership is not None:
            self._await_member(self._membership)
        self._control = control
        # The garbage collection at exit need not look at what was imported.
        gc.freeze()
        return int(report["envs"])

    def _join(self) -> Membership:
        inherited = self._inherited
        token, run_path = inherited.fleet_token, inherited.run_path
        return Membership(inherited.settings, token, self._node_url, run_path)

    def _await_member(self, membership: Membership) -> None:
        """Wait until others can find instances of this node, or the store is away."""
        deadline = time.monotonic() + MEMBER_SECONDS
        while not membership.joined and time.monotonic() < deadline:
            if self._signalled(0.02):
                raise StartError("stopped before it was ready")

    def _leave(self) -> None:
        """Leave the fleet, once no instance is left."""
        membership, self._membership = self._membership, None
        if membership is not None:
            membership.leave()

    def wait(self) -> int:
        """Serve until a signal arrives or a process dies; then end all processes.

        Returns:
            The exit status: 0 after a signal, 1 if a process died by itself.
        """
        dead = None
        while dead is None and not self._signalled(LOOK_SECONDS):
            if self._hung_up:
                self._hung_up = False
                with contextlib.suppress(Problem):
                    self._reload()
            dead = self._dead() or self._silent()
        if dead is not None:
            log.error("%s; stopping", dead)
            self.kill()
            return 1
        self._drain()
        return 0

    def kill(self) -> None:
        """End everything at once."""
        for child in (self._gunicorn, self._supervisor):
            if child is not None and child.poll() is None:
                # Hosts end with the supervisor; processes that they started are strays.
                child.kill()
                child.wait()
        self._end_strays()
        self._leave()

    def _catch_signals(self) -> None:
        self._signals.setblocking(False)
        self._waker.setblocking(False)
        for number in (*_STOPPING, signal.SIGHUP):
            signal.signal(number, lambda number, frame: None)
        for number in (signal.SIGCHLD, *_IGNORED):
            # Not SIG_IGN, which everything below would inherit.
            signal.signal(number, lambda number, frame: None)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)

    def _signalled(self, seconds: float) -> bool:
        """Wait for a signal that stops the server; answer commands meanwhile."""
        control = self._control
        commands = [] if control is None else [control.fileno()]
        ready = select.select([self._signals.fileno(), *commands], [], [], seconds)[0]
        if control is not None and control.fileno() in ready:
            self._answer_commands(control)
        try:
            numbers = self._signals.recv(4096)
        except BlockingIOError:
            return False
        if signal.SIGHUP in numbers:
            self._hung_up = True
        stopping = any(number in numbers for number in _STOPPING)
        return stopping or (self._hung_up and self._has_terminal)

    def _answer_commands(self, control: ControlSocket) -> None:
        for command in control.receive():
            try:
                command.answer(self._reload(command.log_level))
            except Problem as problem:
                command.answer(problem)

    def _reload(self, log_level: str = "") -> str:
        """Read tokens, certificate and log level anew; return what has changed.

        Raises:
            Problem: Nothing has changed.
        """
        before = self._inherited.settings.log_level
        try:
            changes = self._replace(log_level)
        except Exception as error:
            # Whatever it is, the server goes on.
            expected = isinstance(error, OSError | StartError | Problem)
            log.error("cannot reload: %s", error, exc_info=not expected)
            raise BadParameter(str(error)) from None
        # The line is logged unless neither of the two levels has such lines.
        levels = before, self._inherited.settings.log_level
        log_lines.set_level(min(levels, key=_number_of))
        log.info("reloaded: %s", changes)
        log_lines.set_level(levels[1])
        return changes

    def _replace(self, log_level: str) -> str:
        if self._draining:
            raise Draining("the server is stopping")
        new = read_anew(self._given, self._inherited, log_level)
        changes = describe(self._inherited, new)
        supervisor = SupervisorClient(self._run)
        # Without it, the reload would not be complete.
        supervisor.status()
        self._memory.replace(new)
        self._inherited = new
        most = quotas(new.settings)
        self._names |= most.keys()
        gone = frozenset(self._names - most.keys())
        Tickets(self._run.tickets).revoke(gone)
        body = msgspec.json.encode(Replaced(most, gone, new.settings.log_level))
        try:
            answer = supervisor.forward(Op.RELOAD, RequestHead(), body)
            late = msgspec.json.decode(answer.body, type=list[str])
        except Problem:
            # It has worked just before, and will read this.
            late = ["the supervisor"]
        late += self._late_workers()
        if late:
            changes += f"; not yet in {', '.join(late)}, busy at the moment"
        return changes

    def _late_workers(self) -> list[str]:
        """Wait until web workers have the new settings; name those that do not."""
        deadline = time.monotonic() + CONFIRM_SECONDS
        while (late := self._memory.unconfirmed()) and time.monotonic() < deadline:
            time.sleep(0.01)
        return [f"web worker {pid}" for pid in late]

    def _dead(self) -> str | None:
        for name, child in (
            ("the supervisor", self._supervisor),
            ("gunicorn", self._gunicorn),
        ):
            if child is not None and child.poll() is not None:
                return f"{name} ended with status {child.returncode}"
        return None

    def _silent(self) -> str | None:
        if self._heartbeat.silent_s(time.monotonic()) <= SILENT_SECONDS:
            return None
        return f"the supervisor has been silent for {SILENT_SECONDS:g} s"

    def _environ(self) -> dict[str, str]:
        # Settings, the token above all, reach children by descriptor only.
        return {k: v for k, v in os.environ.items() if not k.startswith(PREFIX)}

    def _start_supervisor(self) -> tuple[int, int]:
        """Start it; return the descriptor of its report, and its process ID."""
        reader, writer = os.pipe()
        passed = [self._alive_reader, self._heartbeat.writer, writer]
        modules, folders = resolve_imports(self._inherited.settings)
        settings = self._inherited.settings.without_token()
        settings = dataclasses.replace(settings, import_=modules)
        given = self._given
        # Environments in the sandbox must not read them.
        secrets = (
            *(given.token_file, given.tokens, given.keyfile, given.fleet_token_file),
        )
        start = {
            "launcher_pid": os.getpid(),
            "launcher": self._alive_reader,
            "heartbeat": self._heartbeat.writer,
            "report": writer,
            "run_path": self._run.path,
            "importable": folders,
            "addresses": list(map(file_name, self._listeners)),
            "settings": msgspec.json.decode(settings.to_json()),
            "quotas": quotas(self._inherited.settings),
            "secrets": [os.path.abspath(path) for path in secrets if path],
        }
        if self._membership is not None:
            start |= {"fleet": True, "settings_fd": self._memory.fileno()}
            passed.append(self._memory.fileno())
        for name, listener in self._other_listeners.items():
            # Only broker and gateway read the tokens there.
            start |= {name: listener.fileno(), "settings_fd": self._memory.fileno()}
            passed += [listener.fileno(), self._memory.fileno()]
        with inherited_settings.memory_file(msgspec.json.encode(start)) as memory:
            descriptor = str(memory.fileno())
            module = "gym_http_server.supervisor"
            self._supervisor = supervisor = subprocess.Popen(
                [sys.executable, "-P", "-m", module, descriptor],
                env=self._environ(),
                stdin=subprocess.DEVNULL,
                pass_fds=[*passed, memory.fileno()],
                start_new_session=True,
            )
        os.close(writer)
        return reader, supervisor.pid

    def _start_gunicorn(self) -> int:
        reader, writer = os.pipe()
        sockets = [listener.fileno() for listener in self._listeners]
        environ = self._environ()
        environ[inherited_settings.SETTINGS_FD] = str(self._memory.fileno())
        environ[inherited_settings.LISTENER_FDS] = ",".join(map(str, sockets))
        environ[inherited_settings.REPORT_FD] = str(writer)
        environ[inherited_settings.LAUNCHER_PID] = str(os.getpid())
        if "PYTHONPATH" in environ:
            places = environ["PYTHONPATH"].split(os.pathsep)
            environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, places))
        configuration = "python:gym_http_server.web.gunicorn_conf"
        self._gunicorn = subprocess.Popen(
            [sys.executable, "-P", "-m", "gunicorn", "-c", configuration],
            env=environ,
            # gunicorn imports from its working directory before all others.
            cwd="/",
            stdin=subprocess.DEVNULL,
            pass_fds=[self._memory.fileno(), *sockets, writer],
            start_new_session=True,
        )
        os.close(writer)
        return reader

    def _report(self, descriptor: int, child: str) -> bytes:
        """Read the line that a child writes when it is ready."""
        deadline = time.monotonic() + START_SECONDS
        with os.fdopen(descriptor, "rb") as report:
            while not select.select([report], [], [], 0.2)[0]:
                dead = self._dead()
                if dead is not None:
                    raise StartError(f"{dead} before it was ready; see above")
                if self._signalled(0):
                    raise StartError("stopped before it was ready")
                if time.monotonic() > deadline:
                    raise StartError(
                        f"the {child} was not ready in {START_SECONDS:g} s"
                    )
            line = report.readline()
        if not line:
            raise StartError(f"the {child} ended before it was ready; see above")
        return line

    def _drain(self) -> None:
        """Let instances and running calls finish while new ones are refused; end all.

        A second signal ends all processes at once.
        """
        log.info("stopping")
        self._draining = True
        settings = self._inherited.settings
        try:
            self._run.begin_draining()
        except OSError as error:
            log.warning("new instances are not refused while stopping: %s", error)
        signalled = self._waits(settings.drain_delay, 0.1, lambda: True)
        signalled = signalled or self._waits(
            settings.drain_until_idle, LOOK_SECONDS, self._has_instances
        )
        try:
            self._run.begin_stopping()
        except OSError as error:
            log.warning("requests may wait while stopping: %s", error)
        began_ns = time.monotonic_ns()
        if signalled or self._waits(
            settings.drain_timeout, 0.05, lambda: self._in_flight(began_ns)
        ):
            self.kill()
            return
        self._stop(self._gunicorn, GUNICORN_SECONDS)
        for listener in self._listeners:
            listener.close()
        self._stop(self._supervisor, HOSTS_SECONDS)
        self._end_strays()
        self._leave()

    def _waits(
        self, seconds: float, look: float, condition: Callable[[], bool]
    ) -> bool:
        """Wait while a condition holds; return whether a signal arrived meanwhile.

        Args:
            seconds: How long at most.
            look: Seconds between two looks.
            condition: The condition.
        """
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and condition():
            if self._signalled(min(look, left)):
                return True
        return False

    def _has_instances(self) -> bool:
        """Whether an instance is left, or is being made."""
        if self._dead() or self._silent():
            return False
        try:
            status = SupervisorClient(self._run).status(TIMEOUT_SECONDS)
        except Problem:
            # It is busy, or `_silent` finds out.
            return True
        return bool(status["slots"]["taken"])

    def _in_flight(self, began_ns: int) -> bool:
        """Whether a call that was in flight when stopping began still is."""
        try:
            status = SupervisorClient(self._run).status(TIMEOUT_SECONDS)
        except Problem:
            return False
        return bool(status["making"]) or 0 < status["busy_since_ns"] <= began_ns

    def _stop(self, child: subprocess.Popen[bytes] | None, seconds: float) -> None:
        if child is None:
            return
        child.terminate()
        deadline = time.monotonic() + seconds
        while child.poll() is None and time.monotonic() < deadline:
            if self._signalled(0.1):
                break
        if child.poll() is None:
            child.kill()
        child.wait()

    def _end_strays(self) -> None:
        """Kill the remaining descendants, which are children of this process by now."""
        alone = time.monotonic()
        if self._inherited.settings.env_commands:
            alone += processes.COMMAND_SECONDS
        while (now := time.monotonic()) < alone + STRAYS_SECONDS:
            if now >= alone:
                processes.kill_children()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
                self._signalled(0.02)
                continue
            return
