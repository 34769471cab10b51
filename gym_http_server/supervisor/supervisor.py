"""The supervisor: starts, watches and ends every host. One thread, one poll loop.

It imports libraries, so that the hosts that it forks need not, and never makes an
environment itself. Web workers ask it for what concerns all instances; calls of
one instance go past it.
"""

from __future__ import annotations

import logging
import os
import secrets
import selectors
import shutil
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

import msgspec

from gym_http_server.envhost.making import read_request
from gym_http_server.errors import (
    CreateDeadline,
    Draining,
    EnvCrashed,
    ShutdownDisabled,
    TooManyInstances,
    UnknownInstance,
)
from gym_http_server.rundir import RunDir
from gym_http_server.settings import Settings
from gym_http_server.supervisor import processes, watch
from gym_http_server.supervisor.connections import Connection
from gym_http_server.supervisor.instance import (
    Ended,
    Instance,
    Tombstones,
    read_log_tail,
)
from gym_http_server.supervisor.modules import Modules
from gym_http_server.supervisor.starts import start_host
from gym_http_server.supervisor.survey import survey
from gym_http_wire.frames import Frame, FrameError
from gym_http_wire.messages import Op, answer, request_head
from gym_http_wire.problems import Problem

__all__ = ["Supervisor"]

TICK_SECONDS = 0.2
MEMORY_TICKS = 5
CLOSE_SECONDS = 2.0
TERM_SECONDS = 0.5
MAX_REQUEST_BYTES = 64 * 1024 * 1024

log = logging.getLogger("gym_http_server.supervisor")


class Supervisor:
    """Owns all hosts.

    Args:
        run: The run directory.
        settings: Limits; the token is not among them.
        modules: What has been imported for hosts to have.
        importable: Directories to look for modules in.
        signals: End of a pair of sockets on which signal numbers arrive.
        launcher: Descriptor that ends when the launcher does.
    """

    def __init__(
        self,
        run: RunDir,
        settings: Settings,
        modules: Modules,
        *,
        importable: tuple[str, ...],
        signals: socket.socket,
        launcher: int,
    ) -> None:
        self._run = run
        self._settings = settings
        self._modules = modules
        self._importable = importable
        self._signals = signals
        self._instances: dict[str, Instance] = {}
        self._by_pid: dict[int, Instance] = {}
        self._tombstones = Tombstones()
        self._survey: bytes | None = None
        self._survey_waiters: list[Connection] = []
        self._stopping = False
        self._ticks = 0
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(run.supervisor_socket)
        self._listener.listen(512)
        self._listener.setblocking(False)
        self._operations: dict[int, Callable[[Connection, Frame], None]] = {
            Op.CREATE: self._create,
            Op.LIST: self._list,
            Op.END: self._end,
            Op.FATE: self._fate,
            Op.REGISTRY: self._registry,
            Op.STATUS: self._status,
            Op.SHUTDOWN: self._shutdown,
        }
        self._watch(self._listener, self._accept)
        self._watch(signals, self._on_signal)
        self._watch(launcher, self._on_launcher_end)

    def run(self) -> None:
        """Work until told to stop and no host is left."""
        next_tick = time.monotonic() + TICK_SECONDS
        while not (self._stopping and not self._instances):
            wait = max(0.0, next_tick - time.monotonic())
            for key, events in self._selector.select(wait):
                key.data(events)
            if time.monotonic() >= next_tick:
                self._tick()
                next_tick = time.monotonic() + TICK_SECONDS
        processes.kill_strays({})

    def _watch(self, source: Any, handler: Callable[[int], None]) -> None:
        self._selector.register(source, selectors.EVENT_READ, handler)

    # Requests

    def _accept(self, events: int) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        connection = Connection(sock, MAX_REQUEST_BYTES)
        self._watch(sock, lambda events: self._serve(connection, events))

    def _serve(self, connection: Connection, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            connection.flush()
        try:
            frames = connection.receive() if events & selectors.EVENT_READ else []
        except FrameError as error:
            log.warning("a request to the supervisor is none: %s", error)
            frames = None
        if frames is None:
            self._hang_up(connection)
            return
        for frame in frames:
            try:
                self._operations[frame.kind](connection, frame)
            except Problem as problem:
                connection.refuse(problem)
            except Exception as error:
                log.exception("a request to the supervisor failed")
                connection.refuse(Problem(f"the supervisor failed: {error}"))
        self._listen_to(connection)

    def _listen_to(self, connection: Connection) -> None:
        wanted = selectors.EVENT_READ
        if connection.unsent:
            wanted |= selectors.EVENT_WRITE
        key = self._selector.get_key(connection.socket)
        if key.events != wanted:
            self._selector.modify(connection.socket, wanted, key.data)

    def _reply(self, connection: Connection, value: Any) -> None:
        body = value if isinstance(value, bytes) else msgspec.json.encode(value)
        connection.answer(answer(200, body))
        if connection.socket.fileno() >= 0:
            self._listen_to(connection)

    def _hang_up(self, connection: Connection) -> None:
        self._selector.unregister(connection.socket)
        connection.socket.close()
        instance = connection.instance
        if instance is not None and not instance.live:
            # Whoever asked for it is gone; nobody could ever learn its ID.
            self._kill(instance, "abandoned")

    def _create(self, connection: Connection, frame: Frame) -> None:
        if self._stopping or os.path.exists(self._run.draining):
            raise Draining("the server is stopping and makes no new instances")
        request = read_request(frame.body, self._settings)
        most = self._settings.max_instances
        if len(self._instances) >= most:
            raise TooManyInstances(
                f"all {most} instances that this server may have are taken; "
                "close one, or raise --max-instances"
            )
        instance_id = secrets.token_hex(4)
        while instance_id in self._instances or instance_id in self._tombstones:
            instance_id = secrets.token_hex(4)
        try:
            instance = start_host(
                instance_id,
                request,
                run=self._run,
                settings=self._settings,
                modules=self._modules,
                importable=self._importable,
            )
        except OSError as error:
            shutil.rmtree(self._run.instance(instance_id), ignore_errors=True)
            raise TooManyInstances(
                f"the machine has no room for another instance: {error}"
            ) from None
        instance.creator = connection
        connection.instance = instance
        self._instances[instance_id] = self._by_pid[instance.pid] = instance
        self._watch(instance.channel, lambda events: self._hear_host(instance))

    def _list(self, connection: Connection, frame: Frame) -> None:
        envs = {i.instance_id: i.env_id for i in self._serving()}
        self._reply(connection, {"all_envs": dict(sorted(envs.items()))})

    def _end(self, connection: Connection, frame: Frame) -> None:
        instance = self._instances.get(request_head(frame).instance_id)
        if instance is None or not instance.live or instance.reason:
            raise UnknownInstance(request_head(frame).instance_id)
        instance.waiters.append(connection)
        self._close(instance, "closed")

    def _fate(self, connection: Connection, frame: Frame) -> None:
        instance_id = request_head(frame).instance_id
        instance = self._instances.get(instance_id)
        if instance is not None and instance.live:
            self._reap()
            if instance_id in self._instances:
                self._reply(connection, {"alive": True})
                return
        self._tell_fate(connection, instance_id)

    def _tell_fate(self, connection: Connection, instance_id: str) -> None:
        ended = self._tombstones.get(instance_id)
        if ended is None:
            raise UnknownInstance(instance_id)
        self._reply(connection, ended.as_json())

    def _registry(self, connection: Connection, frame: Frame) -> None:
        if self._survey is not None:
            self._reply(connection, self._survey)
            return
        self._survey_waiters.append(connection)
        if len(self._survey_waiters) == 1:
            self._start_survey()

    def _start_survey(self) -> None:
        reader, writer = os.pipe()
        if os.fork() == 0:
            try:
                os.close(reader)
                signal.set_wakeup_fd(-1)
                with os.fdopen(writer, "wb") as pipe:
                    pipe.write(survey(self._modules.apart))
            finally:
                os._exit(0)
        os.close(writer)
        parts: list[bytes] = []

        def read(events: int) -> None:
            data = os.read(reader, 1 << 20)
            parts.append(data)
            if not data:
                self._selector.unregister(reader)
                os.close(reader)
                self._end_survey(b"".join(parts))

        self._watch(reader, read)

    def _end_survey(self, found: bytes) -> None:
        waiters, self._survey_waiters = self._survey_waiters, []
        self._survey = found or None
        for connection in waiters:
            if connection.socket.fileno() < 0:
                continue
            if found:
                self._reply(connection, found)
            else:
                connection.refuse(Problem("looking through the environments failed"))

    def _status(self, connection: Connection, frame: Frame) -> None:
        statuses = [i.page.read() for i in self._serving()]
        busy = [s.busy_since_ns for s in statuses if s.busy_since_ns]
        self._reply(
            connection,
            {
                "instances": len(self._instances),
                "making": sum(not i.live for i in self._instances.values()),
                "busy_since_ns": min(busy, default=0),
                "steps": sum(s.steps for s in statuses),
            },
        )

    def _shutdown(self, connection: Connection, frame: Frame) -> None:
        if not self._settings.enable_shutdown:
            raise ShutdownDisabled(
                "this server is not shut down by requests; start it with "
                "--enable-shutdown if it shall be"
            )
        self._reply(connection, {})
        os.kill(os.getppid(), signal.SIGTERM)

    def _serving(self) -> list[Instance]:
        return [i for i in self._instances.values() if i.live and not i.reason]

    # Hosts

    def _hear_host(self, instance: Instance) -> None:
        try:
            data = instance.channel.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            # It is ending; how, the wait status will say.
            self._selector.unregister(instance.channel)
            return
        for frame in instance.reader.feed(data):
            self._answer_create(instance, frame)

    def _answer_create(self, instance: Instance, frame: Frame) -> None:
        creator, instance.creator = instance.creator, None
        if frame.status == 200:
            instance.live = True
            log.info("instance %s of %s made", instance.instance_id, instance.env_id)
        elif not instance.reason:
            instance.reason = "refused"
        if creator is not None and creator.socket.fileno() >= 0:
            creator.instance = None
            creator.answer(frame)
            self._listen_to(creator)

    def _close(self, instance: Instance, reason: str) -> None:
        """Ask a host to close its environment and end; insist later."""
        if instance.reason:
            return
        instance.reason = reason
        instance.kill_at = time.monotonic() + CLOSE_SECONDS
        try:
            instance.channel.send(b"close")
        except OSError:
            instance.kill_at = 0.0

    def _kill(self, instance: Instance, reason: str) -> None:
        instance.reason = instance.reason or reason
        instance.kill_at = float("inf")
        processes.kill_tree(instance.pid)

    def _insist(self, instance: Instance, now: float) -> None:
        instance.kills += 1
        if instance.kills == 1:
            instance.kill_at = now + TERM_SECONDS
            os.kill(instance.pid, signal.SIGTERM)
        else:
            self._kill(instance, instance.reason)

    def _tick(self) -> None:
        self._ticks += 1
        now, now_ns = time.monotonic(), time.monotonic_ns()
        for instance in list(self._instances.values()):
            if instance.reason:
                if now >= instance.kill_at:
                    self._insist(instance, now)
                continue
            reason = watch.overdue(
                instance.page.read(),
                live=instance.live,
                age=now - instance.started,
                now_ns=now_ns,
                settings=self._settings,
            )
            if reason == "idle":
                self._close(instance, reason)
            elif reason is not None:
                self._kill(instance, reason)
            watch.cut_log(self._run.log(instance.instance_id))
        if self._ticks % MEMORY_TICKS == 0:
            self._check_memory()

    def _check_memory(self) -> None:
        most = self._settings.host_memory
        for instance in list(self._instances.values()):
            if not most or instance.reason:
                continue
            if processes.resident_bytes(instance.pid) > most:
                self._kill(instance, "memory")

    def _reap(self) -> None:
        strays = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            instance = self._by_pid.pop(pid, None)
            if instance is not None:
                self._bury(instance, status)
                strays = True
        if strays:
            hosts = {i.instance_id: i.pid for i in self._instances.values()}
            processes.kill_strays(hosts)

    def _bury(self, instance: Instance, wait_status: int) -> None:
        if instance.channel in self._selector.get_map():
            # What it said last may not have been read yet.
            self._hear_host(instance)
        if instance.channel in self._selector.get_map():
            self._selector.unregister(instance.channel)
        instance_id = instance.instance_id
        del self._instances[instance_id]
        reason = instance.reason or "crashed"
        tail = read_log_tail(self._run.log(instance_id))
        ended = Ended(instance.env_id, reason, wait_status, tail, time.monotonic())
        instance.release()
        shutil.rmtree(self._run.instance(instance_id), ignore_errors=True)
        if instance.live:
            self._tombstones.add(instance_id, ended)
            log.info("instance %s ended: %s", instance_id, reason)
            for connection in instance.waiters:
                if connection.socket.fileno() >= 0:
                    self._tell_fate(connection, instance_id)
        creator = instance.creator
        if creator is not None and creator.socket.fileno() >= 0:
            creator.instance = None
            creator.refuse(self._why_not_made(instance, ended))
            self._listen_to(creator)

    def _why_not_made(self, instance: Instance, ended: Ended) -> Problem:
        told = ended.as_json()
        extras = {"signal": told["signal"], "log_tail": told["log_tail"]}
        if ended.reason == "create-deadline":
            return CreateDeadline(
                f"making {instance.env_id} took longer than the "
                f"{self._settings.create_deadline:g} s allowed; raise --create-deadline"
            )
        if ended.reason == "shutdown":
            return Draining("the server is stopping and makes no new instances")
        how = told["signal"] or f"exit status {told['exit_status']}"
        if ended.reason == "memory":
            how = f"more than {self._settings.host_memory} bytes of memory"
        return EnvCrashed(
            f"the host ended while making {instance.env_id}: {how}", extras=extras
        )

    # The end

    def _on_signal(self, events: int) -> None:
        for number in self._signals.recv(4096):
            if number == signal.SIGCHLD:
                self._reap()
            elif number == signal.SIGTERM:
                self._stop()

    def _stop(self) -> None:
        self._stopping = True
        for instance in list(self._instances.values()):
            if instance.live:
                self._close(instance, "shutdown")
            else:
                self._kill(instance, "shutdown")

    def _on_launcher_end(self, events: int) -> None:
        log.error("the launcher is gone; ending all hosts")
        for instance in list(self._instances.values()):
            self._kill(instance, "shutdown")
        processes.kill_strays({})
        shutil.rmtree(self._run.path, ignore_errors=True)
        os._exit(1)
